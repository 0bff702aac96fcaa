"""What a demo sentence says, before either language has chosen its words and their order.

The English and the German side are both realised from these structures. They are compared by identity: a
structure is one mention of something, and the words that mention it in two languages are aligned.
"""

from dataclasses import dataclass
from typing import Literal

from allyouneed.demo.grammar.lexicon import BE, Adjective, Case, Gender, Noun, Verb

Tense = Literal["present", "progressive", "past", "perfect", "future"]
NUMBERS = dict(
    zip(
        ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
        ("zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn", "elf", "zwölf"),
        strict=True,
    )
)
"""The numbers that are written as words; higher ones are digits."""

Modal = Literal["", "can", "must", "should", "want", "like"]
Degree = Literal["positive", "very", "too", "comparative", "equal"]


@dataclass(frozen=True, eq=False, slots=True)
class NounPhrase:
    """`determiner` is the English singular word (the, this, no, my, how many, three, 25, whose) or empty."""

    noun: Noun
    determiner: str = "the"
    plural: bool = False
    adjective: "Adjective | None" = None
    very: bool = False
    possessor: "NounPhrase | RelativePronoun | None" = None
    place: "Adjunct | None" = None
    relative: "Clause | None" = None


@dataclass(frozen=True, eq=False, slots=True)
class Name:
    """A person or a place, called the same in both languages unless `german` says otherwise."""

    english: tuple[str, ...]
    german: tuple[str, ...]
    gender: Gender = "neuter"


@dataclass(frozen=True, eq=False, slots=True)
class Pronoun:
    """I, you (polite), he, she, it, we, they, and the `there` of `there is`; `it` takes a German gender."""

    word: str
    gender: Gender = "neuter"


@dataclass(frozen=True, eq=False, slots=True)
class RelativePronoun:
    """who, whom, that, which: the gap of a relative clause, with what German needs to know of its head."""

    noun: Noun
    plural: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class WhPronoun:
    """who or what."""

    word: Literal["who", "what"]


@dataclass(frozen=True, eq=False, slots=True)
class Pair:
    """Two nominals joined by `and`."""

    left: "Nominal"
    right: "Nominal"


Nominal = NounPhrase | Name | Pronoun | RelativePronoun | WhPronoun | Pair


@dataclass(frozen=True, slots=True)
class Preposition:
    """A preposition; the English one may be of several words (`in front of`)."""

    english: str
    german: str
    case: Case


@dataclass(frozen=True, eq=False, slots=True)
class Adjunct:
    """A prepositional phrase: where, where to, with whom, by whom."""

    preposition: Preposition
    nominal: Nominal


@dataclass(frozen=True, eq=False, slots=True)
class Adverbial:
    """A fixed expression: (tag, word) in both languages, and which words correspond."""

    english: tuple[tuple[str, str], ...]
    german: tuple[tuple[str, str], ...]
    links: tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False, slots=True)
class Predicate:
    """What the copula says of its subject; `standard` is what it is compared with."""

    adjective: Adjective
    degree: Degree = "positive"
    standard: Nominal | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Subordinate:
    """A clause within a clause; no conjunction for an embedded question, `to` for infinitives."""

    clause: "Clause"
    english: str = ""
    german: str = ""
    infinitive: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Clause:
    """A predication. `front` is the constituent, if any, that stands before all others."""

    subject: Nominal
    verb: Verb = BE
    objects: tuple[Nominal, ...] = ()
    tense: Tense = "present"
    modal: Modal = ""
    passive: bool = False
    negated: bool = False
    adverb: Adverbial | None = None
    predicate: Predicate | None = None
    adjuncts: "tuple[Adjunct | Adverbial, ...]" = ()
    time: Adverbial | None = None
    subordinate: Subordinate | None = None
    front: "Nominal | Adjunct | Adverbial | Subordinate | None" = None


@dataclass(frozen=True, eq=False, slots=True)
class Sentence:
    """One main clause, or two joined by a conjunction; a subject that is shared is said once."""

    clauses: tuple[Clause, ...]
    question: bool = False
    english_conjunction: str = ""
    german_conjunction: str = ""


def is_human(noun: Noun) -> bool:
    """Whether English says who of it, and neither that nor which."""
    return noun.semantic_class in {"person", "relation"}


def is_plural(nominal: Nominal) -> bool:
    """Whether its verb is plural in both languages (polite `you` included)."""
    match nominal:
        case NounPhrase(plural=plural) | RelativePronoun(plural=plural):
            return plural
        case Pronoun(word=word):
            return word in {"we", "you", "they"}
    return isinstance(nominal, Pair)


def is_first_person_singular(nominal: Nominal) -> bool:
    """Whether its verb is that of `I`."""
    return isinstance(nominal, Pronoun) and nominal.word == "I"
