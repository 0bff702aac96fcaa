"""The lexicon of the demo grammar: nouns, verbs and adjectives with every form both languages need."""

from dataclasses import dataclass
from functools import cache
from typing import Literal

from allyouneed.demo.grammar import words

Case = Literal["nominative", "accusative", "dative", "genitive"]
Gender = Literal["masculine", "feminine", "neuter"]

UNIONS = {
    "human": "person relation",
    "goods": "thing machine clothes book novel newspaper",
}
"""Names of several noun classes and nouns at once, for the tables of verbs and adjectives."""


@dataclass(frozen=True, eq=False, slots=True)
class Noun:
    """A noun; `german_plural` is empty for mass nouns."""

    english: str
    english_plural: str
    german: str
    german_genitive: str
    german_plural: str
    gender: Gender
    semantic_class: str

    @property
    def countable(self) -> bool:
        """Whether it has a plural and takes an indefinite article."""
        return bool(self.german_plural)


@dataclass(frozen=True, eq=False, slots=True)
class ObjectSlot:
    """One object of a verb: its German preposition, if any, its case, and the nouns that make sense."""

    preposition: str
    case: Case
    nouns: tuple[Noun, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Verb:
    """A verb with its principal parts in both languages, its arguments and its traits."""

    base: str
    past: str
    participle: str
    gerund: str
    particle: str
    preposition: str
    prefix: str
    german_stem_infinitive: str
    german_present: str
    german_preterite: str
    german_participle: str
    auxiliary: str
    subjects: tuple[Noun, ...]
    objects: tuple[ObjectSlot, ...]
    traits: frozenset[str]

    @property
    def german_infinitive(self) -> str:
        """The citation form, which names the verb: `einladen`."""
        return self.prefix + self.german_stem_infinitive


@dataclass(frozen=True, eq=False, slots=True)
class Adjective:
    """An adjective; `german_stem` takes the endings, `german_comparative` is empty where it has none."""

    english: str
    english_comparative: str
    german: str
    german_stem: str
    german_comparative: str
    nouns: tuple[Noun, ...]


def _rows(table: str) -> list[str]:
    return [row.strip() for row in table.strip().split("\n")]


def _read_noun(row: str, semantic_class: str) -> Noun:
    english, german = row.split(" = ")
    singular, _, plural = english.partition("/")
    nominative, genitive, *german_plural = german.split(", ")
    article, citation = nominative.split()
    gender: dict[str, Gender] = {"der": "masculine", "die": "feminine", "das": "neuter"}
    return Noun(
        english=singular,
        english_plural=plural or singular + "s",
        german=citation,
        german_genitive=genitive,
        german_plural="".join(german_plural),
        gender=gender[article],
        semantic_class=semantic_class,
    )


NOUNS: dict[str, Noun] = {
    noun.english: noun
    for semantic_class, table in words.NOUNS.items()
    for noun in (_read_noun(row, semantic_class) for row in _rows(table))
}
"""Every noun by its English singular."""


def nouns_of(names: str) -> tuple[Noun, ...]:
    """The nouns that `names` lists: unions, classes and single nouns, separated by spaces."""
    chosen: dict[str, Noun] = {}
    for name in " ".join(UNIONS.get(name, name) for name in names.split()).split():
        members = [noun for noun in NOUNS.values() if noun.semantic_class == name] or [NOUNS[name]]
        chosen.update((noun.english, noun) for noun in members)
    return tuple(chosen.values())


def _read_object(text: str) -> ObjectSlot:
    cases: dict[str, Case] = {"accusative": "accusative", "dative": "dative"}
    first, rest = text.split(maxsplit=1)
    if first in cases:
        return ObjectSlot("", cases[first], nouns_of(rest))
    case, rest = rest.split(maxsplit=1)
    return ObjectSlot(first, cases[case], nouns_of(rest))


def read_verb(row: str) -> Verb:
    """A verb from one line of the table in `words`, whose docstring gives the format."""
    english, german, subjects, objects, traits = [field.strip() for field in (row + ";;;").split(";")][:5]
    base, past, participle, gerund, *rest = english.split()
    companion = "".join(rest)
    infinitive, present, preterite, perfect = german.split(", ")
    prefix, _, stem = infinitive.rpartition("|")
    auxiliary, german_participle = perfect.split()
    return Verb(
        base=base,
        past=past,
        participle=participle,
        gerund=gerund,
        particle="" if companion.startswith("+") else companion,
        preposition=companion[1:] if companion.startswith("+") else "",
        prefix=prefix,
        german_stem_infinitive=stem,
        german_present=present,
        german_preterite=preterite,
        german_participle=german_participle,
        auxiliary={"hat": "haben", "ist": "sein"}[auxiliary],
        subjects=nouns_of(subjects),
        objects=tuple(_read_object(text) for text in objects.split(", ") if text),
        traits=frozenset(traits.split()),
    )


VERBS: dict[str, Verb] = {verb.german_infinitive: verb for verb in map(read_verb, _rows(words.VERBS))}
"""Every full verb by its German infinitive (English `know` is two of them, `kennen` and `wissen`)."""

BE = read_verb("be was been being; sein, ist, war, ist gewesen; human; ; stative")
"""The copula."""

THERE_IS = read_verb("be was been being; geben, gibt, gab, hat gegeben; human; accusative building; stative")
"""`there is`, which German says with `es gibt` and an accusative."""


def _read_adjective(row: str) -> Adjective:
    english, german = row.split(" = ")
    positive, _, comparative = english.partition(" ")
    german, classes = german.split("; ")
    predicative, stem, german_comparative = german.split()
    return Adjective(
        english=positive,
        english_comparative=comparative.strip("-"),
        german=predicative,
        german_stem=stem,
        german_comparative=german_comparative.strip("-"),
        nouns=nouns_of(classes),
    )


ADJECTIVES: dict[str, Adjective] = {
    adjective.english: adjective for adjective in map(_read_adjective, _rows(words.ADJECTIVES))
}
"""Every adjective by its English positive."""


@cache
def adjectives_of(noun: Noun) -> tuple[Adjective, ...]:
    """The adjectives that make sense of the noun; every noun has some."""
    return tuple(adjective for adjective in ADJECTIVES.values() if noun in adjective.nouns)
