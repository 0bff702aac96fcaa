"""A translator gives the same answers however it is asked, and says which text it cannot translate."""

import itertools
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch
from sacrebleu import CHRF
from tests.packages import require_packages
from torch import Tensor

from allyouneed.config.model import ModelConfig
from allyouneed.config.run import DataConfig, RunConfig, SearchConfig
from allyouneed.data.lines import read_lines
from allyouneed.data.sentencepiece_tokenizer import SentencePieceTokenizer
from allyouneed.data.sentences import Divided, TextPart
from allyouneed.data.tokenizer import SMALLEST_VOCABULARY, Tokenizer
from allyouneed.errors import DataError, ModelError, UsageError
from allyouneed.inference.scheduler import Scheduler
from allyouneed.inference.search_plan import Batching
from allyouneed.model.architectures import build_model
from allyouneed.model.encoder_decoder import EncoderDecoder
from allyouneed.native.library import available
from allyouneed.runs.loading import load_translator, model_of
from allyouneed.storage.checkpoint import load_checkpoint, save_checkpoint
from allyouneed.symbols import CONTROL_SYMBOLS, END, START, UNKNOWN
from allyouneed.tasks.requests import (
    Answer,
    Failure,
    RequiredTerm,
    TranslateOptions,
    TranslationRequest,
    results,
)
from allyouneed.tasks.translation.outputs import (
    TranslatedPart,
    Translation,
    TranslationMaker,
    join_parts,
)
from allyouneed.tasks.translation.task import evaluate
from allyouneed.tasks.translation.text_encoder import MAX_TOKENS, TextEncoder
from allyouneed.tasks.translation.translator import Translator


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
    of_run, of_checkpoint = (
        load_translator(kind(path)).translate(sentences[:5]) for path in (toy_run, latest)
    )
    assert of_run == of_checkpoint
    assert load_translator(kind(toy_model)).translate(sentences[:5]) != of_run


def test_translations_do_not_depend_on_the_batch(translator: Translator, sentences: list[str]) -> None:
    expected = [translator.translate([sentence])[0] for sentence in sentences]
    limits: list[TranslateOptions] = [{}, {"batch_size": 1}, {"batch_size": 7}, {"batch_tokens": 60}]
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
        assert "".join(translation.tokens).replace("▁", " ") == f" {translation.text}</s>"


def test_what_is_not_said_is_as_the_models_configuration_has_it(
    toy_model: Path, sentences: list[str]
) -> None:
    translator = load_translator(toy_model)
    explicit = translator.translate(sentences, beam_size=1, length_penalty=1.5, max_extra_tokens=3)
    search = {"beam_size": 1, "length_penalty": 1.5, "max_extra_tokens": 3}
    translator.config = translator.config.replace(search=search)
    assert translator.translate(sentences, beam_size=None) == explicit


def test_a_model_can_be_configured_to_draw_samples_of_least_risk(
    toy_model: Path, sentences: list[str]
) -> None:
    translator = load_translator(toy_model)
    expected = translator.translate(sentences[:3], mbr=4)
    translator.config = translator.config.replace(search={"mbr": 4})
    assert translator.translate(sentences[:3]) == expected
    searched = translator.translate(sentences[:3], sampling=False, beam_size=2)
    assert [each.text for each in searched] == [
        [*translator.follow(text, beam_size=2)][-1] for text in sentences[:3]
    ]
    with pytest.raises(UsageError, match=r"^beam_size: this is for search only; leave out sampling or mbr$"):
        translator.translate(sentences[:3], beam_size=2)


