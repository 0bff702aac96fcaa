"""The lexicon of the demo grammar: nouns, verbs and adjectives with every form both languages need."""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple

Case = Literal["nominative", "accusative", "dative"]
Gender = Literal["masculine", "feminine", "neuter"]
Form = Literal["finite", "infinitive", "participle", "gerund"]

WORDS: dict[str, Any] = tomllib.loads(
    files("allyouneed.lab.demo.grammar").joinpath("words.toml").read_bytes().decode()
)
"""The tables of words; the file tells their format."""

UNIONS = {"human": "person relation", "goods": "thing machine clothes book novel newspaper"}
"""Names for sets of noun classes and nouns, used in the tables of verbs and adjectives."""


@dataclass(frozen=True, eq=False, slots=True)
class Noun:
    """A noun; `german_plural` is empty for mass nouns."""

    english: str
    english_plural: str
    german: str
    german_plural: str
    gender: Gender
    semantic_class: str

    @property
    def is_human(self) -> bool:
        """Whether the English relative pronoun is `who`, not `that` or `which`."""
        return self.semantic_class in {"person", "relation"}


@dataclass(frozen=True, eq=False, slots=True)
class ObjectSlot:
    """One object of a verb: its German preposition (or empty), its case, and the nouns that make sense."""

    preposition: str
    case: Case
    nouns: tuple[Noun, ...]


@dataclass(frozen=True, slots=True)
class VerbForms:
    """The forms of a verb in one language; `present` and `past` hold the forms for I, he and they."""

    infinitive: str
    present: tuple[str, ...]
    past: tuple[str, ...]
    participle: str
    gerund: str = ""
    prefix: str = ""
    """Separable prefix (German only): split from the finite verb, attached to all other forms."""
    kind: str = "VV"
    """First letters of the part of speech: MD for an English modal, VV, VA or VM for a German verb."""


@dataclass(frozen=True, eq=False, slots=True)
class Verb:
    """A verb in both languages, with its arguments and its traits."""

    english: VerbForms
    german: VerbForms
    particle: str
    preposition: str
    auxiliary: str
    """Auxiliary of the German perfect."""
    subjects: tuple[Noun, ...]
    objects: tuple[ObjectSlot, ...]
    traits: frozenset[str]


@dataclass(frozen=True, eq=False, slots=True)
class Adjective:
    """An adjective; endings attach to `german_stem`, `gradable` tells whether `very` can modify it."""

    english: str
    german: str
    german_stem: str
    gradable: bool
    nouns: tuple[Noun, ...]


def _rows(table: str) -> list[str]:
    return [row.strip() for row in table.strip().split("\n")]


def _read_noun(row: str, semantic_class: str) -> Noun:
    english, german = row.split(" = ")
    singular, _, plural = english.partition("/")
    nominative, _, german_plural = german.partition(", ")
    article, citation = nominative.split()
    gender: dict[str, Gender] = {"der": "masculine", "die": "feminine", "das": "neuter"}
    return Noun(singular, plural or singular + "s", citation, german_plural, gender[article], semantic_class)


NOUNS: dict[str, Noun] = {
    noun.english: noun
    for semantic_class, table in WORDS["nouns"].items()
    for noun in (_read_noun(row, semantic_class) for row in _rows(table))
}
"""All nouns by their English singular."""


def nouns_of(names: str) -> tuple[Noun, ...]:
    """The nouns that `names` lists: unions, classes and single nouns, separated by spaces."""
    chosen: dict[str, Noun] = {}
    for name in " ".join(UNIONS.get(name, name) for name in names.split()).split():
        members = [noun for noun in NOUNS.values() if noun.semantic_class == name] or [NOUNS[name]]
        chosen.update((noun.english, noun) for noun in members)
    return tuple(chosen.values())


def _english_forms(base: str, past: str, participle: str, gerund: str) -> VerbForms:
    """English forms with a regular present; the third person is spelled `carries`, `catches`, `reads`."""
    ending = "es" if base.endswith(("s", "sh", "ch", "x", "o")) else "s"
    third = base[:-1] + "ies" if base.endswith("y") and base[-2] not in "aeiou" else base + ending
    return VerbForms(base, (base, third, base), (past, past, past), participle, gerund)


