"""The facts about prepared data in words, as text and as JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np

from allyouneed.errors import printable
from allyouneed.explorer.text_tables import figure, megabytes
from allyouneed.preparation.inspecting import RARE, Inspection, NotablePair, Side, VocabularyUse

_PERCENTILES = 50, 90, 99, 100
_SHOWN_CHARACTERS = 160
"""Length at which a sentence is cut off in text and pages; JSON has it whole."""
_LINE_WIDTH = 42
"""Width of a name and its value, in characters."""


class Fact(NamedTuple):
    """A fact, or a comment on the facts before it, which has no value."""

    name: str
    value: str = ""
    remark: str = ""
    name_width: int = 24


def facts_of(found: Inspection) -> Iterator[tuple[str, list[Fact]]]:
    """All facts as title and facts of each section."""
    yield "Size", list(_sizes(found))
    yield "Source lengths", _lengths("source", found.source)
    yield "Target lengths", _lengths("target", found.target)
    for name, vocabulary in found.vocabularies.items():
        yield f"Vocabulary of {name}", list(_vocabulary_use(name, vocabulary))
    yield "Repeats", list(_repeats(found))
    yield (
        "Padding",
        [
            Fact(
                "padding", f"{share:.1%}", f"of what is computed, in micro-batches of {size:,} tokens a side"
            )
            for size, share in found.padding.items()
        ],
    )


def as_text(found: Inspection) -> Iterator[str]:
    """Lines with name, value and remark, then the notable pairs."""
    for number, (_, facts) in enumerate(facts_of(found)):
        if number:
            yield ""
        for name, value, remark, width in facts:
            yield figure(name, value, remark, name_width=width, value_width=_LINE_WIDTH - width)
    for title, pairs in notable_pairs(found):
        yield from ("", title)
        for remark, *texts in pairs:
            yield f"  {remark}"
            yield from (f"    {text}" for text in texts)


def as_json(found: Inspection) -> dict[str, Any]:
    """One JSON object."""
    of_side = "num_tokens", "num_words", "num_characters", "tokens_per_word"
    of_vocabulary = "num_entries", "num_used", "num_rare", "num_unknown_tokens"

    def facts_on(side: Side) -> dict[str, Any]:
        lengths = np.bincount(side.lengths)
        return {name: getattr(side, name) for name in of_side} | {
            "length_percentiles": dict(zip(map(str, _PERCENTILES), _percentiles(side), strict=True)),
            "length_histogram": {str(length): int(lengths[length]) for length in lengths.nonzero()[0]},
        }

    return {
        "directory": str(found.directory),
        **{name: getattr(found, name) for name in ("task", "num_pairs", "num_valid_pairs", "num_bytes")},
        "source": facts_on(found.source),
        "target": facts_on(found.target),
        "vocabularies": {
            name: {field: getattr(each, field) for field in of_vocabulary}
            for name, each in found.vocabularies.items()
        },
        "repeats": asdict(found.repeats),
        "most_repeated": [asdict(each) for each in found.most_repeated],
        "longest": [asdict(each) for each in found.longest],
        "oddest": [asdict(each) for each in found.oddest],
        "padding_share": {str(size): share for size, share in found.padding.items()},
        "report": found.report,
    }


def notable_pairs(found: Inspection) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """Title, and remark, source and target of each pair, of each list that is not empty."""
    lists: dict[str, Sequence[NotablePair]] = {
        f"most repeated {found.examples}": found.most_repeated,
        f"longest {found.examples}": found.longest,
        f"{found.examples} whose lengths fit worst": found.oddest,
    }
    for title, pairs in lists.items():
        if pairs:
            yield (
                title,
                [(_remark(each, found), _shortened(each.source), _shortened(each.target)) for each in pairs],
            )


def _remark(pair: NotablePair, found: Inspection) -> str:
    times = f", {pair.times:,} times" if pair.times > 1 else ""
    tokens = f"{pair.num_source_tokens:,} and {pair.num_target_tokens:,} tokens"
    return f"{found.examples.removesuffix('s')} {pair.number:,}: {tokens}{times}"


def _shortened(text: str) -> str:
    more = f" … ({len(text):,} characters)" if len(text) > _SHOWN_CHARACTERS else ""
    return printable(text[:_SHOWN_CHARACTERS]) + more


def _sizes(found: Inspection) -> Iterator[Fact]:
    report = found.report
    yield Fact(found.examples, f"{found.num_pairs:,}", f"to train on, {found.num_valid_pairs:,} to validate")
    yield Fact("dropped", f"{report['num_dropped']:,}", f"of {report['num_read']:,} that were read")
    for reason, dropped in report["dropped"].items():
        yield Fact(f"  {reason}"[:40], f"{dropped['num_pairs']:,}", name_width=40)
    yield Fact("on disk", megabytes(found.num_bytes))


def _lengths(name: str, side: Side) -> list[Fact]:
    half, most, nearly_all, longest = (f"{length:,}" for length in _percentiles(side))
    remark = f"on average; half have up to {half}, 90% {most}, 99% {nearly_all}, all {longest}"
    return [
        Fact(f"{name} tokens", f"{side.num_tokens:,}", f"{side.tokens_per_word:.2f} per word"),
        Fact("  a sentence", f"{side.lengths.mean():.1f}", remark),
    ]


def _percentiles(side: Side) -> list[int]:
    return [int(np.percentile(side.lengths, percentile)) for percentile in _PERCENTILES]


def _vocabulary_use(name: str, vocabulary: VocabularyUse) -> Iterator[Fact]:
    remark = f"entries, of which {vocabulary.num_used:,} occur"
    yield Fact(f"vocabulary of {name}", f"{vocabulary.num_entries:,}", remark)
    yield _count("  rare entries", vocabulary.num_rare, vocabulary.num_entries)
    if vocabulary.num_rare:
        yield Fact(f"  They occur less than {RARE} times, so little is learned of them.")
    if vocabulary.num_unknown_tokens:
        yield _count("  unknown tokens", vocabulary.num_unknown_tokens, int(vocabulary.counts.sum()))


def _repeats(found: Inspection) -> Iterator[Fact]:
    repeats = found.repeats
    yield _count(f"repeated {found.examples}", repeats.num_pairs, found.num_pairs)
    yield _count("  sources", repeats.num_sources, found.num_pairs)
    yield _count("  targets", repeats.num_targets, found.num_pairs)
    if repeats.num_copies is not None:
        yield _count("copies of the source", repeats.num_copies, found.num_pairs)
    if found.num_valid_pairs:
        yield _count("validation in training", repeats.num_valid_pairs, found.num_valid_pairs)
        yield _count("  sources", repeats.num_valid_sources, found.num_valid_pairs)
        if repeats.num_valid_sources:
            yield Fact("  Scores on these are too good: the model has seen them.")


def _count(name: str, count: int, total: int) -> Fact:
    return Fact(name, f"{count:,}", f"{count / max(1, total):.2%}" if count else "")