def test_one_text_in_place_of_several_is_refused(translator: Translator) -> None:
    with pytest.raises(TypeError, match=r"put it in a list: \[text\]"):
        translator.translate("sun moon")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_best": 0}, "^n_best 0: give 1 to 10,000"),
        ({"n_best": 10_001, "sampling": True}, "^n_best 10001: give 1 to 10,000"),
        ({"workers": 1_025}, "^workers: .* at most 1024"),
        (
            {"n_best": 5, "beam_size": 4},
            "5 hypotheses .* of a beam of 4; raise .*beam_size.* fewer \\(n_best\\)",
        ),
        ({"batch_size": 0}, "^batch_size: .* at least 1, not 0"),
        ({"batch_tokens": -1}, "^batch_tokens: .* at least 1, not -1"),
        ({"beam_size": 0}, "^beam_size: .* at least 1, not 0"),
        ({"beam_size": 2.0}, "^beam_size: .* whole number, not 2.0"),
        ({"length_penalty": math.nan}, "^length_penalty: .* not nan"),
        (
            {"length_normalization": "mean"},
            "^length_normalization: .*'gnmt', 'average' or 'none', not 'mean'",
        ),
        ({"beam": 4}, "^unknown setting beam; did you mean beam_size?"),
        ({"mbr": 0}, "^mbr: .* at least 1, not 0"),
        ({"mbr": 10_001}, "^mbr: .* at most 10000"),
        ({"mbr": 2, "n_best": 5}, "^n_best 5: mbr draws only 2 samples"),
        ({"top_p": 1.5, "sampling": True}, "^top_p: .* at most 1"),
        (
            {"top_k": 3, "seed": 1},
            "^top_k, seed: this is for samples only; add sampling, or mbr N$",
        ),
    ],
)
def test_an_option_out_of_range_is_a_usage_error_that_names_it(
    translator: Translator, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        translator.stream(["sun"], **options)


def test_threads_and_workers_have_the_bounds_of_the_command(toy_model: Path, translator: Translator) -> None:
    for threads in (0, 1_025):
        with pytest.raises(UsageError, match=f"^threads {threads}: give 1 to 1,024"):
            load_translator(toy_model, threads=threads)
    with pytest.raises(UsageError, match=r"^workers 1025: give 1 to 1,024"):
        translator.score(["sun"], ["sonne"], workers=1_025)


def test_a_text_that_cannot_be_translated_is_told_by_its_number(translator: Translator) -> None:
    for text, message in (
        ("sun " * MAX_TOKENS, "more than the maximum of 1,024; split it"),
        ("\ud800", "surrogate"),
    ):
        with pytest.raises(DataError, match=rf"^text 2: .*{message}"):
            translator.translate(["sun", text], too_long="error")


def test_each_request_has_its_answer_or_its_failure_in_order(translator: Translator) -> None:
    unread = Failure(1, DataError("cannot be read"))
    texts = ["sun", "sun " * MAX_TOKENS, "moon", ""]
    requests = [TranslationRequest(f"id {text[:4]}", text) for text in texts]
    found = list(translator.answer([unread, *requests], too_long="error"))
    assert found[0] is unread
    assert [answer.id for answer in found[1:]] == [request.id for request in requests]
    assert isinstance(found[2], Failure)
    assert found[2].error.label == "E-TOO-LONG"
    assert found[2].error.messages[0].startswith("the sentence has ")
    translations = list(results(found, [Translation("instead", 0.0)]))
    assert [translations[0], translations[2]] == [[Translation("instead", 0.0)]] * 2
    assert_same([translations[1][0], translations[3][0]], translator.translate(["sun", "moon"]))
    assert translations[4] == [Translation("", 0.0)]


def test_threads_have_their_requests_answered_side_by_side(
    translator: Translator, sentences: list[str]
) -> None:
    expected = [[translator.translate([text])[0].text] for text in sentences]

    def answer(thread: int) -> list[list[str]]:
        requests = [TranslationRequest(f"{thread}-{n}", text) for n, text in enumerate(sentences)]
        answers = [answer for answer in translator.answer(requests) if isinstance(answer, Answer)]
        assert [answer.id for answer in answers] == [request.id for request in requests]
        return [[translation.text for translation in answer.result] for answer in answers]

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(answer, range(6))) == [expected] * 6


def test_a_token_has_a_log_probability(translator: Translator, sentences: list[str]) -> None:
    cases: list[TranslateOptions] = [{}, {"max_length": 2}, {"sampling": True, "seed": 3}]
    for options in cases:
        for found in translator.translate(["", *sentences], **options):
            assert len(found.tokens) == len(found.token_log_probs)
    [found] = translator.translate(["Sun. Moon."], split_sentences=True)
    assert found.tokens.count("</s>") == 2
    assert found.tokens[-1] == "</s>"
    assert repr(found) == f"Translation(text={found.text!r}, score={found.score!r})"


def joined(parts: list[Translation], space: str = " ") -> Translation:
    """Translations in a row, scored by the mean over their tokens, end symbols included."""
    weights = [len(part.tokens) for part in parts]
    total = sum(part.score * weight for part, weight in zip(parts, weights, strict=True))
    score = total / max(1, sum(weights))
    return Translation(
        space.join(part.text for part in parts),
        score,
        [token for part in parts for token in part.tokens],
        [log_prob for part in parts for log_prob in part.token_log_probs],
        is_cut=any(part.is_cut for part in parts),
    )


