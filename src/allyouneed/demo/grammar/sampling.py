"""Random phrases and clauses that make sense: who can do what to what, when and where."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from allyouneed.demo.grammar import expressions
from allyouneed.demo.grammar.determiners import OWNABLE, POSITIVE_ONLY, RELATIONS, draw_determiner
from allyouneed.demo.grammar.lexicon import VERBS, Noun, ObjectSlot, Verb, adjectives_of, nouns_of
from allyouneed.demo.grammar.syntax import (
    Adjunct,
    Adverbial,
    Clause,
    Degree,
    Name,
    Nominal,
    NounPhrase,
    Pair,
    Predicate,
    Pronoun,
    Tense,
    is_first_person_singular,
    is_human,
    is_plural,
)

T = TypeVar("T")

HUMANS = nouns_of("human")
PERSONS = nouns_of("person")
PERSONAL_PRONOUNS = {"I": 3, "he": 1, "she": 1, "we": 1, "you": 1, "they": 1}
"""With weights: most forms of German verbs are shared by several of them, that of `ich` is not."""

CLAUSE_TAKING = frozenset({"that", "whether", "control"})
EVENTS = tuple(verb for verb in VERBS.values() if not verb.traits & CLAUSE_TAKING)
"""Verbs that need no other clause."""

TENSES: dict[Tense, int] = {"present": 3, "progressive": 4, "past": 6, "perfect": 4, "future": 4}


class Sampler:
    """Draws phrases from one random stream."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self.rng.random() < probability

    def pick(self, choices: Sequence[T]) -> T:
        """One of them, all equally likely."""
        return self.rng.choice(choices)

    def weighted(self, weights: dict[T, int]) -> T:
        """One of the keys, in proportion to the weights."""
        return self.rng.choices(list(weights), list(weights.values()))[0]

    # Nominals

    def noun_phrase(
        self,
        nouns: Sequence[Noun],
        *,
        owner: Nominal | None = None,
        allowed: Callable[[str], bool] = lambda determiner: True,
        adjective: float = 0.5,
    ) -> NounPhrase:
        """A noun with determiner and perhaps an adjective; `owner` is whom `his` or `their` may refer to."""
        noun = self.pick(nouns)
        determiner, plural = draw_determiner(self.rng, noun, owner, allowed)
        phrase = NounPhrase(noun, determiner, plural)
        if self.chance(adjective):
            phrase = self.described(phrase)
        owned = 1.0 if noun in RELATIONS else 0.15 if noun in OWNABLE else 0.0
        if determiner == "the" and self.chance(owned):
            phrase = replace(phrase, possessor=self.definite(PERSONS, adjective=0.15))
        return phrase

    def definite(self, nouns: Sequence[Noun], adjective: float = 0.3) -> NounPhrase:
        """A singular or plural noun phrase with `the`."""
        phrase = NounPhrase(self.pick(nouns), "the", plural=self.chance(0.2))
        if not phrase.noun.countable:
            phrase = replace(phrase, plural=False)
        return self.described(phrase) if self.chance(adjective) else phrase

    def described(self, phrase: NounPhrase) -> NounPhrase:
        """The phrase with an adjective that fits."""
        adjective = self.pick(adjectives_of(phrase.noun))
        very = bool(adjective.german_comparative) and self.chance(0.15)
        return replace(phrase, adjective=adjective, very=very)

    def name(self) -> Name:
        """A person, with or without a last name."""
        first = self.pick(list(expressions.FIRST_NAMES))
        words = (first, self.pick(expressions.LAST_NAMES)) if self.chance(0.5) else (first,)
        return Name(words, words, expressions.FIRST_NAMES[first])

    def city(self) -> Name:
        """A city."""
        english = self.pick(list(expressions.CITIES))
        return Name((english,), (expressions.CITIES[english],))

    def subject(
        self, nouns: Sequence[Noun] = HUMANS, *, short: bool = False, negated: bool = False
    ) -> Nominal:
        """Who does something; `short` keeps it to two or three words."""
        if HUMANS[0] in nouns:
            kind = self.rng.random()
            if kind < 0.22:
                return self.name()
            if kind < (0.45 if short else 0.3):
                return Pronoun(self.weighted(PERSONAL_PRONOUNS))
            if kind < 0.35 and not short:
                name = self.name()
                return Pair(name, self.relation(name))
        # `every .. not` has two readings
        excluded = {"", "every"} if negated else {""}
        adjective = 0.35 if short else 0.5
        phrase = self.noun_phrase(nouns, allowed=lambda word: word not in excluded, adjective=adjective)
        if short or phrase.possessor or self.chance(0.8):
            return phrase
        return replace(phrase, place=self.beside())

    def object(
        self, slot: ObjectSlot, owner: Nominal, *, negated: bool = False, adjective: float = 0.35
    ) -> Nominal:
        """What or whom something is done to."""
        noun = self.pick(slot.nouns)
        if is_human(noun) and self.chance(0.3):
            return self.name() if self.chance(0.6) else self._other_pronoun(owner)
        excluded = {"every"} | ({""} if is_human(noun) else set()) | (POSITIVE_ONLY if negated else set())
        phrase = self.noun_phrase(
            (noun,), owner=owner, allowed=lambda word: word not in excluded, adjective=adjective
        )
        if is_human(noun) or slot.preposition or negated or self.chance(0.92):
            return phrase
        return self._with_another(phrase, slot, owner)

    def _with_another(self, phrase: NounPhrase, slot: ObjectSlot, owner: Nominal) -> Nominal:
        """The phrase and a similar thing: a knife and two bottles."""
        kind = phrase.noun.semantic_class
        others = [noun for noun in slot.nouns if noun.semantic_class == kind and noun is not phrase.noun]
        if not others or kind == "drink":
            return phrase
        return Pair(phrase, self.noun_phrase(others, owner=owner, adjective=0.15))

    def _other_pronoun(self, owner: Nominal) -> Pronoun:
        """Somebody else: not `he sees him`, and neither `I see us`."""
        speakers = {"I", "we"}
        taken = owner.word if isinstance(owner, Pronoun) else ""
        excluded = {"you", taken} | (speakers if taken in speakers else set())
        return Pronoun(self.pick([word for word in PERSONAL_PRONOUNS if word not in excluded]))

    # Adjuncts and adverbials

    def time(self, tense: str) -> Adverbial:
        """When, as the tense allows."""
        return replace(self.pick(self.pick(expressions.TIMES[tense])))

    def place(self, nouns: Sequence[Noun] = expressions.USUAL_PLACES) -> Adjunct:
        """Where: in a city, near a landmark, or at one of the `nouns`."""
        if self.chance(0.2):
            return Adjunct(expressions.IN, self.city())
        if self.chance(0.2):
            return self.beside()
        noun = self.pick(nouns)
        phrase = replace(self.definite((noun,)), plural=False)
        return Adjunct(expressions.LOCATIVE.get(noun.english, expressions.IN), phrase)

    def beside(self) -> Adjunct:
        """Behind or near a building."""
        landmark = replace(self.definite(expressions.LANDMARKS), plural=False)
        return Adjunct(self.pick(expressions.BESIDE), landmark)

    def goal(self, verb: Verb) -> Adjunct:
        """Where to."""
        if "walk" not in verb.traits or ("journey" in verb.traits and self.chance(0.5)):
            return Adjunct(expressions.TO_CITY, self.city())
        return Adjunct(expressions.TO, replace(self.definite(expressions.GOALS), plural=False))

    def company(self, owner: Nominal) -> Adjunct:
        """With whom."""
        return Adjunct(expressions.WITH, self.relation(owner))

    def relation(self, owner: Nominal) -> NounPhrase:
        """Somebody's friend, sister or neighbour."""
        return self.noun_phrase(
            RELATIONS, owner=owner, allowed=lambda word: word in {"my", "the"}, adjective=0.1
        )

    def adjuncts(self, verb: Verb, owner: Nominal) -> tuple[Adjunct, ...]:
        """What the verb invites one to add, in English order."""
        found: list[Adjunct] = []
        if verb.traits & {"walk", "journey"}:
            found.append(self.goal(verb))
        elif "local" in verb.traits and self.chance(0.5 if verb.objects else 0.85):
            found.append(self.place() if verb.objects else self.place(expressions.PLACES))
        elif "benefit" in verb.traits and self.chance(0.5):
            found.append(Adjunct(expressions.FOR, self.noun_phrase(HUMANS, owner=owner, adjective=0.2)))
        if "company" in verb.traits and self.chance(0.4):
            found.append(self.company(owner))
        return tuple(found)

    # Clauses

    def tense(self, verb: Verb, subject: Nominal, tenses: Sequence[Tense] = tuple(TENSES)) -> Tense:
        """One of the tenses, without one that the verb lacks or that its form does not show."""
        if len(tenses) == 1:
            return tenses[0]
        ambiguous = verb.past == verb.base and (is_plural(subject) or is_first_person_singular(subject))
        excluded = {"past"} if ambiguous else set()
        if verb.traits & {"stative", "punctual"}:
            excluded |= {"progressive"}
        if "stative" in verb.traits:
            excluded |= {"perfect", "future"}
        weights = {tense: TENSES[tense] for tense in tenses if tense not in excluded}
        return self.weighted(weights)

    def event(
        self,
        verb: Verb | None = None,
        subject: Nominal | None = None,
        *,
        tenses: Sequence[Tense] = tuple(TENSES),
        negated: bool = False,
        short: bool = False,
    ) -> Clause:
        """A clause with a full verb, without time; `short` keeps its phrases bare."""
        verb = verb or self.pick(EVENTS)
        subject = subject or self.subject(verb.subjects, short=short, negated=negated)
        adjective = 0.35 if short else 0.5
        objects = tuple(
            self.object(slot, subject, negated=negated, adjective=adjective) for slot in verb.objects
        )
        needed = bool(verb.traits & {"walk", "journey"})
        adjuncts = self.adjuncts(verb, subject) if needed or not (negated or short) else ()
        tense = self.tense(verb, subject, tenses)
        return Clause(subject, verb, objects, tense, negated=negated, adjuncts=adjuncts)

    def timed(self, clause: Clause, probability: float = 0.9) -> Clause:
        """The clause with a time or a frequency, always where the bare tense would sound odd."""
        if "stative" in clause.verb.traits:
            return clause
        tense = "modal" if clause.modal else clause.tense
        if (
            tense in expressions.FREQUENCY
            and not clause.negated
            and self.chance(0.5 if tense == "present" else 0.25)
        ):
            return replace(clause, adverb=replace(self.pick(expressions.FREQUENCY[tense])))
        if self.chance(1.0 if tense == "present" else probability):
            return replace(clause, time=self.time(tense))
        return clause

    def state(self, subject: Nominal, noun: Noun = HUMANS[0], tense: Tense = "present") -> Clause:
        """A clause that says how the subject, a `noun`, is."""
        adjective = self.pick(adjectives_of(noun))
        degrees: tuple[Degree, ...] = ("positive", "very", "too")
        degree = self.pick(degrees) if adjective.german_comparative else "positive"
        return Clause(subject, tense=tense, predicate=Predicate(adjective, degree))
