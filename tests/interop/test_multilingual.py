"""M2M-100 and NLLB of Hugging Face and CTranslate2: the same ids, log-probabilities and outputs."""

import json
import random
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.cli.conftest import RunCommand, run_command  # noqa: F401 - a fixture
from tests.interop.foreign_models import SENTENCES, backwards
from tests.interop.multilingual_models import convert, make_m2m_folder, make_nllb_folder
from tests.packages import require_packages

from allyouneed import load_translator
from allyouneed.cli.program import main
from allyouneed.interop.importing import import_model
from allyouneed.interop.multilingual import read_vocabulary
from allyouneed.tasks.translation.translator import Translator

require_packages("sentencepiece", "transformers", "ctranslate2", "yaml")

KINDS: dict[str, Callable[..., Path]] = {
    "m2m": make_m2m_folder,
    "nllb": make_nllb_folder,
    "nllb with SentencePiece": partial(make_nllb_folder, described=False),
}
CODES = {"m2m": ("en", "de", "__{}__"), "nllb": ("eng_Latn", "deu_Latn", "{}")}
TEXTS = [*SENTENCES[:195], "xy sun", "sun,moon", "Sun", "star  tree", "ﬁsh ½"]
MOST = 40
LEARNING: dict[str, Any] = {
    **{"scale": 1, "init_std": 0.1, "d_model": 64, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128},
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 4),
    **dict.fromkeys(("dropout", "attention_dropout", "encoder_layerdrop", "decoder_layerdrop"), 0.0),
}
"""Settings of a model that learns in 500 updates."""


@pytest.fixture(scope="module", params=KINDS)
def original(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("original") / request.param.split()[0]
    return KINDS[request.param](folder)


@pytest.fixture(scope="module")
def imported(original: Path) -> Path:
    proof = import_model(original, original.with_name("model"))
    assert proof.difference is not None
    assert proof.difference < 1e-5
    return original.with_name("model")


def of_transformers(folder: Path) -> tuple[Any, Any]:
    """The tokeniser, told English and German, and the model."""
    from transformers import M2M100ForConditionalGeneration, M2M100Tokenizer, NllbTokenizer

    source, target, _ = CODES[folder.name]
    kind = M2M100Tokenizer if folder.name == "m2m" else NllbTokenizer
    tokenizer = kind.from_pretrained(folder, local_files_only=True, src_lang=source, tgt_lang=target)
    return tokenizer, M2M100ForConditionalGeneration.from_pretrained(folder, local_files_only=True).eval()


def written_by_transformers(folder: Path, texts: Sequence[str] = TEXTS, **settings: Any) -> list[list[int]]:
    """The ids of each output, without symbols."""
    tokenizer, model = of_transformers(folder)
    target, form = CODES[folder.name][1:]
    first = tokenizer.convert_tokens_to_ids(form.format(target))
    if folder.name == "nllb" and "tokenizer.json" not in {each.name for each in folder.iterdir()}:
        first = read_vocabulary(folder, model.config.vocab_size)[0].index(
            target
        )  # it has another order there
    found = []
    for text in texts:
        ids = source_of(folder, tokenizer, text)
        with torch.inference_mode():
            [out] = model.generate(
                torch.tensor([ids]),
                forced_bos_token_id=first,
                max_new_tokens=MOST,
                **settings,
                suppress_tokens=[0, 1],
            )
        assert out[:2].tolist() == [2, first]
        found.append([token for token in out[2:].tolist() if token not in (1, 2)])
    return found


def source_of(folder: Path, tokenizer: Any, text: str) -> list[int]:
    """The ids by transformers; the language's by its place, as transformers 5 has another one for some."""
    ids: list[int] = tokenizer(text)["input_ids"]
    names, _ = read_vocabulary(folder, json.loads((folder / "config.json").read_bytes())["vocab_size"])
    return [names.index(CODES[folder.name][2].format(CODES[folder.name][0])), *ids[1:]]


def written_by_us(
    original: Path, model: Path, texts: Sequence[str] = TEXTS, **settings: Any
) -> list[list[int]]:
    [order, _] = read_vocabulary(original, load_translator(model).config.model.target_vocab_size - 1)[
        1
    ].orders
    found = translator_of(original, model).translate(texts, max_length=MOST, **settings)
    ids = {name: token for token, name in enumerate(translator_of(original, model)._target_tokenizer.names)}
    return [order.theirs(ids[piece] for piece in each.tokens if piece != "</s>") for each in found]


def translator_of(original: Path, model: Path) -> Translator:
    source, target, _ = CODES[original.name]
    return load_translator(model, source=source, to=target)


def test_ids_are_those_of_transformers(original: Path, imported: Path) -> None:
    tokenizer, model = of_transformers(original)
    order = read_vocabulary(original, model.config.vocab_size)[1].orders[0]
    translator = translator_of(original, imported)
    for text in TEXTS:
        assert [*order.theirs(translator.encode(text)), 2] == source_of(original, tokenizer, text)


def test_greedy_outputs_are_those_of_transformers(original: Path, imported: Path) -> None:
    texts = TEXTS[-25:]
    theirs = written_by_transformers(original, texts, num_beams=1)
    assert written_by_us(original, imported, texts, beam_size=1) == theirs
    assert len({*map(tuple, theirs)}) > 2


def test_folders_of_ctranslate2_are_proved(original: Path) -> None:
    converted = convert(original, original.with_name("converted"))
    proof = import_model(converted, original.with_name("from_converted"))
    assert proof.difference is not None
    assert proof.difference < 1e-5
    assert not proof.notices


def test_the_symbol_of_a_language_is_given_and_not_scored(original: Path, imported: Path) -> None:
    translator = translator_of(original, imported)
    for found, text in zip(translator.translate(TEXTS[:9]), TEXTS, strict=False):
        [scored] = translator.score([text], [found.text])
        assert scored.tokens[: len(found.tokens)] == found.tokens or found.is_cut
        if scored.tokens == found.tokens:
            assert scored.token_log_probs == pytest.approx(found.token_log_probs, abs=1e-4)


def test_languages_are_listed_and_any_code_of_one_is_known(
    imported: Path, original: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    translator = load_translator(imported)
    codes = CODES[original.name][:2]
    assert {*codes} < {*translator.languages}
    assert main(["verify", str(imported)]) == 0
    assert f"{len(translator.languages)} languages: " in capsys.readouterr().out
    [found] = translator.translate(["sun moon"], source="eng", to="ger")
    assert found == translator_of(original, imported).translate(["sun moon"])[0]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "the languages are not given: name that of the text and the one to write (options `from` and"),
        (["--to", "de"], "this model must be told the language of the texts, too"),
        (["--from", "en"], "a source language is given, but not the one --to write; name both"),
        (["--from", "en", "--to", "tlh"], "language 'tlh': the model writes "),
        (["--from", "tlh", "--to", "de"], "language 'tlh': the model writes "),
    ],
)
def test_each_language_that_lacks_or_is_unknown_is_one_line(
    options: list[str],
    said: str,
    imported: Path,
    run_command: RunCommand,  # noqa: F811
) -> None:
    code, _, err = run_command("translate", imported, *options, stdin=b"sun moon\n")
    assert code == (2 if options else 9)
    [line] = err.strip().split("\n")
    assert said in line
    assert len(line) < 400