def test_sentences_of_a_text_are_translated_one_by_one_and_joined_where_that_is_wanted(
    toy_model: Path,
) -> None:
    translator = load_translator(toy_model)
    sentences = ["Sun moon.", "Bird sees fish!", "Wolf."]
    texts = [" ".join(sentences), "", "Star. ", "  ".join(sentences[:2])]
    alone = list(translator.stream(sentences, n_best=3))
    first, empty, _, last = translator.stream(texts, n_best=3, split_sentences=True, batch_size=2)
    for rank in range(3):
        assert_same([first[rank]], [joined([found[rank] for found in alone])])
        assert_same([last[rank]], [joined([found[rank] for found in alone[:2]], space="  ")])
    assert empty == [Translation("", 0.0, [])]
    assert translator.translate(texts[:1]) != first[:1]
    translator.config = translator.config.replace(data={"target_language": "ja"})
    [found] = translator.translate(texts[:1], split_sentences=True)
    assert found.text == joined([found[0] for found in alone], space="").text


def test_parts_without_a_space_between_them_are_one_word_of_alignments() -> None:
    parts = [
        TranslatedPart([Translation(text, -1.0, ["x"], [-1.0], [(0, 0)] if text else [])], source)
        for text, source in (("\u4f60\u597d", "hello"), ("", ""), ("\u518d\u89c1", "bye"), (" end", "end"))
    ]
    [whole] = join_parts(parts, [""] * 5)
    assert whole.text == "\u4f60\u597d\u518d\u89c1 end"
    assert whole.alignment == [(0, 0), (1, 0), (2, 1)]
    [whole] = join_parts(parts, ["", " ", " ", " ", ""])
    assert whole.alignment == [(0, 0), (1, 1), (2, 2)]


def test_the_symbol_for_a_language_that_every_part_begins_with_counts_once_in_alignments() -> None:
    parts = [
        TranslatedPart(
            [Translation("x y", -1.0, ["x"], [-1.0], [(0, 0), (1, 0), (2, 1)])],
            f">>fra<< {source}",
            int(number > 0),
        )
        for number, source in enumerate(("one two", "three four", "five six"))
    ]
    [whole] = join_parts(parts, ["", " ", " ", ""])
    assert whole.alignment is not None
    assert [pair for pair in whole.alignment if pair[0]] == [(1, 0), (2, 1), (3, 2), (4, 3), (5, 4), (6, 5)]
    next_line = TranslatedPart(parts[0].translations, "seven eight nine")
    [lines] = join_parts([*parts, next_line], ["", " ", " ", "\n", ""])
    assert lines.alignment is not None
    assert lines.alignment[-3:] == [(7, 6), (8, 6), (9, 7)]


def test_a_part_without_an_output_has_the_score_of_the_whole() -> None:
    nothing, something = Translation("", -math.inf), Translation("a", -1.0, ["a", "</s>"], [-1.0, -1.0])
    [whole] = join_parts([TranslatedPart([something], "a"), TranslatedPart([nothing], "b")], ["", " ", ""])
    assert whole.score == -math.inf


def test_parts_that_were_cut_weigh_their_tokens() -> None:
    whole = Translation("a", -1.0, ["a", "</s>"], [-1.0, -1.0])
    cut = Translation("b c", -2.0, ["b", "c"], [-2.0, -2.0])
    [both] = join_parts([TranslatedPart([whole], "a"), TranslatedPart([cut], "b")], ["", " ", ""])
    assert both.score == pytest.approx(-1.5)


def test_a_translation_is_cut_if_that_of_any_part_is() -> None:
    whole, cut = Translation("a", -1.0, ["a", "</s>"]), Translation("b", -1.0, ["b"], is_cut=True)
    for parts in ([cut, whole], [whole, cut]):
        assert join_parts([TranslatedPart([part], "x") for part in parts], ["", " ", ""])[0].is_cut
    assert not join_parts([TranslatedPart([whole], "x"), TranslatedPart([whole], "x")], ["", " ", ""])[
        0
    ].is_cut


def test_the_score_of_joined_sentences_is_that_of_the_whole_where_scores_are_averages(
    translator: Translator,
) -> None:
    [average] = translator.translate(
        ["Sun. Moon."], length_normalization="average", beam_size=1, split_sentences=True
    )
    parts = translator.translate(["Sun.", "Moon."], length_normalization="none", beam_size=1)
    whole = sum(part.score for part in parts) / len(average.tokens)
    assert average.score == pytest.approx(whole, rel=1e-5)


