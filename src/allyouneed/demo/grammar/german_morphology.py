"""German inflection: determiners, adjectives and nouns by gender, number and case, and the forms of verbs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from allyouneed.demo.grammar.lexicon import Case, Gender, Noun, Verb

Column = Literal["masculine", "feminine", "neuter", "plural"]
Endings = Mapping[Case, Mapping[Column, str]]
VerbForm = Literal["infinitive", "participle"]
Agreement = Literal["first", "third", "plural"]


def _table(nominative: str, accusative: str, dative: str, genitive: str) -> Endings:
    columns: tuple[Column, ...] = ("masculine", "feminine", "neuter", "plural")
    rows: dict[Case, str] = {
        "nominative": nominative,
        "accusative": accusative,
        "dative": dative,
        "genitive": genitive,
    }
    return {
        case: {column: ending.strip("-") for column, ending in zip(columns, row.split(), strict=True)}
        for case, row in rows.items()
    }


ARTICLE = _table("der die das die", "den die das die", "dem der dem den", "des der des der")
RELATIVE = _table("der die das die", "den die das die", "dem der dem denen", "dessen deren dessen deren")
DER_WORDS = _table("er e es e", "en e es e", "em er em en", "es er es er")
EIN_WORDS = _table("- e - e", "en e - e", "em er em en", "es er es er")
STRONG = _table("er e es e", "en e es e", "em er em en", "en er en er")
WEAK = _table("e e e en", "en e e en", "en en en en", "en en en en")
MIXED = _table("er e es en", "en e es en", "en en en en", "en en en en")

STEMS = {
    "this": "dies",
    "every": "jed",
    "which": "welch",
    "a": "ein",
    "no": "kein",
    "my": "mein",
    "your": "Ihr",
    "his": "sein",
    "her": "ihr",
    "our": "unser",
    "their": "ihr",
    "many": "viel",
    "how many": "viel",
    "some": "einig",
    "several": "mehrer",
}
DETERMINER_TAGS = {
    **dict.fromkeys(("the", "a"), "ART"),
    **dict.fromkeys(("my", "your", "his", "her", "our", "their"), "PPOSAT"),
    **dict.fromkeys(("every", "no", "many", "how many", "some", "several"), "PIAT"),
    "this": "PDAT",
    "which": "PWAT",
}
LIKE_DER = frozenset({"the", "this", "every", "which"})
LIKE_EIN = frozenset({"a", "no", "my", "your", "his", "her", "our", "their"})


def column(noun: Noun, plural: bool) -> Column:
    """The column of the tables above."""
    return "plural" if plural else noun.gender


def determiner_form(determiner: str, where: Column, case: Case) -> str:
    """The form of a determiner, named by its English word, in a column and case."""
    if determiner == "the":
        return ARTICLE[case][where]
    endings = EIN_WORDS if determiner in LIKE_EIN else DER_WORDS
    return STEMS[determiner] + endings[case][where]


def adjective_form(stem: str, determiner: str, where: Column, case: Case) -> str:
    """An adjective after a determiner: weak after `der`, mixed after `ein`, else strong."""
    endings = WEAK if determiner in LIKE_DER else MIXED if determiner in LIKE_EIN else STRONG
    return stem + endings[case][where]


def noun_form(noun: Noun, plural: bool, case: Case) -> str:
    """A noun in its case."""
    if plural:
        return noun.german_plural + ("n" if case == "dative" and noun.german_plural[-1] not in "ns" else "")
    # the weak masculines (der Student, des Studenten) end in -n in every case but the nominative
    weak = noun.gender == "masculine" and noun.german_genitive.endswith("n")
    return noun.german_genitive if case == "genitive" or (weak and case != "nominative") else noun.german


CONTRACTIONS = {
    ("in", "dem"): "im",
    ("an", "dem"): "am",
    ("von", "dem"): "vom",
    ("zu", "dem"): "zum",
    ("zu", "der"): "zur",
}

PRONOUNS: dict[tuple[str, Gender | None], tuple[str, str, str]] = {
    ("I", None): ("ich", "mich", "mir"),
    ("you", None): ("Sie", "Sie", "Ihnen"),
    ("he", None): ("er", "ihn", "ihm"),
    ("she", None): ("sie", "sie", "ihr"),
    ("it", "masculine"): ("er", "ihn", "ihm"),
    ("it", "feminine"): ("sie", "sie", "ihr"),
    ("it", "neuter"): ("es", "es", "ihm"),
    ("we", None): ("wir", "uns", "uns"),
    ("they", None): ("sie", "sie", "ihnen"),
    ("there", None): ("es", "es", "ihm"),
    ("who", None): ("wer", "wen", "wem"),
    ("what", None): ("was", "was", "was"),
}
"""Nominative, accusative, dative."""


def pronoun_form(word: str, gender: Gender, case: Case) -> str:
    """A pronoun, named by its English word; `it` has the gender of the German noun that it stands for."""
    forms = PRONOUNS[word, gender if word == "it" else None]
    return dict(zip(("nominative", "accusative", "dative"), forms, strict=True))[case]


@dataclass(frozen=True, slots=True)
class VerbForms:
    """What the verb cluster needs to know of a verb: its forms and the first letters of its tag."""

    tag: str
    prefix: str
    infinitive: str
    present: Mapping[Agreement, str]
    past: Mapping[Agreement, str]
    participle: str


def _auxiliary(tag: str, infinitive: str, present: str, past: str, participle: str) -> VerbForms:
    agreements: tuple[Agreement, ...] = ("first", "third", "plural")
    return VerbForms(
        tag,
        "",
        infinitive,
        dict(zip(agreements, present.split(), strict=True)),
        dict(zip(agreements, past.split(), strict=True)),
        participle,
    )


AUXILIARIES = {
    "sein": _auxiliary("VA", "sein", "bin ist sind", "war war waren", "gewesen"),
    "haben": _auxiliary("VA", "haben", "habe hat haben", "hatte hatte hatten", "gehabt"),
    "werden": _auxiliary("VA", "werden", "werde wird werden", "wurde wurde wurden", "worden"),
    "können": _auxiliary("VM", "können", "kann kann können", "konnte konnte konnten", "gekonnt"),
    "müssen": _auxiliary("VM", "müssen", "muss muss müssen", "musste musste mussten", "gemusst"),
    "wollen": _auxiliary("VM", "wollen", "will will wollen", "wollte wollte wollten", "gewollt"),
    # English `should` is German `sollte`, whose form is that of the preterite
    "sollen": _auxiliary("VM", "sollen", "sollte sollte sollten", "sollte sollte sollten", "gesollt"),
}


def verb_forms(verb: Verb) -> VerbForms:
    """The forms of a full verb, or of the copula."""
    if verb.german_infinitive == "sein":
        return AUXILIARIES["sein"]
    infinitive, third, past = verb.german_stem_infinitive, verb.german_present, verb.german_preterite
    # `wissen` inflects like the modals, with one form for both: ich weiß, er weiß
    first = infinitive.removesuffix("n").removesuffix("e") + "e" if third.endswith("t") else third
    past_plural = past + ("n" if past.endswith("e") else "en")
    return VerbForms(
        tag="VV",
        prefix=verb.prefix,
        infinitive=infinitive,
        present={"first": first, "third": third, "plural": infinitive},
        past={"first": past, "third": past, "plural": past_plural},
        participle=verb.german_participle,
    )
