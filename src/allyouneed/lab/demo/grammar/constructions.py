"""The constructions of the demo grammar: each a function that draws one sentence."""

from collections.abc import Callable
from dataclasses import replace

from allyouneed.lab.demo.grammar.expressions import (
    AND,
    BUT,
    BY,
    CONJUNCTIONS,
    PRONOUNS,
    WHAT,
    WHEN,
    WHERE,
    WHO,
    WHY,
    relative_pronoun,
)
from allyouneed.lab.demo.grammar.lexicon import VERBS, Noun, nouns_of
from allyouneed.lab.demo.grammar.sentence_sampling import EVENTS, HUMANS, SentenceSampler
from allyouneed.lab.demo.grammar.syntax import (
    Adjunct,
    Clause,
    Front,
    Modal,
    Nominal,
    NounPhrase,
    Sentence,
    Tense,
)

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
    relative = replace(sampler.event(subject=relative_pronoun(person), short=True), front="subject")
    return Sentence((_about(sampler, replace(person, relative=relative)),))


def object_relative(sampler: SentenceSampler) -> Sentence:
    """The letter that the man wrote is too long."""
    verb = sampler.pick(ONE_OBJECT)
    thing = sampler.definite(verb.objects[0].nouns)
    relative = replace(sampler.event(verb, short=True), objects=(relative_pronoun(thing),), front="object")
    return Sentence((_about(sampler, replace(thing, relative=relative)),))


def passive(sampler: SentenceSampler) -> Sentence:
    """The picture has been stolen by a tourist."""
    verb = sampler.pick(PASSIVE)
    patient = sampler.noun_phrase(verb.objects[0].nouns, without={""})
    event = sampler.event(verb, patient, tenses=("present", "past", "perfect", "future"))
    agent = sampler.name() if sampler.chance(0.3) else sampler.noun_phrase(HUMANS, without={"", "every"})
    by = (Adjunct(BY, agent),) if sampler.chance(0.75) else ()
    event = replace(event, objects=(), passive=True, adjuncts=(*by, *event.adjuncts))
    return Sentence((sampler.timed(event),))


def coordination(sampler: SentenceSampler) -> Sentence:
    """The waitress opened the window and turned off the radio."""
    tense = sampler.pick(NARRATIVE)
    shared = sampler.subject(HUMANS) if sampler.chance(0.4) else None
    first, second = _two_events(sampler, tense, tense, shared)
    return Sentence(
        (sampler.timed(first, 0.5), replace(second, conjunction=AND if shared else sampler.pick((AND, BUT))))
    )


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
        return replace(event, adjuncts=(Adjunct(WHERE),), front="adjunct")
    return replace(event, time=Adjunct(sampler.pick((WHEN, WHY))), front="time")


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