def test_a_text_that_is_too_long_is_translated_in_parts_and_told(translator: Translator) -> None:
    texts = ["sun", "sun moon. " * 600, "moon"]
    found = translator.translate(texts)
    assert_same([found[0], found[2]], translator.translate(["sun", "moon"]))
    assert_same(found[1:2], [joined(translator.translate(["sun moon."]) * 600)])
    answers = list(translator.answer(map(TranslationRequest, "abc", texts)))
    told = [answer.notices for answer in answers if isinstance(answer, Answer)]
    assert [len(notices) for notices in told] == [0, 1, 0]
    assert told[1][0].endswith("tokens, more than the maximum of 1,024; translated in 600 parts")


def test_a_text_with_fewer_hypotheses_in_one_part_repeats_its_last(translator: Translator) -> None:
    [found] = translator.stream(["Sun. Moon."], n_best=4, split_sentences=True, max_extra_tokens=0)
    firsts, seconds = translator.stream(["Sun.", "Moon."], n_best=4, max_extra_tokens=0)
    expected = [
        joined([firsts[min(rank, len(firsts) - 1)], seconds[min(rank, len(seconds) - 1)]])
        for rank in range(max(len(firsts), len(seconds)))
    ]
    assert_same(found, expected)


def summed_log_prob(model: EncoderDecoder, source: list[int], target: list[int]) -> float:
    """The log-probability of a target, token by token, each from a decoder that reads all before it."""
    total = 0.0
    for position, token in enumerate([*target, END]):
        read = torch.tensor([[START, *target[:position]]])
        logits: Tensor = model.project(model(torch.tensor([[*source, END]]), read)[0, -1])
        total += float(logits.double().log_softmax(dim=-1)[token])
    return total


def test_the_perplexity_is_that_of_sentences_with_a_first_reference(translator: Translator) -> None:
    *_, some = evaluate(translator, ["sun", "moon star"], ["", "noomo"], ["nus", "ratso"])
    *_, alone = evaluate(translator, ["moon star"], ["noomo"])
    assert some == alone


def test_the_symbol_for_a_language_has_no_letters_of_the_text() -> None:
    require_packages("sentencepiece")
    plain = SentencePieceTokenizer.learn(["A dog runs. The cat sleeps."] * 20, 279)
    names = [*plain.names[len(CONTROL_SYMBOLS) :], ">>fra<<"]
    tokenizer = SentencePieceTokenizer.from_model(plain.model, names)
    encoder = TextEncoder(tokenizer, tokenizer, DataConfig(), None, takes_prefixes=True)
    assert [encoder.own_text(text) for text in (">>fra<< 10:30", "10:30")] == ["10:30", "10:30"]


@torch.no_grad()
def test_perplexity_sums_the_log_probabilities_of_every_token_and_end(
    toy_model: Path, translator: Translator, sentences: list[str]
) -> None:
    tokenizer = Tokenizer.load(toy_model / "target_tokenizer.json")
    model = model_of(load_checkpoint(toy_model))
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
    assert "".join(shown.source.pieces) == "▁sun▁sees▁moon</s>"
    assert shown.target.pieces == ["<s>", *translation.tokens[:-1]]
    assert shown.written.pieces == translation.tokens
    source, target = len(shown.source.pieces), len(shown.target.pieces)
    assert shown.weights.encoder.shape == (1, 2, source, source)  # (layers, heads, ..)
    assert shown.weights.decoder.shape == (1, 2, target, target)
    assert shown.weights.cross.shape == (1, 2, target, source)
    for weights in (shown.weights.encoder, shown.weights.decoder, shown.weights.cross):
        torch.testing.assert_close(weights.sum(dim=-1), torch.ones(weights.shape[:-1]))


def test_attention_can_be_asked_for_a_target_that_is_given(translator: Translator) -> None:
    assert "".join(translator.attention("sun", "noomo nuso").target.pieces) == "<s>▁noomo▁nuso"
    assert translator.attention(" ").source.pieces == ["</s>"]


