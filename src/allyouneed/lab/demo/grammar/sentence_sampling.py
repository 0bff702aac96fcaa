"""Random phrases and clauses that make sense: who can do what to what, when and where."""

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from allyouneed.lab.demo.grammar import expressions
from allyouneed.lab.demo.grammar.expressions import NUMBERS, POSSESSIVES, PRONOUNS
from allyouneed.lab.demo.grammar.lexicon import BE, VERBS, Noun, ObjectSlot, Verb, adjectives_of, nouns_of
from allyouneed.lab.demo.grammar.syntax import Adjunct, Clause, Nominal, NounPhrase, Tense, agreement, wording

T = TypeVar("T")

HUMANS = nouns_of("human")
RELATIONS = nouns_of("relation")
OWNABLE = frozenset(nouns_of("relation animal food drink goods vehicle home"))
SPEAKERS = {"I": 3, "he": 1, "she": 1, "we": 1, "you": 1, "they": 1}
"""Pronouns with weights; `I` weighs most, because no other pronoun shares the German verb form of `ich`."""

EVENTS = tuple(verb for verb in VERBS.values() if not verb.traits & {"that", "whether"})
"""Verbs without a complement clause."""

TENSES: dict[Tense, int] = {"present": 3, "progressive": 4, "past": 6, "perfect": 4, "future": 4}

DETERMINERS = {
    **{("the", False): 30, ("a", False): 18, ("this", False): 5, ("every", False): 2, ("my", False): 18},
    **{("the", True): 10, ("this", True): 2, ("", True): 5, ("many", True): 4, ("several", True): 4},
    **{("two", True): 10, ("my", True): 4},
}
"""(determiner, plural) -> weight; `my` stands for any owner, `two` for any number."""

MASS_DETERMINERS = {("the", False): 10, ("", False): 20, ("this", False): 3, ("my", False): 7}
"""(determiner, plural) -> weight, for nouns without a plural."""


