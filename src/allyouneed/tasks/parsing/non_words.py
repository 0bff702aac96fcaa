"""Nodes of known treebanks that are no words: traces, IDs, codes, metadata, comments (`docs/parsing.md`).

A tag decides alone only if no treebank has words of it; else spelling or place decide, too.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

TRACE: Final = "-NONE-"
"""Tag of a trace, which stands for no written word, such as the place that a question word was moved from."""

CODE: Final = "CODE"
"""Tag of any other node that is no word, such as the number of a page, or the ID of a sentence."""

NO_WORDS: Final = frozenset({TRACE, CODE})
"""Tags of all nodes that are no words, as a tree has them once it is read."""

Span = tuple[str, int, int]

CODES: Final = frozenset({CODE, "METADATA", "VERSION", "-DFL-"})
"""Labels below which nothing is a word; `-DFL-` is that of Switchboard's marks of disfluencies."""

COMMENTS: Final = frozenset({"COM", "COMMENT"})
"""Tags of comments, if these are in braces or angle brackets."""

TRACES: Final = frozenset({"T", "ICH", "CL", "con", "exp", "pro", "arb"})
"""Names between asterisks, in any case, that are traces without an index, too."""

_TRACE = re.compile(rf"\*[a-z]+\*-\d+|\*({'|'.join(sorted(TRACES))}|T\d+)\*", re.IGNORECASE)
_EMPTY = re.compile(r"0|\*(-\d+)?")
_TAG_OF_EMPTY = re.compile(r"(C|W[A-Z]*P|(NP|PP|ADVP|ADJP|CP|IP)(?=[-=]))([-=].*)?")  # no part of speech
_NUMERALS = ("NUM", "CD", "CARD")
_COMMENT = re.compile(r"\{.*\}|<.*>")
_WITH_LEMMA = re.compile(r"(.+)-([^-]+)")


def recognised(
    words: Sequence[str], tags: Sequence[str], constituents: Sequence[Span], notes: Counter[str]
) -> tuple[list[str], list[str]]:
    """The words of a tree without lemmas, and its tags: `TRACE` or `CODE` for each node that is no word.

    Args:
        words: Words as spelled in the file, where an asterisk that is no trace has a backslash.
        tags: Tags as in the file.
        constituents: Labels and spans, the root first.
        notes: Counts of notable findings, updated here.
    """
    historical = _has_id(words, tags, constituents)
    marked = [_marked_tag(word, tag, historical) for word, tag in zip(words, tags, strict=True)]
    for label, start, end in constituents:
        if label in CODES:
            marked[start:end] = [CODE] * (end - start)
    if not historical:
        return list(words), marked
    marked[-1] = CODE
    kept = [place for place, tag in enumerate(marked) if tag not in NO_WORDS]
    found = dict(zip(kept, _without_lemmas([words[place] for place in kept]), strict=True))
    if num_lemmas := sum(words[place] != word for place, word in found.items()):
        notes["lemmas removed from words"] += num_lemmas
    return [found.get(place, word) for place, word in enumerate(words)], marked


def _has_id(words: Sequence[str], tags: Sequence[str], constituents: Sequence[Span]) -> bool:
    """Whether the outermost bracket ends with the ID of a sentence, as in treebanks for CorpusSearch."""
    is_in_root = all(end < len(words) for _, _, end in constituents[1:])
    return tags[-1] == "ID" and re.search(r"[\d,]", words[-1]) is not None and is_in_root


def _marked_tag(word: str, tag: str, historical: bool) -> str:
    if tag == TRACE or (word[0] in "*0" and _is_trace(word, tag, historical)):
        return TRACE
    is_comment = (tag in COMMENTS and _COMMENT.fullmatch(word)) or (historical and word[0] + word[-1] == "{}")
    return CODE if tag in CODES or is_comment else tag


def _is_trace(word: str, tag: str, historical: bool) -> bool:
    if _TRACE.fullmatch(word):
        return True
    is_number = word == "0" and tag.startswith(_NUMERALS)
    expected = (historical and not is_number) or _TAG_OF_EMPTY.fullmatch(tag) is not None
    return expected and _EMPTY.fullmatch(word) is not None


def _without_lemmas(words: Sequence[str]) -> list[str]:
    """The words of a sentence with an ID without their lemmas: `fóru` for `fóru-fara`.

    A hyphen may be a word's own. It separates a lemma where a punctuation mark has one, as in `,-,`, or where
    all words have a hyphen and one equals its lemma.
    """
    pairs = [_WITH_LEMMA.fullmatch(word) for word in words]
    equal = [pair[1] for pair in pairs if pair and pair[1].lower() == pair[2].lower()]
    if any(not any(map(str.isalnum, word)) for word in equal) or (equal and all(pairs)):
        return [pair[1] if pair else word for word, pair in zip(words, pairs, strict=True)]
    return list(words)
