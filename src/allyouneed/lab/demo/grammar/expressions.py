"""Determiners, pronouns, names, prepositions and fixed adverbials of the demo grammar."""

from typing import NamedTuple

from allyouneed.lab.demo.grammar.lexicon import WORDS, Noun, nouns_of
from allyouneed.lab.demo.grammar.syntax import Fixed, NounPhrase, wording


class Determiner(NamedTuple):
    """A determiner: its tag, its German stem and tag, and the declension of a German adjective after it."""

    tag: str
    german_stem: str
    german_tag: str
    declension: str


DETERMINERS = {english: Determiner(*row.split()) for english, row in WORDS["determiners"].items()}
"""Determiners that inflect in German, by their English singular."""
NUMBERS: dict[str, str] = WORDS["numbers"]
POSSESSIVES = {"I": "my", "you": "your", "he": "his", "she": "her", "we": "our", "they": "their"}
"""Possessive determiner by the owner's pronoun."""


def _pronoun(name: str, tags: str, row: str, noun: Noun | None = None) -> Fixed:
    """A pronoun from its English forms (subject, object) and its German forms by case."""
    english, german = (forms.split() for forms in row.split(" = "))
    tag, german_tag = tags.split()
    rows = zip([english[0], english[1], english[1]], german, strict=True)
    return _fixed(name, [f"{form}/{tag} = {form_de}/{german_tag}" for form, form_de in rows], noun)


def _fixed(name: str, rows: list[str], noun: Noun | None = None) -> Fixed:
    nominative, accusative, dative = map(wording, rows)
    return Fixed({"nominative": nominative, "accusative": accusative, "dative": dative}, name, noun)


PRONOUNS = {name: _pronoun(name, "PRP PPER", row) for name, row in WORDS["pronouns"].items()}
"""Personal pronouns by the English word; `it` by the gender of the German noun that it stands for."""
WHO = _pronoun("", "WP PWS", "who whom = wer wen wem")
WHAT = _pronoun("", "WP PWS", "what what = was was was")


def relative_pronoun(head: NounPhrase) -> Fixed:
    """The relative pronoun (who, that) of a relative clause about the head."""
    tags, english = ("WP PRELS", "who whom") if head.noun.is_human else ("WDT PRELS", "that that")
    german = WORDS["relative"]["plural" if head.plural else head.noun.gender]
    return _pronoun(head.pronoun, tags, f"{english} = {german}", head.noun)


def name(english: str, german: str, pronoun: str = "") -> Fixed:
    """The name of a person or a city."""
    row = " = ".join(
        " ".join(f"{word}/{tag}" for word in words.split())
        for words, tag in ((english, "NNP"), (german, "NE"))
    )
    return _fixed(pronoun, [row] * 3)


FIRST_NAMES = {name: pronoun for pronoun in ("she", "he") for name in WORDS["names"][pronoun].split()}
"""First names, each with the pronoun that refers to it."""
LAST_NAMES: list[str] = WORDS["names"]["last"].split()
CITIES: dict[str, str] = WORDS["cities"]

IN, TO, TO_CITY, BY = map(
    wording, ("in/IN = in/APPR", "to/TO = zu/APPR", "to/TO = nach/APPR", "by/IN = von/APPR")
)
PLACES = [
    (IN, nouns_of("home")),
    (IN, nouns_of("city village park forest school hospital museum church library hotel restaurant castle")),
    (wording("at/IN = an/APPR"), nouns_of("station lake")),
    *(
        (wording(row), nouns_of("house building"))
        for row in (
            "behind/IN = hinter/APPR",
            "next/JJ to/TO = neben/APPR",
            "in/IN front/NN of/IN = vor/APPR",
        )
    ),
]
"""Locations: prepositions with the nouns that follow them."""

GOALS = nouns_of("market lake park office building")

AND, BUT = wording("and/CC = und/KON"), wording(",/, but/CC = ,/$, aber/KON")
CONJUNCTIONS = {english: wording(row) for english, row in WORDS["conjunctions"].items()}
"""Conjunctions of subordinate clauses; German has a separate `when` for single events in the past."""

_UNITS = {"week": "e Woche", "month": "en Monat", "year": "es Jahr"}
"""English unit -> the ending of the preceding German word, and the German unit."""


def _with_units(english: str, german: str, units: dict[str, str]) -> list[str]:
    """A time expression for each unit: `last/JJ week/NN = letzte/ADJA Woche/NN`."""
    stem, tag = german.split("/")
    split = {unit: einheit.split() for unit, einheit in units.items()}
    return [f"{english} {unit}/NN = {stem}{ending}/{tag} {word}/NN" for unit, (ending, word) in split.items()]


_TODAY = "today/NN = heute/ADV"
_LAST = ["yesterday/NN = gestern/ADV", *_with_units("last/JJ", "letzt/ADJA", _UNITS)]
_NEXT = ["tomorrow/NN = morgen/ADV", *_with_units("next/JJ", "nächst/ADJA", _UNITS)]
_EVERY = _with_units("every/DT", "jed/PIAT", {"day": "en Tag", "morning": "en Morgen", "evening": "en Abend"})
_ON_A_DAY = [f"on/IN {day}/NNP = am/APPRART {tag}/NN" for day, tag in WORDS["days"].items()]
_AGO = [
    f"{number}/CD {unit}/NNS ago/RB = vor/APPR {zahl}/CARD {einheit}/NN = 0-1 1-2 2-0"
    for number, zahl in NUMBERS.items()
    for unit, einheit in {"days": "Tagen", "weeks": "Wochen", "months": "Monaten", "years": "Jahren"}.items()
]
_IN_A_YEAR = [f"in/IN {year}/CD = im/APPRART Jahr/NN {year}/CARD = 0-0 0-1 1-2" for year in range(2001, 2021)]
_MOMENT = "at/IN the/DT moment/NN = im/APPRART Moment/NN = 0-0 1-0 2-1"

TIMES = {
    tense: [[wording(row) for row in group] for group in groups]
    for tense, groups in {
        "present": [_EVERY],
        "progressive": [["now/RB = jetzt/ADV", _TODAY, _MOMENT]],
        "past": [_LAST, _LAST, _ON_A_DAY, _AGO, _IN_A_YEAR],
        "perfect": [[_TODAY, *_with_units("this/DT", "dies/PDAT", _UNITS)]],
        "future": [_NEXT, _NEXT, _ON_A_DAY],
    }.items()
}
"""Time expressions by tense, in groups: one group is drawn, then one of its members."""

FREQUENCY = {tense: [wording(row) for row in rows] for tense, rows in WORDS["frequency"].items()}
"""Frequency adverbs, which precede the English verb, by tense."""

WHERE, WHEN, WHY = map(wording, ("where/WRB = wo/PWAV", "when/WRB = wann/PWAV", "why/WRB = warum/PWAV"))