class SentenceSampler:
    """Draws phrases from one random stream."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self.rng.random() < probability

    def pick(self, choices: Sequence[T]) -> T:
        """One of the choices, all equally likely."""
        return self.rng.choice(choices)

    def weighted(self, weights: Mapping[T, int]) -> T:
        """One of the keys, in proportion to the weights."""
        return self.rng.choices(list(weights), list(weights.values()))[0]

    # Nominals

    def noun_phrase(
        self,
        nouns: Sequence[Noun],
        *,
        owner: str = "",
        without: Collection[str] = (),
        adjective: float = 0.5,
    ) -> NounPhrase:
        """A noun phrase whose determiner is not in `without`.

        Args:
            nouns: Nouns to choose from.
            owner: Pronoun of the owner if the noun is possessed; empty for a random one.
            without: Excluded determiners.
            adjective: Probability of an adjective.
        """
        noun = self.pick(nouns)
        options = {
            option: weight
            for option, weight in (DETERMINERS if noun.german_plural else MASS_DETERMINERS).items()
            if option[0] not in without and (option[0] != "my" or noun in OWNABLE)
        }
        if noun in RELATIONS:  # always possessed
            options = {("my", False): 3, ("my", True): 1}
        determiner, plural = self.weighted(options)
        if determiner == "two":
            determiner = self.pick(list(NUMBERS))
        elif determiner == "my":
            determiner = POSSESSIVES.get(owner) or self.pick(("my", "our", "your"))
        described = self.pick(adjectives_of(noun)) if self.chance(adjective) else None
        very = bool(described and described.gradable) and self.chance(0.15)
        return NounPhrase(noun, determiner, plural, described, very)

    def definite(self, nouns: Sequence[Noun], adjective: float = 0.5) -> NounPhrase:
        """A singular noun phrase with `the`, which a relative clause can modify."""
        return replace(self.noun_phrase(nouns, adjective=adjective), determiner="the", plural=False)

    def name(self) -> Nominal:
        """A person's name, with or without a last name."""
        first = self.pick(list(expressions.FIRST_NAMES))
        whole = f"{first} {self.pick(expressions.LAST_NAMES)}" if self.chance(0.5) else first
        return expressions.name(whole, whole, expressions.FIRST_NAMES[first])

    def subject(self, nouns: Sequence[Noun], *, negated: bool = False) -> Nominal:
        """A subject: one of the nouns, or a name or pronoun if they include humans."""
        if HUMANS[0] in nouns and self.chance(0.4):
            return self.name() if self.chance(0.5) else replace(PRONOUNS[self.weighted(SPEAKERS)])
        # `every .. not` has two readings
        return self.noun_phrase(nouns, without={"", "every"} if negated else {""})

    def object(self, slot: ObjectSlot, owner: str, *, negated: bool = False) -> Nominal:
        """An object that fits the slot; `owner` is the subject's pronoun."""
        noun = self.pick(slot.nouns)
        if noun.is_human and self.chance(0.3):
            # another person than the subject: neither `he sees him` nor `I see us`
            taken = {"I", "we"} if owner in {"I", "we"} else {owner}
            others = [pronoun for pronoun in SPEAKERS if pronoun not in {"you", *taken}]
            return self.name() if self.chance(0.6) else replace(PRONOUNS[self.pick(others)])
        # the negation of `many` and the like is ambiguous
        excluded = {"every", *({"many", "several", "two"} if negated else {""} if noun.is_human else ())}
        return self.noun_phrase((noun,), owner=owner, without=excluded, adjective=0.4)

    # Adjuncts

    def time(self, clause: Clause) -> Adjunct:
        """A time expression that suits the tense."""
        return Adjunct(self.pick(self.pick(expressions.TIMES["future" if clause.modal else clause.tense])))

    def place(self, verb: Verb) -> tuple[Adjunct, ...]:
        """A place or destination, if the verb takes one."""
        city = expressions.name(*self.pick(list(expressions.CITIES.items())))
        if "journey" in verb.traits:
            return (Adjunct(expressions.TO_CITY, city),)
        if "walk" in verb.traits:
            return (Adjunct(expressions.TO, self.definite(expressions.GOALS)),)
        if "local" not in verb.traits or self.chance(0.3):
            return ()
        if self.chance(0.2):
            return (Adjunct(expressions.IN, city),)
        preposition, nouns = self.pick(expressions.PLACES)
        return (Adjunct(preposition, self.definite(nouns)),)

    # Clauses

    def event(
        self,
        verb: Verb | None = None,
        subject: Nominal | None = None,
        *,
        tenses: Sequence[Tense] = tuple(TENSES),
        negated: bool = False,
        short: bool = False,
    ) -> Clause:
        """A clause with a full verb and no time; if `short`, it has a place only if the verb requires one."""
        verb = verb or self.pick(EVENTS)
        subject = subject or self.subject(verb.subjects, negated=negated)
        objects = tuple(self.object(slot, subject.pronoun, negated=negated) for slot in verb.objects)
        needed = bool(verb.traits & {"walk", "journey"})
        adjuncts = self.place(verb) if needed or not (short or negated) else ()
        tense = self._tense(verb, subject, tenses)
        return Clause(subject, verb, objects, tense, negated=negated, adjuncts=adjuncts)

    def _tense(self, verb: Verb, subject: Nominal, tenses: Sequence[Tense]) -> Tense:
        """One of the tenses, except those that the verb lacks or its form does not show (`they read`)."""
        excluded: set[Tense] = {"progressive"} if verb.traits & {"stative", "involuntary"} else set()
        if "stative" in verb.traits:
            excluded |= {"perfect", "future"}
        if verb.english.past[0] == verb.english.infinitive and agreement(subject) != 1:
            excluded |= {"past"}
        return self.weighted(
            {tense: TENSES[tense] for tense in tenses if tense not in excluded} or {"present": 1}
        )

    def timed(self, clause: Clause, probability: float = 0.9) -> Clause:
        """The clause with a time or a frequency: always if the bare tense would sound odd."""
        if "stative" in clause.verb.traits:
            return clause
        adverbs = () if clause.negated or clause.modal else expressions.FREQUENCY.get(clause.tense, ())
        if adverbs and self.chance(0.5 if clause.tense == "present" else 0.25):
            return replace(clause, adverb=Adjunct(self.pick(adverbs)))
        if self.chance(1.0 if clause.tense == "present" else probability):
            return replace(clause, time=self.time(clause), front="time" if self.chance(0.3) else "")
        return clause

    def state(self, subject: Nominal, nouns: Sequence[Noun], tense: Tense = "present") -> Clause:
        """A clause that describes the subject by an adjective that suits one of the nouns."""
        adjective = self.pick(adjectives_of(self.pick(nouns)))
        very, sehr = self.pick((("", ""), ("very/RB", "sehr/ADV"), ("too/RB", "zu/ADV")))
        if not adjective.gradable:
            very, sehr = "", ""
        row = f"{very} {adjective.english}/JJ = {sehr} {adjective.german}/ADJD"
        return Clause(subject, BE, tense=tense, predicate=Adjunct(wording(row)))
