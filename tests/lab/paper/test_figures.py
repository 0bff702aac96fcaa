"""The paper's Figures 3 to 5: which heads are chosen, what is drawn of them, and of which model."""

import csv
import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from allyouneed.cli.program import main
from allyouneed.config.run import RunConfig
from allyouneed.data.tokenizer import SMALLEST_VOCABULARY, Tokenizer
from allyouneed.inference.attention_weights import AttentionWeights
from allyouneed.lab.paper.figures import (
    LAW_SENTENCE,
    best_heads,
    dependencies,
    weight_along,
    weight_between,
)
from allyouneed.lab.paper.scales import SCALES, Scale
from allyouneed.runs.loading import load_translator
from allyouneed.tasks.attention_maps import Attention, Pieces, look_into

LETTERS = Tokenizer.train([], "byte", SMALLEST_VOCABULARY)


@pytest.fixture
def attention() -> Attention:
    """Of two layers and four heads over "a b a": words of a letter, and pieces that are spaces."""
    ids = LETTERS.encode("a b a")
    draw = torch.Generator().manual_seed(1)
    size = len(ids) + 1
    weights = torch.rand(2, 4, size, size, generator=draw).softmax(-1)
    config = RunConfig().replace(model={"num_layers": 2, "num_heads": 4})
    text = Pieces.of(LETTERS, ids)
    return look_into(AttentionWeights(weights, weights, weights), text, text, config)


def test_the_chosen_heads_are_those_of_the_largest_product() -> None:
    draw = torch.Generator().manual_seed(2)
    for _ in range(50):
        first, second = torch.rand(2, 3, 4, generator=draw)
        products = {
            (layer, a, b): float(first[layer, a] * second[layer, b])
            for layer in range(3)
            for a, b in itertools.permutations(range(4), 2)
        }
        assert best_heads(first, second) == max(products, key=lambda chosen: products[chosen])
        layer, a, b = best_heads(first, first)
        assert first[layer, a] > first[layer, b]
        assert float(first[layer, a] * first[layer, b]) == max(
            float(row[a] * row[b]) for row in first for a, b in itertools.combinations(range(4), 2)
        )
    assert best_heads(torch.tensor([[0.1], [0.3]]), torch.tensor([[0.2], [0.1]])) == (1, 0, 0)


def test_weights_are_those_between_the_words_that_are_named(attention: Attention) -> None:
    merged = attention.in_words().encoder
    assert [word.text for word in attention.source.words] == ["a", "b", "a", "</s>"]
    torch.testing.assert_close(weight_between(attention, "b", ["a"]), merged[:, :, 1, 0])
    torch.testing.assert_close(
        weight_between(attention, "a", ["b", "</s>"]), merged[:, :, 0, 1] + merged[:, :, 0, 3]
    )
    along = (merged[:, :, 1, 0] + merged[:, :, 1, 2] + merged[:, :, 0, 3]) / 2  # of two words that look
    torch.testing.assert_close(weight_along(attention, [(1, 0), (1, 2), (0, 3)]), along)


def test_the_dependencies_are_a_tree_over_the_words_of_the_sentence() -> None:
    words = re.findall(r"\w+|[^\w\s]", LAW_SENTENCE)
    heads = dict(dependencies())
    assert len(heads) == len(dependencies())
    (root,) = {place for place, word in enumerate(words) if word.isalpha()} - set(heads)
    assert words[root] == "perfect"
    for head in heads.values():
        above = [head]
        while above[-1] in heads and len(above) < len(words):
            above.append(heads[above[-1]])
        assert above[-1] == root
    named = {words[place]: words[head] for place, head in heads.items()}
    assert (named["its"], named["my"], named["The"]) == ("application", "opinion", "Law")


