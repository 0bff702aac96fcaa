"""Which determiner a random noun phrase gets, and whether it is plural."""

import random
from collections.abc import Callable

from allyouneed.demo.grammar.lexicon import Noun, nouns_of
from allyouneed.demo.grammar.syntax import (
    NUMBERS,
    Name,
    Nominal,
    NounPhrase,
    Pair,
    Pronoun,
    RelativePronoun,
    is_human,
)

RELATIONS = nouns_of("relation")
"""Friends and relatives, who are always somebody's."""

OWNABLE = frozenset(nouns_of("relation animal food drink goods vehicle home"))
DIGITS = ("15", "20", "25", "30", "40", "50", "60", "80", "100", "200")
"""Numbers of things that are written as digits."""

DETERMINERS = {
    ("the", False): 30,
    ("a", False): 18,
    ("this", False): 5,
    ("every", False): 2,
    ("my", False): 14,
    ("the", True): 10,
    ("this", True): 2,
    ("", True): 5,
    ("many", True): 3,
    ("some", True): 3,
    ("several", True): 3,
    ("two", True): 7,
    ("my", True): 4,
}
"""(determiner, plural) with weights; `my` stands for any owner, `two` for any number."""

MASS_DETERMINERS = {("the", False): 10, ("", False): 20, ("this", False): 3, ("my", False): 7}
"""The same for nouns without plural."""

POSITIVE_ONLY = frozenset({"many", "some", "several", "two"})
"""Determiners whose negation is ambiguous, and which the objects of negated clauses avoid."""

HIS_OR_HER = {"masculine": "his", "feminine": "her", "neuter": ""}
POSSESSIVES = {"I": "my", "you": "your", "he": "his", "she": "her", "we": "our", "they": "their"}


def draw_determiner(
    rng: random.Random, noun: Noun, owner: Nominal | None, allowed: Callable[[str], bool]
) -> tuple[str, bool]:
    """A determiner among the allowed ones that suits the noun, and whether the phrase is plural.

    `owner` is whom a possessive refers to: the subject of the clause, or None for the speakers.
    """
    possessive = _possessive(rng, owner) if noun in OWNABLE else ""
    options = {
        option: weight
        for option, weight in (DETERMINERS if noun.countable else MASS_DETERMINERS).items()
        if allowed(option[0])
        and (possessive or option[0] != "my")
        and (noun not in RELATIONS or option[0] in {"the", "my"})
    }
    determiner, plural = rng.choices(list(options), list(options.values()))[0]
    if determiner == "two":
        determiner = rng.choice(DIGITS if rng.random() < 0.25 else list(NUMBERS))
    return possessive if determiner == "my" else determiner, plural


def _possessive(rng: random.Random, owner: Nominal | None) -> str:
    """The possessive that refers to the owner, or none where that would be odd or unclear."""
    match owner:
        case None:
            return rng.choice(("my", "our", "your"))
        case Pronoun(word=word):
            return POSSESSIVES[word]
        case Pair():
            return "their"
        case Name(gender=gender):
            return HIS_OR_HER[gender]
        case NounPhrase(noun=noun, plural=plural) | RelativePronoun(noun=noun, plural=plural):
            if is_human(noun):
                return "their" if plural else HIS_OR_HER[noun.gender]
    return ""
