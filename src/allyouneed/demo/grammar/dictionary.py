"""The dictionary of the demo's first yardstick: for each English word form the German form it mostly has."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

from allyouneed.demo.grammar.corpus import DemoPair

LEAST_SHARE = 0.1
"""A translation that is rarer among all those of a word is no translation of it."""

_LEAF = re.compile(r"\(\S+ ([^()\s]+)\)")


def demo_dictionary(pairs: Sequence[DemoPair]) -> dict[str, str]:
    """The most frequent translation of every English word form, counted over the word alignments.

    The entry is empty where none is frequent: `does`, say, corresponds to whatever verb it stands with.

    Where one German word stands for several English ones (`looked for`: `suchte`), it counts as a part of a
    translation of each. First words are left out, since their capital says nothing.
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
    """The most frequent translation, or nothing for words such as `does`, which have none of their own."""
    best = max(sorted(translations), key=translations.__getitem__)
    return best if translations[best] >= LEAST_SHARE * sum(translations.values()) else ""
