"""Clauses with a gap, a question word or a fronted constituent, from which constructions are put together."""

from collections.abc import Sequence
from dataclasses import replace

from allyouneed.demo.grammar import expressions
from allyouneed.demo.grammar.determiners import OWNABLE, RELATIONS
from allyouneed.demo.grammar.lexicon import VERBS, Noun, Verb, nouns_of
from allyouneed.demo.grammar.sampling import EVENTS, HUMANS, TENSES, Sampler
from allyouneed.demo.grammar.syntax import (
    Adjunct,
    Clause,
    Name,
    Nominal,
    NounPhrase,
    Pronoun,
    RelativePronoun,
    Subordinate,
    Tense,
    WhPronoun,
    is_human,
    is_plural,
)

SIMPLE: tuple[Tense, ...] = ("present", "progressive", "past")
NARRATIVE: tuple[Tense, ...] = ("present", "past")

DYNAMIC = tuple(verb for verb in EVENTS if "stative" not in verb.traits)
WITH_OBJECT = tuple(verb for verb in EVENTS if verb.objects)
ONE_OBJECT = tuple(verb for verb in EVENTS if len(verb.objects) == 1 and not verb.objects[0].preposition)
PASSIVE = tuple(
    verb
    for verb in ONE_OBJECT
    if verb.objects[0].case == "accusative" and not verb.preposition and "stative" not in verb.traits
)
PURPOSEFUL = tuple(verb for verb in WITH_OBJECT if not verb.traits & {"stative", "punctual", "mishap"})
LOCAL_INTRANSITIVE = tuple(verb for verb in EVENTS if "local" in verb.traits and not verb.objects)
THINGS = frozenset(nouns_of("goods vehicle food drink opening home building"))
INDOORS = nouns_of("home building")


def fronted(sampler: Sampler, clause: Clause) -> Clause:
    """The clause with a time in front."""
    time = sampler.time("modal" if clause.modal else clause.tense)
    return replace(clause, time=time, front=time)


def maybe_fronted(sampler: Sampler, clause: Clause) -> Clause:
    """The clause with its time, if it has one, sometimes in front."""
    return replace(clause, front=clause.time) if clause.time and sampler.chance(0.35) else clause


def verb_with(sampler: Sampler, *traits: str) -> Verb:
    """A verb with one of the traits."""
    return sampler.pick([verb for verb in VERBS.values() if verb.traits & set(traits)])


def head(sampler: Sampler, noun: Noun) -> NounPhrase:
    """A noun phrase that a relative clause or a comparison can be about."""
    plural = noun.countable and sampler.chance(0.25)
    determiners = ["my", "our"] if noun in RELATIONS else ["the", "the", "this"]
    if noun.countable and not plural and noun not in RELATIONS:
        determiners.append("a")
    phrase = NounPhrase(noun, sampler.pick(determiners), plural)
    return sampler.described(phrase) if sampler.chance(0.3) else phrase


def reporting(sampler: Sampler, verb: Verb, said: Subordinate) -> Clause:
    """Somebody says, knows or asks it."""
    return Clause(sampler.subject(short=True), verb, subordinate=said)


def pronoun_for(nominal: Nominal) -> Pronoun | None:
    """The pronoun that takes up a human subject, if English and German agree on it."""
    match nominal:
        case Pronoun(word=word):
            return Pronoun(word)
        case Name(gender=gender) | NounPhrase(noun=Noun(gender=gender), plural=False) if gender != "neuter":
            return Pronoun("he" if gender == "masculine" else "she")
    return Pronoun("they") if is_plural(nominal) else None


# Relative clauses


def object_gap(sampler: Sampler, gap: RelativePronoun, tenses: Sequence[Tense] = tuple(TENSES)) -> Clause:
    """(the letter) that the lawyer wrote."""
    verb = sampler.pick([verb for verb in ONE_OBJECT if gap.noun in verb.objects[0].nouns])
    clause = replace(sampler.event(verb, short=True, tenses=tenses), objects=(gap,), front=gap)
    return sampler.timed(clause, 0.4) if clause.tense == "past" else clause


def whose(sampler: Sampler) -> tuple[Clause, NounPhrase]:
    """(the girl) whose dog is ill, or whose dog I saw; and the girl."""
    owner = head(sampler, sampler.pick(HUMANS))
    gap = RelativePronoun(owner.noun, owner.plural)
    verb = sampler.pick(ONE_OBJECT)
    owned = [noun for noun in verb.objects[0].nouns if noun in OWNABLE and noun.countable]
    noun = sampler.pick(owned or nouns_of("animal"))
    belonging = NounPhrase(noun, "whose", sampler.chance(0.2), possessor=gap)
    if not owned or sampler.chance(0.4):
        return replace(sampler.state(belonging, noun, sampler.pick(NARRATIVE)), front=belonging), owner
    return replace(sampler.event(verb, short=True), objects=(belonging,), front=belonging), owner