def test_looking_at_attention_changes_no_bit_of_a_translation(
    translator: Translator, sentences: list[str]
) -> None:
    options: dict[str, Any] = {"alignments": True, "n_best": 3}
    before = list(translator.stream(sentences[:5], **options))
    shown = [translator.attention(sentence) for sentence in sentences[:5]]
    assert list(translator.stream(sentences[:5], **options)) == before
    assert [attention.target.text for attention in shown] == [best.text for best, *_ in before]


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
    translator = Translator(build_model(config).eval(), RunConfig(model=config), tokenizer, tokenizer)
    longest, too_long = "x" * (num_positions - 1), "x" * num_positions
    assert len(translator.translate([longest], beam_size=1)[0].tokens) <= num_positions
    assert len(translator.attention(longest).target.pieces) <= num_positions
    for ask in (
        lambda: translator.translate([too_long], too_long="error"),
        lambda: translator.attention(longest, too_long),
        lambda: translator.negative_log_likelihood([longest], [too_long]),
    ):
        with pytest.raises(DataError, match="has 12 tokens, more than the maximum of 11"):
            ask()
    assert translator.translate([too_long]) == [joined(translator.translate([longest, "x"]))]
    with translator.engine.ready(), Scheduler(Batching()) as scheduler:
        with pytest.raises(DataError, match="has 12 tokens, more than the maximum of 11"):
            translator.submit(scheduler, "x", prefix=[5] * num_positions)
        term = RequiredTerm("x", ("z",), too_long)  # stands where there is no room
        future = translator.submit(scheduler, "x", required=[term], beam_size=2)
        scheduler.work_off()
    assert "z" in future.result().translations[0].text


def test_samples_are_drawn_for_a_seed_whatever_is_translated_beside(
    translator: Translator, sentences: list[str]
) -> None:
    options: dict[str, Any] = {"sampling": True, "temperature": 2.0, "n_best": 3}
    drawn = list(translator.stream(sentences, **options))
    for sentence, samples in zip(sentences[:4], drawn, strict=False):
        [alone] = translator.stream([sentence], **options)
        assert [t.text for t in alone] == [t.text for t in samples]
    assert [[t.text for t in samples] for samples in drawn] != [
        [t.text for t in samples] for samples in translator.stream(sentences, seed=2, **options)
    ]


def test_the_translation_of_least_risk_is_the_sample_most_like_all_samples(
    translator: Translator, sentences: list[str]
) -> None:
    metric = CHRF()
    options: dict[str, Any] = {"temperature": 1.5, "top_p": 0.98, "seed": 3}
    found = list(translator.stream([*sentences[:5], " "], mbr=12, n_best=3, **options))
    assert found.pop() == [Translation("", 0.0, [])]
    drawn = translator.stream(sentences[:5], n_best=12, sampling=True, **options)
    for best, samples in zip(found, drawn, strict=True):
        texts = [sample.text for sample in samples]
        expected = {t: sum(metric.sentence_score(t, [r]).score for r in texts) / len(texts) for t in texts}
        ranked = sorted(expected, key=lambda text: -expected[text])[:3]
        assert [t.score for t in best] == pytest.approx([expected[text] for text in ranked])
        assert expected[best[0].text] == pytest.approx(expected[ranked[0]])
    assert any(len(best) == 3 for best in found)


def test_a_model_loaded_twice_translates_as_it_does_alone(
    toy_model: Path, translator: Translator, sentences: list[str]
) -> None:
    together = load_translator(toy_model, toy_model)
    assert_same(together.translate(sentences), translator.translate(sentences))
    with pytest.raises(UsageError, match="attention is that of one model"):
        together.attention("sun")


def test_models_translate_together_by_the_mean_of_their_probabilities(
    toy_run: Path, toy_model: Path, sentences: list[str]
) -> None:
    paths = [toy_model, toy_run / "checkpoints" / "step-00000040"]
    texts = [translation.text for translation in load_translator(*paths).translate(sentences)]
    scores = [load_translator(path).score(sentences, texts) for path in paths]
    for one, other, both in zip(*scores, load_translator(*paths).score(sentences, texts), strict=True):
        pairs = zip(one.token_log_probs, other.token_log_probs, strict=True)
        expected = [math.log((math.exp(a) + math.exp(b)) / 2) for a, b in pairs]
        assert both.token_log_probs == pytest.approx(expected, abs=1e-5)


def test_models_of_other_vocabularies_do_not_translate_together(
    toy_model: Path, tmp_path: Path, sentences: list[str]
) -> None:
    checkpoint, other = load_checkpoint(toy_model), tmp_path / "other"
    attachments = {
        name: (toy_model / name).read_bytes() for name in ("source_tokenizer.json", "target_tokenizer.json")
    }
    Tokenizer.train(sentences * 9, "bpe", 290).save(tmp_path / "tokenizer")  # of the same size
    attachments["target_tokenizer.json"] = (tmp_path / "tokenizer").read_bytes()
    save_checkpoint(other, checkpoint.config, checkpoint.weights, attachments, {})
    load_translator(other)
    with pytest.raises(ModelError, match=rf"^{other}: has other vocabularies than {toy_model}; an ensemble "):
        load_translator(toy_model, toy_model, other)


