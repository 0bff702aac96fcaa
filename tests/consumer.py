"""What a user's program sees of the types of the public API: `mypy --strict` accepts it as it stands."""

from collections.abc import Iterator
from pathlib import Path
from typing import assert_type

import allyouneed
from allyouneed import (
    Answer,
    Attention,
    Failure,
    PairScore,
    Parse,
    Parser,
    ParseRequest,
    PreparedData,
    Score,
    ScoreRequest,
    TranslateOptions,
    Translation,
    TranslationRequest,
    Translator,
    presets,
)


def train(data: Path, run: Path) -> None:
    """Prepare data and train on it."""
    files = allyouneed.CorpusFiles(data / "train.en", data / "train.de")
    assert_type(allyouneed.prepare(data, files), PreparedData)
    config = presets.base().replace(training={"num_steps": 10})
    assert_type(config, allyouneed.RunConfig)
    assert_type(config.search, allyouneed.SearchConfig)
    allyouneed.train(run, data, config)
    assert_type(allyouneed.average(run, run / "model"), list[Path])
    assert_type(allyouneed.prepare(data / "more", files, tokenizer_from=run / "model"), PreparedData)
    assert_type(allyouneed.continue_from(run / "model"), allyouneed.RunConfig)


def load(path: Path) -> None:
    """Load a model whose task is known, or is not."""
    assert_type(allyouneed.load(path), Translator | Parser)
    assert_type(allyouneed.load_translator(path, device="cpu", precision="int8"), Translator)
    assert_type(allyouneed.load_parser(path), Parser)


def translate(translator: Translator) -> None:
    """Translate, score and look into the attention."""
    assert_type(translator.translate(["A dog runs."], beam_size=4, too_long="error"), list[Translation])
    assert_type(translator.stream(["A dog runs."], n_best=4), Iterator[list[Translation]])
    options: TranslateOptions = {"sampling": True, "seed": 7}
    requests = [TranslationRequest(7, "A dog runs.", prefix="Ein")]
    answers = translator.answer(requests, n_best=2, **options)
    assert_type(answers, Iterator[Answer[list[Translation]] | Failure])
    for answer in answers:
        if isinstance(answer, Failure):
            assert_type(answer.error, allyouneed.DataError)
        else:
            assert_type(answer.result, list[Translation])
            assert_type(answer.notices, tuple[str, ...])
        assert_type(answer.id, int | str)
    assert_type(translator.follow("A dog runs."), Iterator[str])
    assert_type(translator.lost_sentences("One. Two.", "Eins."), str | None)
    assert_type(translator.score(["A dog."], ["Ein Hund."], workers=1), list[PairScore])
    scored = translator.answer_pairs([ScoreRequest("x", "A dog.", "Ein Hund.")])
    assert_type(scored, Iterator[Answer[PairScore] | Failure])
    assert_type(translator.attention("A dog runs."), Attention)
    assert_type(allyouneed.evaluate(translator, ["A dog."], ["Ein Hund."], beam_size=2), list[Score])


def parse(parser: Parser) -> None:
    """Parse text and words."""
    assert_type(parser.parse(["A dog runs.", ["A", "dog"]], constrained=False), list[Parse])
    answers = parser.answer([ParseRequest("a", "A dog runs.")], beam_size=1)
    assert_type(answers, Iterator[Answer[Parse] | Failure])
    assert_type(parser.attention("A dog runs."), Attention)


def mistakes(translator: Translator, parser: Parser) -> None:
    """Call what does not exist; mypy warns of each `ignore` that hides no error."""
    translator.translate(["x"], beam_siez=4)  # type: ignore[call-arg]
    translator.translate(["x"], beam_size="4")  # type: ignore[arg-type]
    translator.stream(["x"], failed=print)  # type: ignore[call-arg]
    parser.parse(["x"], split_sentences=True)  # type: ignore[call-arg]
    allyouneed.trian  # type: ignore[attr-defined]  # noqa: B018