def _german_forms(citation: str, third: str, past: str, participle: str) -> VerbForms:
    prefix, _, infinitive = citation.rpartition("|")
    # `wissen` inflects like the modals, with one form for both: ich weiß, er weiß
    first = infinitive.removesuffix("n").removesuffix("e") + "e" if third.endswith("t") else third
    past_plural = past + ("n" if past.endswith("e") else "en")
    return VerbForms(
        infinitive, (first, third, infinitive), (past, past, past_plural), participle, prefix=prefix
    )


def _read_object(text: str) -> ObjectSlot:
    case: Case = "dative" if "dative" in text else "accusative"
    preposition, nouns = text.split(case)
    return ObjectSlot(preposition.strip(), case, nouns_of(nouns))


def _read_verb(row: str) -> Verb:
    """A verb from one line of the table in `words.toml`."""
    english, german, subjects, objects, traits = [field.strip() for field in (row + ";;;").split(";")][:5]
    base, past, participle, gerund, *rest = english.split()
    companion = "".join(rest)
    citation, present, preterite, perfect = german.split(", ")
    auxiliary, german_participle = perfect.split()
    return Verb(
        english=_english_forms(base, past, participle, gerund),
        german=_german_forms(citation, present, preterite, german_participle),
        particle="" if companion.startswith("+") else companion,
        preposition=companion[1:] if companion.startswith("+") else "",
        auxiliary={"hat": "haben", "ist": "sein"}[auxiliary],
        subjects=nouns_of(subjects),
        objects=tuple(_read_object(text) for text in objects.split(", ") if text),
        traits=frozenset(traits.split()),
    )


VERBS: dict[str, Verb] = {
    verb.german.prefix + verb.german.infinitive: verb for verb in map(_read_verb, _rows(WORDS["verbs"]))
}
"""All full verbs by their German infinitive (English `know` has two, `kennen` and `wissen`)."""


def _forms(kind: str, infinitive: str, present: str, past: str = "", participle: str = "") -> VerbForms:
    return VerbForms(infinitive, tuple(present.split()), tuple(past.split()), participle, kind=kind)


BE = Verb(
    english=VerbForms("be", ("am", "is", "are"), ("was", "was", "were"), "been", "being"),
    german=_forms("VA", "sein", "bin ist sind", "war war waren", "gewesen"),
    particle="",
    preposition="",
    auxiliary="sein",
    subjects=(),
    objects=(),
    traits=frozenset({"stative"}),
)
"""The copula, also used as an auxiliary."""


class Auxiliary(NamedTuple):
    """An auxiliary in both languages, or in English alone, and the form of the next verb."""

    english: VerbForms
    german: VerbForms | None
    next_form: Form


_WERDEN = _forms("VA", "werden", "werde wird werden", "wurde wurde wurden", "worden")
AUXILIARIES = {
    "do": Auxiliary(_forms("VV", "do", "do does do", "did did did"), None, "infinitive"),
    "future": Auxiliary(_forms("MD", "will", "will will will"), _WERDEN, "infinitive"),
    **{
        modal: Auxiliary(_forms("MD", modal, f"{modal} {modal} {modal}"), _forms("VM", *german), "infinitive")
        for modal, german in {
            "can": ("können", "kann kann können"),
            "must": ("müssen", "muss muss müssen"),
            "should": ("sollen", "sollte sollte sollten"),
        }.items()
    },
    "perfect": Auxiliary(
        _forms("VV", "have", "have has have"), _forms("VA", "haben", "habe hat haben"), "participle"
    ),
    "progressive": Auxiliary(BE.english, None, "gerund"),
    "passive": Auxiliary(BE.english, _WERDEN, "participle"),
}
"""Auxiliaries by meaning, outermost first."""


def _read_adjective(row: str) -> Adjective:
    english, german = row.split(" = ")
    german, classes = german.split("; ")
    predicative, stem, *never_very = german.split()
    return Adjective(english, predicative, stem, not never_very, nouns_of(classes))


ADJECTIVES: dict[str, Adjective] = {
    adjective.english: adjective for adjective in map(_read_adjective, _rows(WORDS["adjectives"]))
}
"""All adjectives by their English word."""


@cache
def adjectives_of(noun: Noun) -> tuple[Adjective, ...]:
    """The adjectives that make sense with the noun; every noun has some."""
    return tuple(adjective for adjective in ADJECTIVES.values() if noun in adjective.nouns)
