"""The demo corpus: pairs with trees and alignments, split so that the test part asks for recombination."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from zlib import crc32

from allyouneed.data.demo_grammar import english, german
from allyouneed.data.demo_grammar.constructions import CONSTRUCTIONS
from allyouneed.data.demo_grammar.lexicon import VERBS, Noun, Verb
from allyouneed.data.demo_grammar.sampling import Sampler
from allyouneed.data.demo_grammar.syntax import (
    Adjunct,
    Clause,
    Nominal,
    NounPhrase,
    Pair,
    RelativePronoun,
    Sentence,
)
from allyouneed.data.demo_grammar.trees import (
    as_written,
    bracketed,
    sentence_text,
    word_alignment,
)

SHORTEST = 7
LONGEST_IN_TRAIN = 18
LONGEST_IN_TEST = 22
"""In English words, without punctuation."""

SHARE_OF_LONGER = 0.3
"""Of the test part: sentences longer than any of the train part."""

HELD_OUT_SHARE = 0.12
"""Of the pairs of a noun and a verb: never together, as subject or object, outside the test part."""


@dataclass(frozen=True, slots=True)
class DemoPair:
    """An English sentence and its German translation, with what the grammar knows of both.

    The trees are Penn brackets whose leaves, punctuation included, are the words of the sentences. The
    alignment is the sorted pairs (source leaf, target leaf), counted from 0.
    """

    source: str
    target: str
    source_tree: str
    target_tree: str
    alignment: tuple[tuple[int, int], ...]
    construction: str


@dataclass(frozen=True, slots=True)
class DemoCorpus:
    """The three parts; no two pairs have the same source sentence."""

    train: list[DemoPair]
    valid: list[DemoPair]
    test: list[DemoPair]


def generate_demo_corpus(
    num_train: int = 30000, num_valid: int = 500, num_test: int = 1000, seed: int = 1
) -> DemoCorpus:
    """The corpus of the demo, which depends on the arguments alone.

    Every test sentence has a noun as subject or object of a verb that it never has in the other parts, and
    `SHARE_OF_LONGER` of them are longer than any sentence of the other parts.
    """
    seen: set[str] = set()
    known = _pairs(
        random.Random(f"{seed} known"),
        seen,
        lambda sentence: not _has_held_out(sentence),
        range(SHORTEST, LONGEST_IN_TRAIN + 1),
    )
    new = random.Random(f"{seed} new")
    num_longer = round(num_test * SHARE_OF_LONGER)
    longer = _pairs(new, seen, _has_held_out, range(LONGEST_IN_TRAIN + 1, LONGEST_IN_TEST + 1))
    similar = _pairs(new, seen, _has_held_out, range(SHORTEST, LONGEST_IN_TRAIN + 1))
    return DemoCorpus(
        train=list(islice(known, num_train)),
        valid=list(islice(known, num_valid)),
        test=[*islice(similar, num_test - num_longer), *islice(longer, num_longer)],
    )


def is_held_out(noun: Noun, verb: Verb) -> bool:
    """Whether the noun is the verb's subject or object in the test part only."""
    return crc32(f"{noun.english} {verb.german_infinitive}".encode()) % 1000 < 1000 * HELD_OUT_SHARE


def realise(sentence: Sentence, construction: str) -> DemoPair:
    """Both sides of a sentence."""
    source, target = as_written(english.sentence(sentence)), as_written(german.sentence(sentence))
    return DemoPair(
        source=sentence_text(source),
        target=sentence_text(target),
        source_tree=bracketed(source),
        target_tree=bracketed(target),
        alignment=word_alignment(source, target),
        construction=construction,
    )


def _pairs(
    rng: random.Random, seen: set[str], wanted: Callable[[Sentence], bool], lengths: range
) -> Iterator[DemoPair]:
    """Pairs of new source sentences with as many words as `lengths` allows, without end."""
    sampler = Sampler(rng)
    while True:
        construction = sampler.pick(tuple(CONSTRUCTIONS))
        sentence = CONSTRUCTIONS[construction](sampler)
        if not wanted(sentence):
            continue
        pair = realise(sentence, construction)
        if pair.source not in seen and len(pair.source.split()) in lengths:
            seen.add(pair.source)
            yield pair


# Which nouns are subjects and objects of which verbs


def _has_held_out(sentence: Sentence) -> bool:
    return any(is_held_out(noun, verb) for noun, verb in noun_verb_pairs(sentence))


def noun_verb_pairs(sentence: Sentence) -> Iterator[tuple[Noun, Verb]]:
    """Every noun that is subject, object or agent of a full verb anywhere in the sentence, with that verb."""
    for clause in sentence.clauses:
        yield from _clause_pairs(clause)


def _clause_pairs(clause: Clause) -> Iterator[tuple[Noun, Verb]]:
    agents = [adjunct.nominal for adjunct in clause.adjuncts if isinstance(adjunct, Adjunct)]
    for argument in (clause.subject, *clause.objects, *agents):
        for nominal in _conjuncts(argument):
            if isinstance(nominal, NounPhrase | RelativePronoun) and clause.verb.german_infinitive in VERBS:
                yield nominal.noun, clause.verb
            if isinstance(nominal, NounPhrase) and nominal.relative:
                yield from _clause_pairs(nominal.relative)
    if (
        clause.predicate
        and isinstance(clause.predicate.standard, NounPhrase)
        and clause.predicate.standard.relative
    ):
        yield from _clause_pairs(clause.predicate.standard.relative)
    if clause.subordinate:
        yield from _clause_pairs(clause.subordinate.clause)


def _conjuncts(nominal: Nominal) -> tuple[Nominal, ...]:
    return (nominal.left, nominal.right) if isinstance(nominal, Pair) else (nominal,)
