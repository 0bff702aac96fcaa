"""The live page computes what the program computes, and asks nobody: its model is in the file."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.conftest import TOY_WORDS
from torch import nn

from allyouneed.config.run import RunConfig
from allyouneed.errors import UsageError
from allyouneed.explorer import live_page as live
from allyouneed.explorer.live_page import live_page
from allyouneed.model.transformer import Transformer
from allyouneed.runs.loading import load_translator
from allyouneed.storage.checkpoint import load_checkpoint, save_checkpoint, store_rounded
from allyouneed.tasks.task import SOURCE_TOKENIZER, TARGET_TOKENIZER

NAMES = SOURCE_TOKENIZER, TARGET_TOKENIZER
SENTENCES = [
    f"{first} {second} {third}"
    for first in TOY_WORDS[:5]
    for second in TOY_WORDS[10:]
    for third in TOY_WORDS[:5]
]
OTHERS = [
    "Ein  Satz, den's nie gab: 3½ Übel – 日本語!",
    "42",
    "  ",
    " sun\tsees  moon ",
    "sun " * 12,
    "</script><img src=x onerror=alert(1)>",
]
VARIANTS: list[dict[str, Any]] = [
    {"norm": "pre", "attention_bias": False},
    {"tied_embeddings": "none", "d_k": 5, "d_v": 7},
    {"num_decoder_layers": 1, "output_bias": True, "scaled_embeddings": False, "layer_norm_epsilon": 1e-3},
    {"norm": "pre", "positions": "rotary"},
    {"norm": "pre", "positions": "rotary", "autoregression": "ssru"},
    {"positions": "concatenated", "decoder_start": "zeros"},
]

OpenPage = Callable[..., Any]


@pytest.fixture
def open_page(browser: Any, tmp_path: Path) -> Iterator[OpenPage]:
    """Open the live page of a model; afterwards it is asserted that nothing was amiss, and nothing loaded."""
    opened: list[Any] = []
    amiss: list[str] = []
    requested: set[str] = set()
    path = tmp_path / "live.html"

    def open_of(model: Path, text: str = "sun", fragment: str = "", **screen: Any) -> Any:
        path.write_bytes(live_page(load_checkpoint(model, NAMES), NAMES, text).encode())
        opened.append(browser.new_context(**screen))
        page = opened[-1].new_page()
        page.set_default_timeout(120_000)
        page.on("pageerror", lambda error: amiss.append(f"error: {error}"))
        page.on("console", lambda message: amiss.extend([message.text] * (message.type == "error")))
        page.on("request", lambda request: requested.add(request.url.split("#")[0]))
        page.goto(f"{path.as_uri()}{fragment}")
        page.wait_for_selector("[data-ready]")
        return page

    yield open_of
    for context in opened:
        context.close()
    assert amiss == []
    assert requested <= {path.as_uri()}


def translated(page: Any, text: str) -> str:
    page.get_by_label("Text to translate").fill(text)
    page.get_by_role("button", name="Translate").click()
    page.wait_for_selector("main:not([aria-busy])")
    return str(page.get_by_label("Translation").text_content())


def choose(page: Any, label: str, value: float) -> None:
    """Move a slider, and wait for the translation."""
    page.get_by_label(label).fill(str(value))
    page.get_by_label(label).dispatch_event("change")
    page.wait_for_selector("main:not([aria-busy])")


@pytest.mark.browser
def test_the_page_translates_50_sentences_as_the_command_does(
    toy_model: Path, tmp_path: Path, open_page: OpenPage
) -> None:
    store_rounded(toy_model, tmp_path / "small")  # the weights that the page has
    page, texts = open_page(toy_model), [*SENTENCES, *OTHERS]
    expected = [found.text for found in load_translator(tmp_path / "small").translate(texts)]
    assert len({*expected}) > 45
    assert [translated(page, text) for text in texts] == expected


def random_model(folder: Path, trained: Path, settings: dict[str, Any]) -> Path:
    """A model of random weights in 8 bits, with the sub-words of a trained one."""
    sizes = {"source_vocab_size": 290, "target_vocab_size": 290, "d_model": 24, "d_ff": 40, "num_heads": 3}
    search = {"beam_size": 3, "max_extra_tokens": 4, "length_penalty": 1.3}
    config = RunConfig().replace(model={**sizes, "num_layers": 2, **settings}, search=search)
    torch.manual_seed(1)
    model = Transformer(config.model)
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1:
            nn.init.uniform_(parameter, -0.5, 0.5)
        elif name.startswith("embeddings"):
            parameter.data.mul_(3)
    attachments = {name: (trained / name).read_bytes() for name in NAMES}
    save_checkpoint(folder / "model", config, model.state_dict(), attachments, {})
    store_rounded(folder / "model", folder / "small")
    return folder / "small"


@pytest.mark.browser
@pytest.mark.parametrize("settings", VARIANTS, ids=", ".join)
def test_random_models_of_other_forms_write_what_the_command_writes(
    settings: dict[str, Any], toy_model: Path, tmp_path: Path, open_page: OpenPage
) -> None:
    model = random_model(tmp_path, toy_model, settings)
    page, translator = open_page(model), load_translator(model)
    for beam_size in (3, 1):
        choose(page, "Beam size", beam_size)
        found = translator.translate(SENTENCES[:3], beam_size=beam_size)
        assert [translated(page, text) for text in SENTENCES[:3]] == [each.text for each in found]


@pytest.mark.browser
@pytest.mark.parametrize("kind", ["encoder", "cross", "decoder"])
def test_the_attention_shown_is_that_of_the_model(kind: str, toy_model: Path, open_page: OpenPage) -> None:
    text = SENTENCES[7]
    page = open_page(toy_model, text, f"#kind={kind}&view=matrix&layer=1&heads=2&pieces=yes")
    page.get_by_text("As a table").click()
    page.locator("table").wait_for()
    rows = page.locator("table tbody tr").all()
    cells = [[float(cell) for cell in row.locator("td").all_text_contents()] for row in rows]
    expected = getattr(load_translator(toy_model).attention(text).weights, kind)[0, 1]
    assert torch.tensor(cells).shape == expected.shape
    assert torch.allclose(torch.tensor(cells), expected, atol=0.02)


@pytest.mark.browser
def test_without_cross_attention_the_words_of_the_source_make_no_difference(
    toy_model: Path, open_page: OpenPage
) -> None:
    page = open_page(toy_model)
    page.get_by_text("Switch heads off").click()
    texts = "sun sees moon", "bear likes fish"
    assert len({translated(page, text) for text in texts}) == 2
    switches = page.get_by_role("button", name="Cross, layer").all()
    for switch in switches:
        switch.click()
        assert switch.get_attribute("aria-pressed") == "false"
    assert len({translated(page, text) for text in texts}) == 1
    for switch in switches:
        switch.click()
    assert len({translated(page, text) for text in texts}) == 2


@pytest.mark.browser
def test_a_high_temperature_draws_many_outputs_and_a_low_one_the_best(
    toy_model: Path, open_page: OpenPage
) -> None:
    page = open_page(toy_model)
    best = translated(page, "sun sees moon")
    choose(page, "Temperature", 2)
    assert len({translated(page, "sun sees moon") for _ in range(6)}) > 1
    choose(page, "Temperature", 0.1)
    assert {translated(page, "sun sees moon") for _ in range(3)} == {best}


@pytest.mark.browser
def test_drawn_outputs_are_as_short_as_the_model_says(
    toy_model: Path, tmp_path: Path, open_page: OpenPage
) -> None:
    made = load_checkpoint(toy_model, NAMES)
    config = made.config.replace(search={"max_length": 2})
    save_checkpoint(tmp_path / "short", config, made.weights, made.attachments, {})
    page = open_page(tmp_path / "short")
    choose(page, "Temperature", 0.1)
    shortest = translated(page, "sun sees moon")
    assert shortest
    assert len(shortest) < len(load_translator(toy_model).translate(["sun sees moon"])[0].text)


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_a_phone(scheme: str, toy_model: Path, open_page: OpenPage) -> None:
    screen = {"viewport": {"width": 390, "height": 844}, "color_scheme": scheme}
    page = open_page(toy_model, SENTENCES[0], **screen)
    page.get_by_text("Switch heads off").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def refusal(model: Path) -> str:
    with pytest.raises(UsageError) as raised:
        live_page(load_checkpoint(model, NAMES), NAMES)
    return str(raised.value)


def test_what_the_page_does_not_know_is_refused_by_name(
    toy_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = load_checkpoint(toy_model, NAMES)

    def changed(name: str, attachments: dict[str, bytes] | None = None, **changes: Any) -> Path:
        config = made.config.replace(**changes)
        save_checkpoint(tmp_path / name, config, made.weights, attachments or made.attachments, {})
        return tmp_path / name

    assert "does not know model.activation = gelu" in refusal(changed("gelu", model={"activation": "gelu"}))
    assert "does not know search.min_length = 3" in refusal(changed("long", search={"min_length": 3}))
    pieces = dict.fromkeys(NAMES, made.attachments[SOURCE_TOKENIZER].replace(b'"BPE"', b'"WordPiece"'))
    assert "has other sub-words" in refusal(changed("pieces", pieces))
    monkeypatch.setattr(live, "MOST_PARAMETERS", 1_000)
    assert "more than the 1,000 of a page" in refusal(toy_model)