def test_such_models_are_not_trained_further(
    imported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a").write_bytes(b"sun\n")
    files = ["--source", str(tmp_path / "a"), "--target", str(tmp_path / "a")]
    assert main(["prepare", str(tmp_path / "data"), *files, "--tokenizer-from", str(imported)]) == 2
    assert "cannot be trained further; name another model" in capsys.readouterr().err


@pytest.mark.release
@pytest.mark.parametrize("kind", KINDS)
def test_outputs_of_trained_models_are_those_of_both_programs(kind: str, tmp_path: Path) -> None:
    """German is English backwards; beams of 4 and 5 rank finished outputs alike in all three."""
    original = KINDS[kind](tmp_path / kind.split(maxsplit=1)[0], **LEARNING)
    train(original, num_updates=500)
    model = original.with_name("trained")
    import_model(original, model)
    theirs = written_by_transformers(original, num_beams=1)
    assert written_by_us(original, model, beam_size=1) == theirs
    for beam_size in (4, 5):
        settings: dict[str, Any] = {"num_beams": beam_size, "length_penalty": 1.0, "early_stopping": "never"}
        found = written_by_us(original, model, beam_size=beam_size, length_normalization="average")
        assert found == written_by_transformers(original, **settings)
    assert len({*map(tuple, theirs)}) > 50
    if "SentencePiece" in kind:
        return  # transformers 5 gives languages other ids there, which CTranslate2's converter takes over
    assert written_by_ctranslate2(original, model) == [
        [piece for piece in each.tokens if piece != "</s>"]
        for each in translator_of(original, model).translate(TEXTS, beam_size=4, length_normalization="none")
    ]


def train(folder: Path, num_updates: int) -> None:
    tokenizer, model = of_transformers(folder)
    target = read_vocabulary(folder, model.config.vocab_size)[0].index(
        CODES[folder.name][2].format(CODES[folder.name][1])
    )
    optimizer = torch.optim.Adam(model.train().parameters(), lr=0.003)
    draw = random.Random(1)
    for update in range(num_updates):
        optimizer.param_groups[0]["lr"] = 0.004 * min(1, (update + 1) / 100)
        texts = draw.choices(SENTENCES, k=32)
        sources = [torch.tensor(source_of(folder, tokenizer, text)) for text in texts]
        targets = [torch.tensor([target, *tokenizer(backwards(text))["input_ids"][1:]]) for text in texts]
        ids = torch.nn.utils.rnn.pad_sequence(sources, batch_first=True, padding_value=1)
        labels = torch.nn.utils.rnn.pad_sequence(targets, batch_first=True, padding_value=-100)
        model(input_ids=ids, attention_mask=(ids != 1).long(), labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.save_pretrained(folder)


def written_by_ctranslate2(folder: Path, model: Path) -> list[list[str]]:
    from ctranslate2 import Translator as Other

    tokenizer, _ = of_transformers(folder)
    names, _ = read_vocabulary(folder, load_translator(model).config.model.target_vocab_size - 1)
    other = Other(str(convert(folder, folder.with_name("trained_ct2"))), compute_type="float32")
    first = CODES[folder.name][2].format(CODES[folder.name][1])
    sources = [[names[token] for token in source_of(folder, tokenizer, text)] for text in TEXTS]
    options: dict[str, Any] = {"beam_size": 4, "length_penalty": 0, "min_decoding_length": 0}
    found = other.translate_batch(sources, target_prefix=[[first]] * len(sources), **options)
    return [each.hypotheses[0][1:] for each in found]