def in_which(sampler: Sampler) -> tuple[Clause, NounPhrase]:
    """(the hotel) in which we slept, and the hotel."""
    place = head(sampler, sampler.pick(INDOORS))
    preposition = expressions.LOCATIVE.get(place.noun.english, expressions.IN)
    adjunct = Adjunct(preposition, RelativePronoun(place.noun, place.plural))
    inner = sampler.event(sampler.pick(LOCAL_INTRANSITIVE), sampler.subject(short=True), short=True)
    return replace(inner, adjuncts=(adjunct,), front=adjunct), place


def about(sampler: Sampler, subject: NounPhrase, told: Clause) -> Clause:
    """What the noun phrase, of which a relative clause has `told`, does or is, or what happens to it."""
    subject = replace(subject, relative=told)
    doing = [verb for verb in EVENTS if subject.noun in verb.subjects and verb is not told.verb]
    done = [verb for verb in ONE_OBJECT if subject.noun in verb.objects[0].nouns and verb is not told.verb]
    if is_human(subject.noun) and sampler.chance(0.5):
        return sampler.timed(sampler.event(sampler.pick(doing), subject, short=True), 0.6)
    if not done or sampler.chance(0.4):
        return sampler.state(subject, subject.noun, sampler.pick(NARRATIVE))
    return replace(sampler.event(sampler.pick(done), short=True), objects=(subject,))


# Questions


def ask_who(sampler: Sampler) -> Clause:
    """Who followed the tourists?"""
    asked = WhPronoun("who")
    return replace(sampler.timed(sampler.event(subject=asked)), front=asked)


def ask_object(sampler: Sampler) -> Clause:
    """Which letter, whom, what, how many cakes did she forget?"""
    clause = sampler.event(sampler.pick(ONE_OBJECT))
    asked = _asked_object(sampler, sampler.pick(clause.verb.objects[0].nouns))
    return replace(sampler.timed(clause), objects=(asked,), front=asked)


def _asked_object(sampler: Sampler, noun: Noun) -> Nominal:
    if sampler.chance(0.3):
        return WhPronoun("who" if is_human(noun) else "what")
    plural = noun.countable and sampler.chance(0.4)
    determiner = "how many" if plural and sampler.chance(0.6) else "which"
    phrase = NounPhrase(noun, determiner, plural)
    return sampler.described(phrase) if sampler.chance(0.3) else phrase


def ask_circumstance(sampler: Sampler) -> Clause:
    """Where, when or why did it happen?"""
    clause = sampler.event()
    if "local" in clause.verb.traits and sampler.chance(0.5):
        where = replace(expressions.WHERE)
        return replace(clause, adjuncts=(where,), front=where)
    asked = replace(sampler.pick((expressions.WHEN, expressions.WHY)))
    return replace(clause, time=asked, front=asked)


# Two clauses about one thing


def passive_event(sampler: Sampler) -> Clause:
    """The picture has been stolen by a tourist."""
    verb = sampler.pick(PASSIVE)
    patient = sampler.noun_phrase(verb.objects[0].nouns, allowed=lambda word: word != "")
    agent = sampler.name() if sampler.chance(0.3) else head(sampler, sampler.pick(HUMANS))
    adjuncts = [Adjunct(expressions.BY, agent)] if sampler.chance(0.75) else []
    if "local" in verb.traits and sampler.chance(0.4):
        adjuncts.append(sampler.place())
    tense = sampler.tense(verb, patient, ("present", "past", "perfect", "future"))
    return Clause(patient, verb, tense=tense, passive=True, adjuncts=tuple(adjuncts))


def thing_and_pronoun(sampler: Sampler) -> tuple[Clause, NounPhrase, Pronoun]:
    """Somebody does something to a thing; the thing; and the pronoun for it."""
    verb = sampler.pick([verb for verb in ONE_OBJECT if THINGS & set(verb.objects[0].nouns)])
    nouns = [noun for noun in verb.objects[0].nouns if noun in THINGS]
    tense = sampler.pick(NARRATIVE)
    clause = sampler.event(verb, short=True, tenses=(tense,))
    determiners = {"the", "a", "this", "my"}
    thing = sampler.noun_phrase(nouns, owner=clause.subject, allowed=lambda word: word in determiners)
    pronoun = Pronoun("they") if thing.plural else Pronoun("it", thing.noun.gender)
    return replace(clause, objects=(thing,)), thing, pronoun


def two_events(
    sampler: Sampler, first_tense: Tense, second_tense: Tense, shared: Nominal | None = None
) -> tuple[Clause, Clause]:
    """Two events of different verbs, the second a short one."""
    first_verb, second_verb = sampler.rng.sample(DYNAMIC, 2)
    first = sampler.event(first_verb, shared or sampler.subject(short=True), tenses=(first_tense,))
    return first, sampler.event(second_verb, shared, short=True, tenses=(second_tense,))


def infinitive(sampler: Sampler, main: Clause) -> Clause:
    """What the subject of the main clause does or wants to do."""
    return sampler.event(sampler.pick(PURPOSEFUL), main.subject, tenses=("present",))
