"""What prepared data looks like, as text and as JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from allyouneed.errors import printable
from allyouneed.explorer.text_tables import figure, megabytes
from allyouneed.preparation.inspecting import RARE, Example, Inspection, Side, Vocabulary

PERCENTILES = 50, 90, 99, 100
_SHOWN_CHARACTERS = 160
"""Length at which a sentence is cut off in text and pages; JSON has it whole."""


def as_json(found: Inspection) -> dict[str, Any]:
    """One JSON object."""
    return {
        "directory": str(found.directory),
        "task": found.task,
        "num_pairs": found.num_pairs,
        "num_valid_pairs": found.num_valid_pairs,
        "num_bytes": found.num_bytes,
        "source": _side(found.source),
        "target": _side(found.target),
        "vocabularies": {name: _vocabulary(each) for name, each in found.vocabularies.items()},
        "repeats": asdict(found.repeats),
        "most_repeated": [asdict(each) for each in found.most_repeated],
        "longest": [asdict(each) for each in found.longest],
        "oddest": [asdict(each) for each in found.oddest],
        "padding_share": {str(size): share for size, share in found.padding.items()},
        "report": found.report,
    }


def as_text(found: Inspection) -> Iterator[str]:
    """Lines with name, value and remark, then the examples."""
    report, repeats = found.report, found.repeats
    yield figure(
        found.examples, f"{found.num_pairs:,}", f"to train on, {found.num_valid_pairs:,} to validate"
    )
    yield figure("dropped", f"{report['num_dropped']:,}", f"of {report['num_read']:,} that were read")
    for reason, dropped in report["dropped"].items():
        yield figure(f"  {reason}"[:40], f"{dropped['num_pairs']:,}", name_width=40, value_width=2)
    yield figure("on disk", megabytes(found.num_bytes))
    for name, side in (("source", found.source), ("target", found.target)):
        yield from _side_lines(name, side)
    for name, vocabulary in found.vocabularies.items():
        yield from _vocabulary_lines(name, vocabulary)
    yield ""
    yield figure(f"repeated {found.examples}", *count_and_share(repeats.num_pairs, found.num_pairs))
    yield figure("  sources", *count_and_share(repeats.num_sources, found.num_pairs))
    yield figure("  targets", *count_and_share(repeats.num_targets, found.num_pairs))
    if repeats.num_copies is not None:
        yield figure("copies of the source", *count_and_share(repeats.num_copies, found.num_pairs))
    if found.num_valid_pairs:
        in_training = count_and_share(repeats.num_valid_pairs, found.num_valid_pairs)
        yield figure("validation in training", *in_training)
        yield figure("  sources", *count_and_share(repeats.num_valid_sources, found.num_valid_pairs))
        if repeats.num_valid_sources:
            yield "  Scores on these are too good: the model has seen them."
    yield ""
    for size, share in found.padding.items():
        yield figure(
            "padding", f"{share:.1%}", f"of what is computed, in micro-batches of {size:,} tokens a side"
        )
    for title, examples in example_lists(found):
        yield ""
        yield title
        for each in examples:
            yield f"  {remark_on(each, found)}"
            yield f"    {shortened(each.source)}"
            yield f"    {shortened(each.target)}"


def example_lists(found: Inspection) -> Iterator[tuple[str, Sequence[Example]]]:
    """Title and pairs of each list that is not empty; numbers are those of the order of reading."""
    lists = {
        f"most repeated {found.examples}": found.most_repeated,
        f"longest {found.examples}": found.longest,
        f"{found.examples} whose lengths fit worst": found.oddest,
    }
    return ((title, examples) for title, examples in lists.items() if examples)


def remark_on(example: Example, found: Inspection) -> str:
    """The number of an example, how long it is, and how often it occurs."""
    times = f", {example.times:,} times" if example.times > 1 else ""
    tokens = f"{example.num_source_tokens:,} and {example.num_target_tokens:,} tokens"
    return f"{found.examples.removesuffix('s')} {example.number:,}: {tokens}{times}"


def shortened(text: str) -> str:
    """The beginning of a text, printable."""
    more = f" … ({len(text):,} characters)" if len(text) > _SHOWN_CHARACTERS else ""
    return printable(text[:_SHOWN_CHARACTERS]) + more


def count_and_share(count: int, total: int) -> tuple[str, str]:
    """A count, and the share that it is."""
    return f"{count:,}", f"{count / max(1, total):.2%}" if count else ""


def _side(side: Side) -> dict[str, Any]:
    lengths = np.bincount(side.lengths)
    return {
        "num_tokens": side.num_tokens,
        "num_words": side.num_words,
        "num_characters": side.num_characters,
        "tokens_per_word": side.tokens_per_word,
        "length_percentiles": {str(p): int(np.percentile(side.lengths, p)) for p in PERCENTILES},
        "length_histogram": {str(length): int(lengths[length]) for length in lengths.nonzero()[0]},
    }


def _vocabulary(vocabulary: Vocabulary) -> dict[str, int]:
    return {
        "num_entries": vocabulary.num_entries,
        "num_used": vocabulary.num_used,
        "num_rare": vocabulary.num_rare,
        "num_unknown_tokens": vocabulary.num_unknown,
    }


def _side_lines(name: str, side: Side) -> Iterator[str]:
    yield ""
    yield figure(f"{name} tokens", f"{side.num_tokens:,}", f"{side.tokens_per_word:.2f} per word")
    percentiles = [f"{int(np.percentile(side.lengths, p)):,}" for p in PERCENTILES]
    remark = f"on average; half have up to {percentiles[0]}, 90% {percentiles[1]}, 99% {percentiles[2]}, all "
    yield figure("  a sentence", f"{side.lengths.mean():.1f}", f"{remark}{percentiles[3]}")


def _vocabulary_lines(name: str, vocabulary: Vocabulary) -> Iterator[str]:
    yield ""
    entries = f"{vocabulary.num_entries:,}"
    yield figure(f"vocabulary of {name}"[:24], entries, f"entries, of which {vocabulary.num_used:,} occur")
    yield figure("  rare entries", *count_and_share(vocabulary.num_rare, vocabulary.num_entries))
    if vocabulary.num_rare:
        yield f"  They occur less than {RARE} times, so little is learned of them."
    if vocabulary.num_unknown:
        total = int(vocabulary.counts.sum())
        yield figure("  unknown tokens", *count_and_share(vocabulary.num_unknown, total))
