"""A translator gives the same answers however it is asked, and says which text it cannot translate."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from allyouneed.config import ModelConfig, RunConfig
from allyouneed.data.lines import read_lines
from allyouneed.data.tokenizer import CONTROL_SYMBOLS, SMALLEST_VOCABULARY, Tokenizer
from allyouneed.errors import DataError, UsageError
from allyouneed.model import Transformer
from allyouneed.symbols import END, START, UNKNOWN
from allyouneed.training.checkpoint import load_checkpoint
from allyouneed.translation import MAX_TOKENS, Translation, Translator, load


@pytest.fixture(scope="module")
def translator(toy_model: Path) -> Translator:
    return load(toy_model)


@pytest.fixture(scope="module")
def sentences(toy_text: Path) -> list[str]:
    return list(read_lines(toy_text / "valid.en"))


def assert_same(found: list[Translation], expected: list[Translation]) -> None:
    assert [t.text for t in found] == [t.text for t in expected]
    assert [t.score for t in found] == pytest.approx([t.score for t in expected], abs=1e-5)


def test_the_toy_language_has_been_learned(translator: Translator) -> None:
    words = ["sun", "moon", "star", "tree", "river", "stone", "bird", "fish", "wolf", "bear"]
    right = [translation.text for translation in translator.translate(words)]
    assert sum(text == f"{word[::-1]}o" for text, word in zip(right, words, strict=True)) >= 8


@pytest.mark.parametrize("kind", [str, Path])
def test_a_run_a_checkpoint_and_a_model_directory_can_be_loaded(
    toy_run: Path, toy_model: Path, kind: Callable[[Path], Path | str], sentences: list[str]
) -> None:
    latest = toy_run / "checkpoints" / "step-00000120"
    of_run, of_checkpoint = (load(kind(path)).translate(sentences[:5]) for path in (toy_run, latest))
    assert of_run == of_checkpoint
    assert load(kind(toy_model)).translate(sentences[:5]) != of_run


def test_translations_do_not_depend_on_the_batch(translator: Translator, sentences: list[str]) -> None:
    expected = [translator.translate([sentence])[0] for sentence in sentences]
    limits: list[dict[str, int | None]] = [{}, {"batch_size": 1}, {"batch_size": 7}, {"batch_tokens": 60}]
    for limit in limits:
        assert_same(translator.translate(sentences, **limit), expected)
    assert_same(translator.translate(sentences[::-1]), expected[::-1])


def test_the_n_best_are_different_in_order_and_begin_with_the_best(
    translator: Translator, sentences: list[str]
) -> None:
    best = translator.translate(sentences, beam_size=4)
    for found, first in zip(translator.stream(sentences, n_best=4, beam_size=4), best, strict=True):
        assert_same(found[:1], [first])
        assert len({tuple(translation.tokens) for translation in found}) == len(found) == 4
        assert found == sorted(found, key=lambda translation: -translation.score)


def test_a_blank_text_has_the_empty_translation_and_the_others_keep_their_places(
    translator: Translator, sentences: list[str]
) -> None:
    mixed = ["", sentences[0], "\u3000\u200b", " ", sentences[1]]
    found = translator.translate(mixed)
    assert [found[i] for i in (0, 2, 3)] == [Translation("", 0.0, [])] * 3
    assert_same([found[1], found[4]], translator.translate(sentences[:2]))
    assert translator.translate([]) == []


def test_control_symbols_in_a_text_are_text(translator: Translator) -> None:
    texts = ["".join(CONTROL_SYMBOLS), "sun </s> moon", "<unk>"]
    assert min(min(translator.encode(text)) for text in texts) > UNKNOWN
    together = translator.translate(texts)
    assert_same(together, [translator.translate([text])[0] for text in texts])
    assert together[1] != translator.translate(["sun"])[0]


def test_the_pieces_of_a_translation_are_its_text(translator: Translator, sentences: list[str]) -> None:
    for translation in translator.translate(sentences):
        assert "".join(translation.tokens).replace("▁", " ") == f" {translation.text}"


def test_what_is_not_said_is_as_the_models_configuration_has_it(
    toy_model: Path, sentences: list[str]
) -> None:
    translator = load(toy_model)
    explicit = translator.translate(sentences, beam_size=1, length_penalty=1.5, max_extra_tokens=3)
    search = {"beam_size": 1, "length_penalty": 1.5, "max_extra_tokens": 3}
    translator.config = translator.config.replace(search=search)
    assert translator.translate(sentences, beam_size=None) == explicit


def test_one_text_in_place_of_several_is_refused(translator: Translator) -> None:
    with pytest.raises(TypeError, match=r"put it in a list: \[text\]"):
        translator.translate("sun moon")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_best": 0}, "--n-best 0: give 1 or more"),
        (
            {"n_best": 5, "beam_size": 4},
            "5 hypotheses .* of a beam of 4; raise .*--beam-size.* fewer \\(--n-best\\)",
        ),
        ({"batch_size": 0}, "--batch-size 0: give 1 or more"),
        ({"batch_tokens": -1}, "--batch-tokens -1: give 1 or more"),
        ({"beam_size": 0}, "--beam-size: .* greater than or equal to 1, not 0"),
        ({"beam_size": 2.0}, "--beam-size: .* integer, not 2.0"),
        ({"length_penalty": math.nan}, "--length-penalty: .* not nan"),
        (
            {"length_normalization": "mean"},
            "--length-normalization: .*'gnmt', 'average' or 'none', not 'mean'",
        ),
        ({"beam": 4}, "--beam: unknown setting beam; did you mean beam_size?"),
    ],
)
def test_an_option_out_of_range_is_a_usage_error_that_names_it(
    translator: Translator, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        translator.stream(["sun"], **options)


def test_a_text_that_cannot_be_translated_is_told_by_its_number(translator: Translator) -> None:
    for text, message in (("sun " * MAX_TOKENS, "1,024 are the most; split it"), ("\ud800", "surrogate")):
        with pytest.raises(DataError, match=rf"^text 2: .*{message}"):
            translator.translate(["sun", text])


def test_a_text_that_failed_has_the_empty_translation_where_failures_are_listened_to(
    translator: Translator,
) -> None:
    failures: list[DataError] = []
    texts = ["sun", "sun " * MAX_TOKENS, "moon"]
    found = translator.translate(texts, failed=failures.append)
    assert found[1] == Translation("", 0.0, [])
    assert_same([found[0], found[2]], translator.translate(["sun", "moon"]))
    assert [failure.label for failure in failures] == ["E-TOO-LONG"]


def summed_log_prob(model: Transformer, source: list[int], target: list[int]) -> float:
    """The log-probability of a target, token by token, each from a decoder that reads all before it."""
    total = 0.0
    for position, token in enumerate([*target, END]):
        read = torch.tensor([[START, *target[:position]]])
        logits: Tensor = model.project(model(torch.tensor([[*source, END]]), read)[0, -1])
        total += float(logits.double().log_softmax(dim=-1)[token])
    return total


@torch.no_grad()
def test_perplexity_sums_the_log_probabilities_of_every_token_and_end(
    toy_model: Path, translator: Translator, sentences: list[str]
) -> None:
    tokenizer = Tokenizer.load(toy_model / "target_tokenizer.json")
    model = load_checkpoint(toy_model).build_model()
    targets = ["nuso noomo", "", "quite unlike anything"]
    total, num_tokens = translator.negative_log_likelihood(sentences[:3], targets)
    ids = [tokenizer.encode(target) for target in targets]
    expected = [
        summed_log_prob(model, translator.encode(source), target)
        for source, target in zip(sentences, ids, strict=False)
    ]
    assert total == pytest.approx(-sum(expected), rel=1e-5)
    assert num_tokens == sum(len(target) + 1 for target in ids)


def test_a_score_without_normalization_is_the_log_probability(
    translator: Translator, sentences: list[str]
) -> None:
    found = translator.translate(sentences[:5], length_normalization="none")
    total, _ = translator.negative_log_likelihood(sentences[:5], [translation.text for translation in found])
    assert sum(translation.score for translation in found) == pytest.approx(-total, rel=1e-5)


def test_attention_comes_with_the_pieces_that_its_rows_and_columns_stand_for(translator: Translator) -> None:
    translation = translator.translate(["sun sees moon"])[0]
    shown = translator.attention("sun sees moon")
    assert "".join(shown.source) == "▁sun▁sees▁moon</s>"
    assert shown.target == ["<s>", *translation.tokens]
    source, target = len(shown.source), len(shown.target)
    assert shown.weights.encoder.shape == (1, 2, source, source)  # (layers, heads, ..)
    assert shown.weights.decoder.shape == (1, 2, target, target)
    assert shown.weights.cross.shape == (1, 2, target, source)
    for weights in (shown.weights.encoder, shown.weights.decoder, shown.weights.cross):
        torch.testing.assert_close(weights.sum(dim=-1), torch.ones(weights.shape[:-1]))


def test_attention_can_be_asked_for_a_target_that_is_given(translator: Translator) -> None:
    assert "".join(translator.attention("sun", "noomo nuso").target) == "<s>▁noomo▁nuso"
    assert translator.attention(" ").source == ["</s>"]


def test_learned_positions_bound_the_length_of_a_text(tmp_path: Path) -> None:
    size, num_positions = SMALLEST_VOCABULARY, 12
    sizes = {"d_model": 16, "d_ff": 16, "num_heads": 2, "num_layers": 1}
    config = ModelConfig.checked(
        source_vocab_size=size,
        target_vocab_size=size,
        positions="learned",
        max_positions=num_positions,
        **sizes,
    )
    tokenizer = Tokenizer.train([], "byte", size)
    translator = Translator(Transformer(config).eval(), RunConfig(model=config), tokenizer, tokenizer)
    longest, too_long = "x" * (num_positions - 1), "x" * num_positions
    assert len(translator.translate([longest], beam_size=1)[0].tokens) <= num_positions
    assert len(translator.attention(longest).target) <= num_positions
    for ask in (
        lambda: translator.translate([too_long]),
        lambda: translator.attention(longest, too_long),
        lambda: translator.negative_log_likelihood([longest], [too_long]),
    ):
        with pytest.raises(DataError, match="has 12 tokens, 11 are the most"):
            ask()
