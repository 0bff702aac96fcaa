"""The demo corpus, whose test set requires recombination: pairs, trees, alignments, and a dictionary."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from random import Random
from zlib import crc32

from allyouneed.lab.demo.grammar.constructions import CONSTRUCTIONS, SentenceSampler
from allyouneed.lab.demo.grammar.expressions import BY
from allyouneed.lab.demo.grammar.lexicon import BE, Noun, Verb
from allyouneed.lab.demo.grammar.realisation import English, German
from allyouneed.lab.demo.grammar.syntax import (
    Clause,
    NounPhrase,
    Sentence,
    bracketed,
    sentence_text,
    word_alignment,
    written,
)

SHORTEST = 7
LONGEST_IN_TRAIN = 16
LONGEST_IN_TEST = 18
"""Sentence lengths in English words, without punctuation."""

SHARE_OF_LONGER = 0.25
"""Share of test sentences that are longer than any training sentence."""

HELD_OUT_SHARE = 0.12
"""Share of noun-verb pairs held out: the noun is subject or object of the verb in the test set only."""

LEAST_SHARE = 0.1
"""Smallest share of a word's alignments that makes a translation an entry."""

_LEAF = re.compile(r"\(\S+ ([^()\s]+)\)")


@dataclass(frozen=True, slots=True)
class DemoPair:
    """An English sentence and its German translation, with their trees and word alignment.

    The trees are in Penn brackets; their leaves are the words and punctuation of the sentences. The alignment
    is a sorted list of pairs (source leaf, target leaf), counted from 0.
    """

    source: str
    target: str
    source_tree: str
    target_tree: str
    alignment: tuple[tuple[int, int], ...]
    construction: str


@dataclass(frozen=True, slots=True)
class DemoCorpus:
    """The three sets; no two pairs have the same source sentence."""

    train: list[DemoPair]
    valid: list[DemoPair]
    test: list[DemoPair]


def generate_demo_corpus(
    num_train: int = 60000, num_valid: int = 500, num_test: int = 1000, seed: int = 1
) -> DemoCorpus:
    """Generate the demo corpus, which depends on the arguments alone.

    Every test sentence has a held-out pair: a noun as subject or object of a verb with which it never occurs
    in the other sets. `SHARE_OF_LONGER` of the test sentences are longer than any sentence of the other sets.
    """
    seen: set[str] = set()
    short, long = range(SHORTEST, LONGEST_IN_TRAIN + 1), range(LONGEST_IN_TRAIN + 1, LONGEST_IN_TEST + 1)
    known = _pairs(Random(f"{seed} known"), seen, short, held_out=False)
    similar = _pairs(Random(f"{seed} similar"), seen, short, held_out=True)
    longer = _pairs(Random(f"{seed} longer"), seen, long, held_out=True)
    num_longer = round(num_test * SHARE_OF_LONGER)
    return DemoCorpus(
        train=list(islice(known, num_train)),
        valid=list(islice(known, num_valid)),
        test=[*islice(similar, num_test - num_longer), *islice(longer, num_longer)],
    )


def is_held_out(noun: Noun, verb: Verb) -> bool:
    """Whether the noun is subject or object of the verb in the test set only."""
    return (
        crc32(f"{noun.english} {verb.german.prefix}{verb.german.infinitive}".encode()) % 1000
        < 1000 * HELD_OUT_SHARE
    )


def realise(sentence: Sentence, construction: str) -> DemoPair:
    """Realise a sentence in both languages."""
    trees = English().sentence(sentence), German().sentence(sentence)
    source, target = map(written, trees)
    return DemoPair(
        source=sentence_text(source.values()),
        target=sentence_text(target.values()),
        source_tree=bracketed(trees[0], source),
        target_tree=bracketed(trees[1], target),
        alignment=word_alignment(source.values(), target.values()),
        construction=construction,
    )


def _pairs(rng: Random, seen: set[str], lengths: range, *, held_out: bool) -> Iterator[DemoPair]:
    """Endless pairs with a new source of a length in `lengths`, with held-out noun-verb pairs or none."""
    sampler = SentenceSampler(rng)
    while True:
        construction = sampler.pick(tuple(CONSTRUCTIONS))
        sentence = CONSTRUCTIONS[construction](sampler)
        if any(is_held_out(noun, verb) for noun, verb in noun_verb_pairs(sentence)) is not held_out:
            continue
        pair = realise(sentence, construction)
        if pair.source not in seen and len(pair.source.split()) in lengths:
            seen.add(pair.source)
            yield pair


# Which nouns are subjects and objects of which verbs


def noun_verb_pairs(sentence: Sentence) -> Iterator[tuple[Noun, Verb]]:
    """Each noun that is subject, object or agent of a full verb anywhere in the sentence, with the verb."""
    for clause in sentence.clauses:
        yield from _clause_pairs(clause)


def _clause_pairs(clause: Clause) -> Iterator[tuple[Noun, Verb]]:
    agents = (adjunct.nominal for adjunct in clause.adjuncts if adjunct.wording is BY)
    for argument in (clause.subject, *clause.objects, *agents):
        if argument and argument.noun and clause.verb is not BE:
            yield argument.noun, clause.verb
        if isinstance(argument, NounPhrase) and argument.relative:
            yield from _clause_pairs(argument.relative)
    if clause.inner:
        yield from _clause_pairs(clause.inner)


# The dictionary of the demo's first baseline


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
