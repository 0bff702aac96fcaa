"""Some training pairs have placeholders and annotated terms, the same ones each time, and the rest stay."""

import re
from pathlib import Path

import pytest
from tests.data.test_word_translations import LEXICON, pairs
from tests.interop.foreign_models import spm_of

from allyouneed import CorpusFiles, DataConfig, prepare
from allyouneed.data.corpus import CleaningReport
from allyouneed.data.sentencepiece_tokenizer import SentencePieceTokenizer
from allyouneed.errors import UsageError
from allyouneed.tasks.parsing.treebank import TreeFiles
from allyouneed.tasks.task import Units
from allyouneed.terms.glossary import Term
from allyouneed.terms.marked_pairs import (
    PLACEHOLDERS,
    MarkedPairs,
    annotated,
    has_annotation,
    require_symbols,
    without_annotations,
)

BOTH = DataConfig(placeholders=True, annotate_terms=True, vocab_size=300)
ANNOTATED = re.compile(r"(\w+(?: \w+)?) ⟪ ([^⟫]+) ⟫")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> CorpusFiles:
    folder = tmp_path_factory.mktemp("text")
    for side in ("source", "target"):
        lines = [getattr(pair, side) for pair in pairs(1_000)]
        lines[0] = "Press {key} now." if side == "source" else "Jetzt {key} drücken."
        (folder / side).write_bytes("".join(f"{line}\n" for line in lines).encode())
    return CorpusFiles(folder / "source", folder / "target")


def without_marks(source: str, target: str) -> bool:
    return set(PLACEHOLDERS).isdisjoint(source + target) and not has_annotation(source + target)


def test_pairs_are_as_they_are_unless_asked_for(files: CorpusFiles) -> None:
    assert MarkedPairs.of(files, DataConfig()) is files
    marked, plain = MarkedPairs.of(files, BOTH), [*files.read(CleaningReport())]
    found = [*marked.read(CleaningReport())]
    same = [one == other for one, other in zip(found, plain, strict=True)]
    assert 0.5 < sum(same) / len(same) < 0.75  # four fifths of four fifths
    assert all(without_marks(*one[:2]) == is_same for one, is_same in zip(found, same, strict=True))


def test_the_same_pairs_are_marked_each_time(files: CorpusFiles) -> None:
    first, second = (MarkedPairs.of(files, BOTH) for _ in range(2))
    assert [*first.read(CleaningReport())] == [*second.read(CleaningReport())]
    assert first.distinct() == first == second


def test_placeholders_stand_for_words_that_translate_each_other(files: CorpusFiles) -> None:
    report, number = CleaningReport(), 0
    marked = MarkedPairs.of(files, BOTH.replace(annotate_terms=False))
    for pair, plain in zip(marked.read(report), files.read(CleaningReport()), strict=True):
        symbols = [each for each in PLACEHOLDERS if each in pair.source]
        number += bool(symbols)
        assert sorted(symbols) == sorted(each for each in PLACEHOLDERS if each in pair.target)
        assert not has_annotation(pair.source)
        for symbol in symbols:
            assert (pair.source.count(symbol), pair.target.count(symbol)) == (1, 1)
            places = [text.replace(",", "").split() for text in (pair.source, pair.target)]
            here, there = ([word.strip(".") for word in side].index(symbol) for side in places)
            read, written = plain.source.split()[here], plain.target.split()[there]
            assert LEXICON[read.strip(".").lower()] == written.strip(".")
    assert report.notes["pairs have placeholders"] == number > 100


def test_annotations_are_what_the_target_has(files: CorpusFiles) -> None:
    report, number, longer = CleaningReport(), 0, 0
    marked = MarkedPairs.of(files, BOTH.replace(placeholders=False))
    for pair, plain in zip(marked.read(report), files.read(CleaningReport()), strict=True):
        found = ANNOTATED.findall(pair.source)
        number += bool(found)
        assert pair.target == plain.target
        assert re.sub(r" ⟪ [^⟫]+ ⟫", "", pair.source) == plain.source
        for read, written in found:
            longer += " " in written
            assert written in pair.target
            assert (
                " ".join(LEXICON[each.lower()] for each in read.split()[-len(written.split()) :]) == written
            )
    assert report.notes["pairs have annotated terms"] == number > 100
    assert longer


