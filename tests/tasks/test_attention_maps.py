"""Attention comes with its words and their places in the text."""

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from allyouneed.data.lines import read_lines
from allyouneed.errors import DataError, UsageError
from allyouneed.explorer.page import MOST_WEIGHTS, attention_page
from allyouneed.inference.alignment import align, align_words
from allyouneed.runs.loading import load_translator
from allyouneed.tasks.attention_maps import FORMAT, KINDS, Attention, Word
from allyouneed.tasks.translation.translator import Translator


@pytest.fixture(scope="module")
def attention(translator: Translator) -> Attention:
    return translator.attention("sun  sees, moon!", "nuso seeso, noomo!")


def test_words_have_their_places_in_the_text(attention: Attention) -> None:
    for tokens, texts in (
        (attention.source, ["sun", "sees", ",", "moon", "!", "</s>"]),
        (attention.target, ["<s>", "nuso", "seeso", ",", "noomo", "!"]),
        (attention.written, ["nuso", "seeso", ",", "noomo", "!", "</s>"]),
    ):
        assert [word.text for word in tokens.words] == texts
        for word in tokens.words:
            assert tokens.text[word.begin : word.end] == ("" if word.text in ("<s>", "</s>") else word.text)
        assert [piece for word in tokens.words for piece in range(*word.pieces)] == [
            *range(len(tokens.pieces))
        ]
        for piece, (begin, end) in zip(tokens.pieces, tokens.offsets, strict=True):
            assert tokens.text[begin:end].strip() == piece.strip("▁") or piece in ("<s>", "</s>")
    assert attention.source.words[1] == Word("sees", 5, 9, attention.source.words[1].pieces)


def test_weights_of_words_have_rows_that_sum_to_one(attention: Attention) -> None:
    merged = attention.in_words()
    for name, kind in KINDS.items():
        weights = getattr(merged, name)
        sizes = [len(getattr(attention, sequence).words) for sequence in (kind.queries, kind.keys)]
        assert weights.shape == (1, 2, *sizes)
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))


def test_the_alignment_is_that_of_translating(translator: Translator, toy_text: Path) -> None:
    for sentence in list(read_lines(toy_text / "valid.en"))[:6]:
        (translation,) = translator.translate([sentence], alignments=True)
        shown = translator.attention(sentence)
        assert shown.alignment == translation.alignment  # these sentences are of letters alone
        assert shown.alignment_layer == 1


def test_another_layer_or_head_can_be_said_to_align(toy_model: Path) -> None:
    translator = load_translator(toy_model)
    for head in (1, 2):
        translator.config = translator.config.replace(search={"alignment_head": head})
        shown = translator.attention("sun sees moon", "nuso seeso noomo")
        assert shown.alignment == align_words(
            align(shown.weights.cross[0, head - 1][:, :-1].numpy()),
            shown.source.word_of_piece,
            shown.written.word_of_piece,
        )
    translator.config = translator.config.replace(search={"alignment_layer": 2})
    with pytest.raises(UsageError, match="alignment_layer = 2: the model's decoder has 1"):
        translator.attention("sun", "nuso")


def test_a_source_without_end_symbol_is_shown_without_it(toy_model: Path) -> None:
    translator = load_translator(toy_model)
    (model,) = translator.engine.models
    model.config = model.config.model_copy(update={"source_end": False})
    (translation,) = translator.translate(["sun sees moon"], alignments=True)
    assert translator.attention("sun sees moon").alignment == translation.alignment
    shown = translator.attention("sun sees, moon", "nuso seeso noomo")
    assert [word.text for word in shown.source.words] == ["sun", "sees", ",", "moon"]
    measures: dict[str, Any] = shown.measures()
    has_control = {kind: "control" in of_kind for kind, of_kind in measures.items()}
    assert has_control == {"encoder": False, "decoder": True, "cross": False}
    assert shown.to_json()["sequences"]["source"]["control"] is None
    assert shown.to_json()["sequences"]["written"]["control"] == 3
    assert "</s>" in translator.attention("", "nuso").source.pieces


def test_many_texts_are_looked_into_at_once(translator: Translator) -> None:
    texts = ["sun sees moon", "", "wolf"]
    given: list[list[str] | None] = [None, ["nuso", "seeso", "flowo"]]
    for targets in given:
        found = list(translator.attentions(texts, targets))
        for number, (text, shown) in enumerate(zip(texts, found, strict=True)):
            alone = translator.attention(text, None if targets is None else targets[number])
            assert shown.written == alone.written
            assert torch.equal(shown.weights.cross, alone.weights.cross)


def test_a_page_is_made_without_a_list_of_weights_and_is_bounded(attention: Attention) -> None:
    document = attention.document()
    for kind in document["kinds"].values():
        assert isinstance(kind["weights"], np.ndarray)
        kind["weights"] = kind["weights"].astype(np.float64).round(7)  # as in JSON
    assert attention_page(document) == attention_page(attention.to_json())
    side = int((MOST_WEIGHTS / 2) ** 0.5)
    of_kind = np.broadcast_to(np.float32(0), (1, 1, side, side))  # which takes no memory
    for kind in document["kinds"].values():
        kind["weights"] = of_kind
    with pytest.raises(DataError, match=f"the page would hold {3 * side**2:,} weights, of .* 50,000,000"):
        attention_page(document)


def test_too_many_weights_for_a_page_are_refused_before_they_are_computed(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = translator.attention("sun sees moon", for_page=True)
    num_weights = sum(getattr(shown.weights, kind).numel() for kind in KINDS)
    for most, is_refused in ((num_weights, False), (num_weights - 1, True)):
        monkeypatch.setattr("allyouneed.tasks.attention_maps.MOST_WEIGHTS", most)
        with contextlib.ExitStack() as stack:
            if is_refused:
                monkeypatch.setattr("allyouneed.inference.attention_weights.capture_attention", None)
                stack.enter_context(pytest.raises(DataError, match=f"would hold {num_weights:,} weights"))
            assert translator.attention("sun sees moon", for_page=True).written == shown.written


def test_it_can_be_kept_as_json(attention: Attention) -> None:
    document = attention.to_json()
    assert document["format"] == FORMAT
    for name, kind in KINDS.items():
        of_kind = document["kinds"][name]
        torch.testing.assert_close(
            torch.tensor(of_kind["weights"]), getattr(attention.weights, name), rtol=0, atol=1e-6
        )
        assert (of_kind["queries"], of_kind["keys"]) == (kind.queries, kind.keys)
    assert document["sequences"]["source"]["words"][1] == {
        "text": "sees",
        "begin": 5,
        "end": 9,
        "pieces": attention.source.words[1].pieces,
    }
    assert set(document["kinds"]["cross"]["measures"]) - set(document["kinds"]["encoder"]["measures"]) == {
        "agreement"
    }


@pytest.mark.parametrize(("source", "target"), [("", ""), ("sun", ""), ("", "nuso"), (" ", "  ")])
def test_empty_texts_have_attention_to_control_symbols(
    translator: Translator, source: str, target: str
) -> None:
    shown = translator.attention(source, target)
    measures: dict[str, Any] = shown.measures()
    assert all(torch.isfinite(values).all() for kind in measures.values() for values in kind.values())
    assert shown.source.words[-1].text == "</s>"
    assert shown._repr_html_().startswith("<iframe")
