"""Random sentences that make sense: phrases and clauses, and the constructions of the demo grammar."""

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from allyouneed.lab.demo.grammar import expressions
from allyouneed.lab.demo.grammar.expressions import CONJUNCTIONS, NUMBERS, POSSESSIVES, PRONOUNS, WHAT, WHO
from allyouneed.lab.demo.grammar.lexicon import BE, VERBS, Noun, ObjectSlot, Verb, adjectives_of, nouns_of
from allyouneed.lab.demo.grammar.syntax import (
    Adjunct,
    Clause,
    Front,
    Modal,
    Nominal,
    NounPhrase,
    Sentence,
    Tense,
    agreement,
    wording,
)

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


# Constructions: each a function that draws one sentence

MODALS: tuple[Modal, ...] = ("can", "must", "should")
NARRATIVE: tuple[Tense, ...] = ("present", "past")
DYNAMIC = tuple(verb for verb in EVENTS if "stative" not in verb.traits)
WITH_OBJECT = tuple(verb for verb in EVENTS if verb.objects)
ONE_OBJECT = tuple(verb for verb in WITH_OBJECT if len(verb.objects) == 1 and not verb.objects[0].preposition)
PASSIVE = tuple(
    verb
    for verb in ONE_OBJECT
    if verb in DYNAMIC and verb.objects[0].case == "accusative" and not verb.preposition
)
THINGS = nouns_of("goods vehicle food drink opening home building")


def declarative(sampler: SentenceSampler) -> Sentence:
    """My sister read the old letter in the kitchen yesterday."""
    return Sentence((sampler.timed(sampler.event(tenses=("present", "progressive", "past"))),))


def separable_verb(sampler: SentenceSampler) -> Sentence:
    """The student threw away the old newspapers: the German prefix ends the clause."""
    verb = sampler.pick([verb for verb in EVENTS if verb.german.prefix])
    return Sentence((sampler.timed(sampler.event(verb, tenses=("present", "progressive", "past"))),))


def compound_tense(sampler: SentenceSampler) -> Sentence:
    """Anna has bought, will buy a gift: participle and infinitive end the German clause."""
    event = sampler.event(sampler.pick(DYNAMIC), tenses=("perfect", "future"))
    return Sentence((sampler.timed(event),))


def modal(sampler: SentenceSampler) -> Sentence:
    """The farmer must repair the door: the infinitive ends the German clause."""
    verb = sampler.pick([verb for verb in EVENTS if "involuntary" not in verb.traits])
    event = replace(sampler.event(verb, tenses=("present",)), modal=sampler.pick(MODALS))
    return Sentence((sampler.timed(event),))


def negation(sampler: SentenceSampler) -> Sentence:
    """The boy did not eat an apple: `nicht`, or `kein` on an indefinite object."""
    return Sentence((sampler.timed(sampler.event(sampler.pick(WITH_OBJECT), negated=True)),))


def yes_no_question(sampler: SentenceSampler) -> Sentence:
    """Does the nurse help your uncle? English needs `do`, German puts the verb first."""
    event = sampler.event(tenses=("present", "progressive", "perfect", "future"))
    return Sentence((replace(sampler.timed(event), front=""),), question=True)


def wh_question(sampler: SentenceSampler) -> Sentence:
    """Which books has the writer sold?"""
    return Sentence((_asked(sampler),), question=True)


def complement_clause(sampler: SentenceSampler) -> Sentence:
    """Peter says that the guests will arrive tomorrow: the verb ends the German clause."""
    kind = sampler.pick(("that", "whether"))
    within = (declarative, separable_verb, compound_tense, modal, negation, passive, object_relative)
    (inner,) = sampler.pick(within)(sampler).clauses
    return _reported(sampler, kind, replace(inner, front="", conjunction=CONJUNCTIONS[kind]))


def embedded_question(sampler: SentenceSampler) -> Sentence:
    """Maria knows which book the student lost."""
    return _reported(sampler, "whether", _asked(sampler))


def adverbial_clause(sampler: SentenceSampler) -> Sentence:
    """When the guests arrived, we called him: a clause in front takes the first place of the German one."""
    word = sampler.pick(("if", "as soon as", "because", "although", "before", "while", "when"))
    tense: Tense = "future" if word in {"if", "as soon as"} else sampler.pick(NARRATIVE)
    inner_tense: Tense = "present" if tense == "future" else tense
    main, inner = _two_events(sampler, tense, inner_tense)
    conjunction = CONJUNCTIONS["when it was" if word == "when" and tense == "past" else word]
    if word in {"because", "although"} and main.subject.pronoun in PRONOUNS and sampler.chance(0.7):
        inner = sampler.state(replace(PRONOUNS[main.subject.pronoun]), HUMANS, tense)
    front: Front = "inner" if sampler.chance(0.5) else ""
    return Sentence((replace(main, inner=replace(inner, conjunction=conjunction), front=front),))


def subject_relative(sampler: SentenceSampler) -> Sentence:
    """The woman who invited the neighbours is reading a poem."""
    person = sampler.definite(HUMANS)
    relative = replace(
        sampler.event(subject=expressions.relative_pronoun(person), short=True), front="subject"
    )
    return Sentence((_about(sampler, replace(person, relative=relative)),))