def test_a_text_is_annotated_as_in_training() -> None:
    text = "The dog sees a red ball."
    terms = [Term(4, 7, ("Hund", "Hunde")), Term(15, 23, ("roter Ball",))]
    assert annotated(text, terms) == "The dog ⟪ Hund ⟫ sees a red ball ⟪ roter Ball ⟫."
    assert not has_annotation(text)


def test_data_are_prepared_with_both_and_say_so(files: CorpusFiles, tmp_path: Path) -> None:
    told = list[str]()
    data = prepare(tmp_path / "data", files, files, BOTH, told.append)
    assert (data.config.placeholders, data.config.annotate_terms) == (True, True)
    train, valid = (
        (tmp_path / "data" / "text" / f"{part}.source").read_bytes().decode() for part in ("train", "valid")
    )
    assert "⟪" in train
    assert without_marks(valid, "")
    assert any(re.fullmatch(r"train: \d+ pairs have placeholders", line) for line in told)


def test_trees_have_neither(tmp_path: Path) -> None:
    config = DataConfig(task="parsing", annotate_terms=True)
    (tmp_path / "trees").write_bytes(b"(S (NN a))\n")
    with pytest.raises(UsageError, match="annotate_terms: is for sentence pairs"):
        prepare(tmp_path / "data", TreeFiles(tmp_path / "trees"), config=config)


def test_units_that_cannot_write_the_signs_are_refused() -> None:
    imported = SentencePieceTokenizer.from_model(spm_of([pair.source for pair in pairs()], 40))
    narrow = Units(imported, imported)
    with pytest.raises(UsageError, match="placeholders: the model's sub-words cannot write ◰"):
        require_symbols(narrow, DataConfig(placeholders=True))
    with pytest.raises(UsageError, match="annotate_terms: the model's sub-words cannot write ⟪"):
        require_symbols(narrow, DataConfig(annotate_terms=True))
    require_symbols(narrow, DataConfig())


def test_spans_stay_whole_beside_words_that_are_marked(tmp_path: Path) -> None:
    lines = [f"{pair.source} {{worda}} www.wordb.org" for pair in pairs(600)]
    targets = [f"{pair.target} {{worda}} www.wordb.org WortA WortB" for pair in pairs(600)]
    for side, texts in (("source", lines), ("target", targets)):
        (tmp_path / side).write_bytes("".join(f"{line}\n" for line in texts).encode())
    files = CorpusFiles(tmp_path / "source", tmp_path / "target")
    for config in (BOTH, BOTH.replace(placeholders=False)):
        for pair in MarkedPairs.of(files, config).read(CleaningReport()):
            symbols = sum(pair.source.count(each) for each in PLACEHOLDERS)
            assert symbols >= 2 or ("{worda}" in pair.source and "www.wordb.org" in pair.source)
            assert not re.search(r"[{.]\w* ?⟪|⟫[.}]\w", pair.source), pair.source


def test_the_alignment_of_an_annotated_text_is_that_of_the_text() -> None:
    text, terms = "the moon sees fish", [Term(4, 8, ("Mond",)), Term(9, 13, ("sieht",))]
    long = annotated(text, terms)
    words = {word: (long.index(word), long.index(word) + len(word)) for word in (*text.split(), "Mond", "⟪")}
    links = [(*span, number, number + 1) for number, span in enumerate(words.values())]
    found = {text[begin:end]: number for begin, end, number, _ in without_annotations(links, terms)}
    assert found == {"the": 0, "moon": 1, "sees": 2, "fish": 3}