def test_only_the_first_part_of_a_text_begins_with_its_prefix(toy_model: Path) -> None:
    translator = load_translator(toy_model)
    texts = ["Sun moon. Bird sees fish.", "", "Star. Wolf. Bear.", "tree"]
    prefixes = ["nuso", "x", "noomo", ""]
    requests = map(TranslationRequest, count(), texts, prefixes)
    found = results(translator.answer(requests, split_sentences=True), [])
    for text, prefix, (translation,) in zip(texts, prefixes, found, strict=True):
        first, *others = text.replace(".", ".|").rstrip("|").split("| ")
        [begun] = results(translator.answer([TranslationRequest(1, first, prefix)]), [])
        parts = begun + translator.translate(others)
        expected = joined(parts)
        assert (translation.text, translation.tokens) == (expected.text, expected.tokens)
        rounding = 0.0 if "float32" in available() else 1e-5
        assert translation.token_log_probs == pytest.approx(expected.token_log_probs, rel=0, abs=rounding)
        assert translation.score == pytest.approx(expected.score, rel=0, abs=rounding)
        assert translation.text.startswith(prefix) or not text


def test_a_half_character_is_not_told() -> None:
    tokenizer, told = Tokenizer.train([], "byte", 261), list[str]()
    ids = tokenizer.encode("für ö")
    maker = TranslationMaker(tokenizer, tokenizer, "de", SearchConfig(), 1)
    watch = maker.watch(Divided([TextPart([7])]), told.append)
    for num in range(len(ids)):
        watch(0, ids[:num], False)
    assert told == ["f", "fü", "für"]
    watch(0, ids, True)
    assert told[3:] == ["für ö"]


def test_each_text_has_a_target_or_none(toy_model: Path) -> None:
    with pytest.raises(DataError, match=r"^2 texts but 1 targets; give one for each$"):
        list(load_translator(toy_model).attentions(["sun", "moon"], ["nus"]))


@pytest.mark.parametrize("precision", ["bf16", "INT8", ""])
def test_an_unknown_precision_is_refused(toy_model: Path, precision: Any) -> None:
    with pytest.raises(UsageError, match=f"^precision {precision}: take float32, bfloat16, int8$"):
        load_translator(toy_model, precision=precision)


@pytest.mark.parametrize("device", ["gpu", "cuda:77"])
def test_a_device_that_is_not_there_is_refused(toy_model: Path, device: str) -> None:
    with pytest.raises(UsageError, match=f"^device {device}: .*; take cpu$"):
        load_translator(toy_model, device=device)


def test_a_translation_can_be_followed_while_it_becomes_certain(toy_model: Path) -> None:
    translator = load_translator(toy_model)
    for text in ("sun moon star", "bird", "", "\n", "Tree fish\n", "sun\nmoon", "10:30", " -- "):
        certain = list(translator.follow(text, beam_size=2))
        assert certain[-1] == translator.translate([text], beam_size=2)[0].text
        assert all(certain[-1].startswith(part) for part in certain)
        assert all(len(one) < len(other) for one, other in itertools.pairwise(certain))


@pytest.mark.parametrize("settings", [{"sampling": True}, {"coverage_penalty": 0.2}], ids=str)
def test_what_is_not_certain_before_the_end_cannot_be_followed(
    translator: Translator, settings: dict[str, Any]
) -> None:
    with pytest.raises(UsageError, match="cannot be followed with"):
        translator.follow("sun", **settings)


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_model_whose_tokeniser_has_another_size_is_refused_with_both_sizes(
    toy_model: Path, tmp_path: Path, side: str
) -> None:
    """Promise: Contents."""
    checkpoint = load_checkpoint(toy_model)
    Tokenizer.train([], "byte", 0).save(tmp_path / "bytes")
    attachments = {**checkpoint.attachments, f"{side}_tokenizer.json": (tmp_path / "bytes").read_bytes()}
    save_checkpoint(tmp_path / "model", checkpoint.config, checkpoint.weights, attachments, {})
    fault = rf"{side}_tokenizer\.json: has 261 entries, but the model was made for 290; take another copy"
    with pytest.raises(ModelError, match=fault):
        load_translator(tmp_path / "model")