def test_all_figures_of_a_model_are_drawn_and_shown_on_one_page(toy_model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert main(["reproduce", "figures", "--model", str(toy_model), "--out", str(out)]) == 0
    pictures = [path.relative_to(out).with_suffix("") for path in sorted(out.rglob("*.svg"))]
    names = ["figure3", "figure4-full", "figure4-its", "figure5-downwards", "figure5-upwards"]
    assert [path.name for path in pictures] == names
    page = (out / "results.html").read_bytes().decode()
    assert page.count("<figure>") == len(names)
    for path in pictures:
        for form, begins in (("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")):
            assert (out / f"{path}.{form}").read_bytes().startswith(begins)
            assert f'href="{path}.{form}"' in page
        assert f"]({path}.png)" in (out / "results.md").read_bytes().decode()
    assert f"Model: {toy_model}." in page
    assert "Settings:" not in page
    figures = list(csv.DictReader((out / "results.csv").read_bytes().decode().rstrip("\n").split("\n")))
    assert [row["row"] for row in figures] == ["figure3", "figure4", "figure5"]
    assert "pictures" not in figures[0]


def test_the_figures_that_are_told_are_those_of_the_heads_that_are_drawn(
    toy_model: Path, tmp_path: Path
) -> None:
    main(["reproduce", "figures", "--model", str(toy_model), "--out", str(tmp_path), "--rows", "figure4"])
    told: dict[str, Any] = json.loads((tmp_path / "figure4" / "seed-1" / "result.json").read_bytes())
    attention = load_translator(toy_model).attention(LAW_SENTENCE)
    texts = [word.text for word in attention.source.words]
    row = attention.in_words().encoder[told["layer"] - 1, :, texts.index("its")]
    assert told["weight"] == pytest.approx(float(row[told["head"] - 1, 1]))
    assert told["second_weight"] == pytest.approx(float(row[told["second_head"] - 1, 1]))
    assert told["weight"] >= told["second_weight"]
    assert told["uniform"] == 1 / len(texts)
    heads = sorted((told["head"], told["second_head"]))
    picture = told["pictures"]["figure4-its"]
    assert "Encoder, layer 1 of 1, heads" in picture["caption"]
    fragment = re.fullmatch(
        r"attention\.html#kind=encoder&view=lines&layer=1&heads=(\d),(\d)&from=9", picture["page"]
    )
    assert fragment is not None
    assert sorted(map(int, fragment.groups())) == heads
    assert (tmp_path / "figure4" / "seed-1" / "attention.html").is_file()


def test_without_a_model_base_is_trained_once(
    toy_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = {"batch_tokens": 400, "num_steps": 2, "warmup_steps": 2, "precision": "float32"}
    monkeypatch.setitem(SCALES, "tiny", Scale("tiny", 16, 2, steps))
    out = tmp_path / "out"
    assert main(["reproduce", "figures", "--data", str(toy_data), "--out", str(out)]) == 0
    printed, told = capsys.readouterr()
    assert told.count("base/run: resumed at step 2") == 2
    assert (out / "base" / "run" / "latest").is_file()
    assert [line.split()[0] for line in printed.split("\n")[1:4]] == ["figure3", "figure4", "figure5"]
    assert "Encoder, layer" in (out / "results.md").read_bytes().decode()


def test_a_model_is_refused_where_it_is_of_no_use(
    toy_model: Path, toy_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, out = ["--model", str(toy_model)], ["--out", str(tmp_path / "out")]
    for command, message in (
        (["table3", *model], "reproduce table3 has no use for it; give --data"),
        (["figures", *model, "--data", str(toy_data)], "give it or --data"),
        (["figures"], "name prepared folders with --data, or a trained one with --model"),
        (["figures", "--model", str(toy_data)], "is a data directory; a model directory is needed"),
    ):
        assert main(["reproduce", *command, *out]) in (2, 4)
        told = capsys.readouterr().err
        assert message in told
        assert told.count("\n") == 1
    assert not (tmp_path / "out").exists()
    assert main(["reproduce", "figures", *model, *out, "--rows", "figure3"]) == 0
    assert main(["reproduce", "figures", "--data", str(toy_data), *out]) == 2
    assert "began with other data" in capsys.readouterr().err