def object_relative(sampler: SentenceSampler) -> Sentence:
    """The letter that the man wrote is too long."""
    verb = sampler.pick(ONE_OBJECT)
    thing = sampler.definite(verb.objects[0].nouns)
    relative = replace(
        sampler.event(verb, short=True), objects=(expressions.relative_pronoun(thing),), front="object"
    )
    return Sentence((_about(sampler, replace(thing, relative=relative)),))


def passive(sampler: SentenceSampler) -> Sentence:
    """The picture has been stolen by a tourist."""
    verb = sampler.pick(PASSIVE)
    patient = sampler.noun_phrase(verb.objects[0].nouns, without={""})
    event = sampler.event(verb, patient, tenses=("present", "past", "perfect", "future"))
    agent = sampler.name() if sampler.chance(0.3) else sampler.noun_phrase(HUMANS, without={"", "every"})
    by = (Adjunct(expressions.BY, agent),) if sampler.chance(0.75) else ()
    event = replace(event, objects=(), passive=True, adjuncts=(*by, *event.adjuncts))
    return Sentence((sampler.timed(event),))


def coordination(sampler: SentenceSampler) -> Sentence:
    """The waitress opened the window and turned off the radio."""
    tense = sampler.pick(NARRATIVE)
    shared = sampler.subject(HUMANS) if sampler.chance(0.4) else None
    first, second = _two_events(sampler, tense, tense, shared)
    first = sampler.timed(first, 0.5)
    joined = expressions.AND if shared else sampler.pick((expressions.AND, expressions.BUT))
    return Sentence((first, replace(second, conjunction=joined)))


def anaphora(sampler: SentenceSampler) -> Sentence:
    """The actress sold the coat because it was too old: German `it` has the gender of the coat."""
    verb = sampler.pick([verb for verb in ONE_OBJECT if {*THINGS} & {*verb.objects[0].nouns}])
    thing = sampler.definite([noun for noun in verb.objects[0].nouns if noun in THINGS], adjective=0)
    tense = sampler.pick(NARRATIVE)
    state = sampler.state(replace(PRONOUNS[thing.pronoun]), [thing.noun], tense)
    reason = replace(state, conjunction=CONJUNCTIONS[sampler.pick(("because", "although"))])
    event = sampler.event(verb, tenses=(tense,))
    return Sentence((replace(event, objects=(thing,), inner=reason),))


CONSTRUCTIONS: dict[str, Callable[[SentenceSampler], Sentence]] = {
    function.__name__: function
    for function in (
        *(declarative, separable_verb, compound_tense, modal, negation, yes_no_question, wh_question),
        *(complement_clause, embedded_question, adverbial_clause, subject_relative, object_relative),
        *(passive, coordination, anaphora),
    )
}
"""All constructions by name; they are equally frequent."""

# Clauses that constructions consist of


def _asked(sampler: SentenceSampler) -> Clause:
    """Who followed the tourists, which letter did she forget, when, why or where did it happen?"""
    kind = sampler.pick(("who", "object", "object", "circumstance"))
    if kind == "who":
        return replace(sampler.timed(sampler.event(subject=replace(WHO))), front="subject")
    if kind == "object":
        event = sampler.event(sampler.pick(ONE_OBJECT))
        asked = _asked_object(sampler, sampler.pick(event.verb.objects[0].nouns))
        return replace(sampler.timed(event), objects=(asked,), front="object")
    event = sampler.event()
    if "local" in event.verb.traits and sampler.chance(0.5):
        return replace(event, adjuncts=(Adjunct(expressions.WHERE),), front="adjunct")
    return replace(event, time=Adjunct(sampler.pick((expressions.WHEN, expressions.WHY))), front="time")


def _asked_object(sampler: SentenceSampler, noun: Noun) -> Nominal:
    if sampler.chance(0.3):
        return replace(WHO if noun.is_human else WHAT)
    phrase = sampler.noun_phrase([noun], adjective=0.3)
    return replace(phrase, determiner="which")


def _reported(sampler: SentenceSampler, trait: str, said: Clause) -> Sentence:
    """A sentence in which somebody says, knows or asks the clause `said`."""
    verb = sampler.pick([verb for verb in VERBS.values() if trait in verb.traits])
    return Sentence((Clause(sampler.subject(HUMANS), verb, inner=said),))


def _about(sampler: SentenceSampler, thing: NounPhrase) -> Clause:
    """A clause about a noun phrase with a relative clause: what it does, is, or what happens to it."""
    verbs = [verb for verb in ONE_OBJECT if thing.noun in verb.objects[0].nouns]
    if verbs and sampler.chance(0.4):
        return replace(sampler.event(sampler.pick(verbs), short=True), objects=(thing,))
    if thing.noun.is_human and sampler.chance(0.6):
        return sampler.timed(sampler.event(subject=thing, short=True), 0.3)
    return sampler.state(thing, [thing.noun], sampler.pick(NARRATIVE))


def _two_events(
    sampler: SentenceSampler, first_tense: Tense, second_tense: Tense, shared: Nominal | None = None
) -> tuple[Clause, Clause]:
    """Two events with different verbs; the second is short."""
    verbs = [verb for verb in DYNAMIC if not shared or verb.subjects[0] in HUMANS]
    first, second = sampler.rng.sample(verbs, 2)
    return (
        sampler.event(first, shared, tenses=(first_tense,)),
        sampler.event(second, shared, tenses=(second_tense,), short=True),
    )
