"""What a translator says of translations that are given is what it says of its own."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from allyouneed.data.lines import read_lines
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.errors import DataError
from allyouneed.runs.loading import model_of
from allyouneed.storage.checkpoint import load_checkpoint
from allyouneed.symbols import END, START
from allyouneed.tasks.requests import Answer, Failure, ScoreRequest
from allyouneed.tasks.translation.text_encoder import MAX_TOKENS
from allyouneed.tasks.translation.translator import Translator


@pytest.fixture(scope="module")
def pairs(toy_text: Path) -> list[tuple[str, str]]:
    return list(zip(*(read_lines(toy_text / f"valid.{side}") for side in ("en", "toy")), strict=True))


@torch.no_grad()
def test_the_log_probability_of_each_token_is_the_plain_models(
    toy_model: Path, translator: Translator, pairs: list[tuple[str, str]]
) -> None:
    model = model_of(load_checkpoint(toy_model)).eval()
    tokenizer = Tokenizer.load(toy_model / "target_tokenizer.json")
    mixed = [*pairs[:4], ("sun", ""), ("", "nuso"), (pairs[0][0], "quite unlike anything")]
    for (source, target), found in zip(mixed, translator.score(*zip(*mixed, strict=True)), strict=True):
        ids = tokenizer.encode(target)
        read = torch.tensor([[START, *ids]])
        logits: Tensor = model.project(model(torch.tensor([[*translator.encode(source), END]]), read)[0])
        rows = logits.double().log_softmax(dim=-1)
        expected = [float(row[token]) for row, token in zip(rows, [*ids, END], strict=True)]
        assert found.token_log_probs == pytest.approx(expected, abs=1e-4)
        assert found.log_prob == pytest.approx(sum(expected), abs=1e-4)
        assert found.tokens == [*tokenizer.pieces(ids), "</s>"]
        assert found.score == pytest.approx(found.log_prob / ((5 + len(found.tokens)) / 6) ** 0.6)


@pytest.mark.parametrize("normalization", ["gnmt", "average", "none"])
def test_translations_are_scored_as_search_scored_them(
    translator: Translator, pairs: list[tuple[str, str]], normalization: str
) -> None:
    sources = [source for source, _ in pairs]
    options: dict[str, Any] = {"length_normalization": normalization, "length_penalty": 0.9}
    for source, found in zip(sources, translator.stream(sources, n_best=4, **options), strict=True):
        again = translator.score([source] * 4, [translation.text for translation in found], **options)
        assert found[0].tokens == again[0].tokens
        for translation, score in zip(found, again, strict=True):
            if translation.tokens == score.tokens:  # search may spell a text by other pieces
                assert score.score == pytest.approx(translation.score, abs=1e-5)


def test_pairs_without_a_score_keep_their_places(translator: Translator) -> None:
    unread = Failure("b", DataError("cannot be read"))
    first, last = translator.score(["sun", "moon"], ["nuso", "noomo"])
    requests: list[ScoreRequest | Failure] = [
        ScoreRequest("a", "sun", "nuso"),
        unread,
        ScoreRequest("c", "sun " * MAX_TOKENS, "nuso"),
        ScoreRequest(4, "sun", "x" * 2_000),
        ScoreRequest(5, "moon", "noomo"),
    ]
    found = list(translator.answer_pairs(iter(requests)))
    assert [found[0], found[1], found[4]] == [Answer("a", first), unread, Answer(5, last)]
    failures = [answer for answer in found[2:4] if isinstance(answer, Failure)]
    assert [(failure.id, failure.error.messages[0][:20]) for failure in failures] == [
        ("c", "source: the sentence"),
        (4, "target: the sentence"),
    ]


@pytest.mark.parametrize(
    ("sources", "targets", "message"),
    [
        (["sun", "sun " * MAX_TOKENS], ["nuso", "nuso"], "^pair 2: source: the sentence has"),
        (["sun", "sun"], ["nuso", "\ud800"], "^pair 2: target: .*surrogate"),
        (["sun", "sun"], ["nuso"], "^2 sources but 1 targets"),
    ],
)
def test_what_cannot_be_scored_is_told_by_its_number(
    translator: Translator, sources: list[str], targets: list[str], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        translator.score(sources, targets)


def test_no_pairs_have_no_scores(translator: Translator) -> None:
    assert translator.score([], []) == []


def test_pairs_are_read_no_further_than_a_window(translator: Translator) -> None:
    num_read = 0

    def endless() -> Iterator[ScoreRequest | Failure]:
        nonlocal num_read
        unread = DataError("cannot be read")
        while True:
            num_read += 1
            yield Failure(num_read, unread) if num_read % 1_000 else ScoreRequest(num_read, "sun", "nuso")

    scores = translator.answer_pairs(endless())
    assert num_read == 0
    found = [next(scores) for _ in range(10_000)]
    assert sum(isinstance(answer, Answer) for answer in found) == 10
    assert num_read <= 3 * 4_096
