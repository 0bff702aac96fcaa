"""Language-neutral structures of demo sentences, from which the English and German sides are realised.

Structures are compared by identity: each is one mention of something, and the English and German words that
realise the same mention are aligned."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from allyouneed.lab.demo.grammar.lexicon import Adjective, Case, Noun, Verb

Tense = Literal["present", "progressive", "past", "perfect", "future"]
Modal = Literal["", "can", "must", "should"]
Front = Literal["", "subject", "object", "adjunct", "time", "inner"]


@dataclass(frozen=True, slots=True)
class Wording:
    """Words that do not inflect: (tag, word) in English and in German, and the links between them."""

    words: tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]
    links: tuple[tuple[int, int], ...]


def wording(row: str) -> Wording:
    """A wording from `word/TAG .. = word/TAG ..`, optionally followed by `= i-j ..`, its links.

    By default equally many words are linked one to one, otherwise each word to all.
    """
    english, german, *links = row.split(" = ")
    source, target = ([word.rsplit("/", 1) for word in side.split()] for side in (english, german))
    every = [(i, j) for i in range(len(source)) for j in range(len(target))]
    pairs = [(i, j) for i, j in every if i == j] if len(source) == len(target) else every
    if links:
        pairs = [(i, j) for i, j in every if f"{i}-{j}" in links[0].split()]
    return Wording(
        (tuple((tag, word) for word, tag in source), tuple((tag, word) for word, tag in target)), tuple(pairs)
    )


@dataclass(frozen=True, eq=False, slots=True)
class NounPhrase:
    """A noun phrase; `determiner` is the English singular word (the, this, my, which, three) or empty."""

    noun: Noun
    determiner: str = "the"
    plural: bool = False
    adjective: Adjective | None = None
    very: bool = False
    relative: "Clause | None" = None

    @property
    def pronoun(self) -> str:
        """The pronoun that refers to it: none for humans of neuter gender in German (das Mädchen)."""
        if self.plural:
            return "they"
        if not self.noun.is_human:
            return self.noun.gender
        return {"masculine": "he", "feminine": "she", "neuter": ""}[self.noun.gender]


@dataclass(frozen=True, eq=False, slots=True)
class Fixed:
    """A name or a pronoun: its wording in every case, and the pronoun that refers to it."""

    forms: dict[Case, Wording]
    pronoun: str = ""
    noun: Noun | None = None
    """The noun that a relative pronoun stands for."""


Nominal = NounPhrase | Fixed


@dataclass(frozen=True, eq=False, slots=True)
class Adjunct:
    """An adjunct or predicate: a preposition with its nominal, or fixed words."""

    wording: Wording
    nominal: Nominal | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Clause:
    """A predication. `front` names the constituent, if any, that precedes all others."""

    subject: Nominal
    verb: Verb
    objects: tuple[Nominal, ...] = ()
    tense: Tense = "present"
    modal: Modal = ""
    passive: bool = False
    negated: bool = False
    adverb: Adjunct | None = None
    predicate: Adjunct | None = None
    adjuncts: tuple[Adjunct, ...] = ()
    time: Adjunct | None = None
    inner: "Clause | None" = None
    """A subordinate clause."""
    conjunction: Wording | None = None
    """Conjunction that joins the clause to another; relative clauses and embedded questions have none."""
    front: Front = ""


@dataclass(frozen=True, eq=False, slots=True)
class Sentence:
    """One main clause or two; a shared subject is realised once."""

    clauses: tuple[Clause, ...]
    question: bool = False


def agreement(subject: Nominal) -> int:
    """Index of the verb form that agrees with the subject: 0 for I, 1 for he, 2 for they."""
    return {"I": 0, "we": 2, "you": 2, "they": 2}.get(subject.pronoun, 1)


def is_personal(nominal: Nominal) -> bool:
    """Whether the nominal is a personal pronoun, which stays close to the verb in both languages."""
    return isinstance(nominal, Fixed) and nominal.forms["nominative"].words[0][0][0] == "PRP"


Origin = tuple[object, ...]
"""The meaning of a word: a piece of the sentence's structure (by identity) and a part of that piece."""

PUNCTUATION = frozenset({".", ",", "?"})


@dataclass(frozen=True, slots=True)
class Leaf:
    """A word or punctuation mark with its part of speech; words that share an origin are aligned."""

    tag: str
    word: str
    origins: tuple[Origin, ...] = ()


@dataclass(frozen=True, slots=True)
class Phrase:
    """A constituent."""

    label: str
    children: "tuple[Tree, ...]"


Tree = Leaf | Phrase


def leaves(phrase: Phrase) -> list[Leaf]:
    """The leaves from left to right."""
    found: list[Leaf] = []
    for child in phrase.children:
        if isinstance(child, Leaf):
            found.append(child)
        else:
            found += leaves(child)
    return found


def written(tree: Phrase) -> dict[int, Leaf]:
    """The leaves of the written sentence by identity, the first capitalised, superfluous commas dropped.

    Every clause comes enclosed in commas; those at the edges of the sentence or next to another mark are
    superfluous.
    """
    words = leaves(tree)
    kept = [word for word, after in pairwise(words) if word.word != "," or after.word not in PUNCTUATION]
    first, *others = kept[kept[0].word == "," :]
    capital = Leaf(first.tag, first.word[0].upper() + first.word[1:], first.origins)
    return {id(first): capital, **{id(word): word for word in (*others, words[-1])}}


def bracketed(tree: Tree, found: dict[int, Leaf]) -> str:
    """The tree of the leaves found, in Penn brackets: `(S (NP (PRP She)) (VP (VBZ sleeps)) (. .))`."""
    if isinstance(tree, Phrase):
        children = (bracketed(child, found) for child in tree.children)
        return f"({tree.label} {' '.join(child for child in children if child)})"
    leaf = found.get(id(tree))
    return f"({leaf.tag} {leaf.word})" if leaf else ""


def sentence_text(words: Iterable[Leaf]) -> str:
    """The words as plain text, with punctuation attached to the preceding word."""
    return "".join(leaf.word if leaf.word in PUNCTUATION else " " + leaf.word for leaf in words).lstrip()


def word_alignment(source: Iterable[Leaf], target: Iterable[Leaf]) -> tuple[tuple[int, int], ...]:
    """Sorted pairs (source position, target position) of words that share an origin."""
    positions: dict[Origin, list[int]] = defaultdict(list)
    for position, leaf in enumerate(target):
        for origin in leaf.origins:
            positions[origin].append(position)
    links = {(i, j) for i, leaf in enumerate(source) for origin in leaf.origins for j in positions[origin]}
    return tuple(sorted(links))
