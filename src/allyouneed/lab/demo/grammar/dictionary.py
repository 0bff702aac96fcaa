"""The dictionary of the demo's first baseline: the most frequent German form of each English word form."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

from allyouneed.lab.demo.grammar.grammar_corpus import DemoPair

LEAST_SHARE = 0.1
"""Smallest share of a word's alignments that makes a translation an entry."""

_LEAF = re.compile(r"\(\S+ ([^()\s]+)\)")


def demo_dictionary(pairs: Sequence[DemoPair]) -> dict[str, str]:
    """The most frequent translation of every English word form, counted over the word alignments.

    The entry is empty if no translation is frequent: `does`, for example, aligns with the verb it precedes.

    A German word aligned with several English words (`looked for`: `suchte`) counts as a fraction for each.
    The first word of a sentence is skipped, because it is always capitalised.
    """
    counts: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for pair in pairs:
        source, target = _LEAF.findall(pair.source_tree), _LEAF.findall(pair.target_tree)
        shared = Counter(j for _, j in pair.alignment)
        for i, j in pair.alignment:
            if i and j:
                counts[source[i]][target[j]] += 1 / shared[j]
    return {word: _usual(found) for word, found in sorted(counts.items())}


def _usual(translations: dict[str, float]) -> str:
    """The most frequent translation, or an empty string if none reaches `LEAST_SHARE`."""
    best = max(sorted(translations), key=translations.__getitem__)
    return best if translations[best] >= LEAST_SHARE * sum(translations.values()) else ""
