"""The constructions of the demo grammar: each a function that draws one sentence."""

from collections.abc import Callable
from dataclasses import replace

from allyouneed.demo.grammar import clauses, expressions
from allyouneed.demo.grammar.clauses import NARRATIVE, SIMPLE, maybe_fronted
from allyouneed.demo.grammar.determiners import RELATIONS
from allyouneed.demo.grammar.lexicon import ADJECTIVES, THERE_IS, VERBS, nouns_of
from allyouneed.demo.grammar.sampling import EVENTS, HUMANS, Sampler
from allyouneed.demo.grammar.syntax import (
    Adjunct,
    Clause,
    Modal,
    NounPhrase,
    Predicate,
    Pronoun,
    RelativePronoun,
    Sentence,
    Subordinate,
)

PLAIN = tuple(verb for verb in EVENTS if not verb.prefix)
SEPARABLE = tuple(verb for verb in EVENTS if verb.prefix)
LIKED = tuple(
    VERBS[verb]
    for verb in ("lesen", "schreiben", "essen", "trinken", "kaufen", "zeichnen", "besuchen", "einladen")
) + tuple(VERBS[verb] for verb in ("singen", "spielen", "arbeiten", "reisen", "fliegen"))
MODALS: tuple[Modal, ...] = ("can", "must", "should", "want")
CONTAINED = {
    "building": "city village",
    "animal": "garden park forest village",
    "thing machine": "kitchen office house hotel",
    "food": "kitchen market restaurant",
    "text": "library office school",
}
"""What there is, and where."""


def declarative(sampler: Sampler) -> Sentence:
    """My sister read the old letter in the kitchen yesterday."""
    return Sentence((sampler.timed(sampler.event(sampler.pick(PLAIN), tenses=SIMPLE)),))


def fronted_adverbial(sampler: Sampler) -> Sentence:
    """Last week the doctor sold his car: the German verb stays second and the subject follows it."""
    return Sentence((clauses.fronted(sampler, sampler.event(sampler.pick(clauses.DYNAMIC))),))


def separable_verb(sampler: Sampler) -> Sentence:
    """The student threw away the old newspapers: the German prefix ends the clause."""
    return Sentence((sampler.timed(sampler.event(sampler.pick(SEPARABLE), tenses=SIMPLE)),))


def perfect(sampler: Sampler) -> Sentence:
    """Anna has already bought a gift for her brother: the participle ends the German clause."""
    return Sentence((sampler.timed(sampler.event(sampler.pick(clauses.DYNAMIC), tenses=("perfect",))),))


def modal(sampler: Sampler) -> Sentence:
    """The farmer must repair the gate: the infinitive ends the German clause."""
    verb = sampler.pick([verb for verb in EVENTS if not verb.traits & {"mishap", "punctual"}])
    clause = replace(sampler.event(verb, tenses=("present",)), modal=sampler.pick(MODALS))
    return Sentence((maybe_fronted(sampler, sampler.timed(clause)),))


def negation(sampler: Sampler) -> Sentence:
    """The boy did not eat an apple: `nicht`, or `kein` on an indefinite object."""
    verb = sampler.pick(clauses.WITH_OBJECT)
    return Sentence((maybe_fronted(sampler, sampler.timed(sampler.event(verb, negated=True))),))


def yes_no_question(sampler: Sampler) -> Sentence:
    """Does the nurse help your uncle? English needs `do`, German puts the verb first."""
    clause = sampler.event(tenses=("present", "progressive", "perfect", "perfect", "future"))
    if clause.tense == "present" and sampler.chance(0.7):
        clause = replace(clause, modal=sampler.pick(MODALS))
    return Sentence((sampler.timed(clause),), question=True)


def wh_question(sampler: Sampler) -> Sentence:
    """Which books has the writer sold?"""
    return Sentence((_asked(sampler),), question=True)


def complement_clause(sampler: Sampler) -> Sentence:
    """Peter says that the guests will arrive tomorrow: the verb ends the German clause."""
    verb = clauses.verb_with(sampler, "that", "whether")
    conjunctions = [("that", "dass")] * ("that" in verb.traits) + [("whether", "ob")] * (
        "whether" in verb.traits
    )
    within = (
        declarative,
        separable_verb,
        perfect,
        modal,
        negation,
        passive,
        comparative,
        object_relative,
        existential,
    )
    (inner,) = sampler.pick(within)(sampler).clauses
    said = Subordinate(replace(inner, front=None), *sampler.pick(conjunctions))
    return Sentence((clauses.reporting(sampler, verb, said),))


def embedded_question(sampler: Sampler) -> Sentence:
    """Maria knows which book the student lost."""
    verb = clauses.verb_with(sampler, "whether")
    return Sentence((clauses.reporting(sampler, verb, Subordinate(_asked(sampler))),))


def adverbial_clause(sampler: Sampler) -> Sentence:
    """When the guests arrived, we called him: a clause in front takes the first place of the German one."""
    kind = sampler.pick((_condition, _reason, _time_clause))
    main, subordinate = kind(sampler)
    return Sentence(
        (replace(main, subordinate=subordinate, front=subordinate if sampler.chance(0.5) else None),)
    )


def _condition(sampler: Sampler) -> tuple[Clause, Subordinate]:
    main, inner = clauses.two_events(sampler, "future", "present")
    return main, Subordinate(inner, *sampler.pick((("if", "wenn"), ("as soon as", "sobald"))))


def _reason(sampler: Sampler) -> tuple[Clause, Subordinate]:
    tense = sampler.pick(NARRATIVE)
    main, inner = clauses.two_events(sampler, tense, tense)
    pronoun = clauses.pronoun_for(main.subject)
    if pronoun and sampler.chance(0.7):
        inner = sampler.state(pronoun, tense=tense)
    return main, Subordinate(inner, *sampler.pick((("because", "weil"), ("although", "obwohl"))))


def _time_clause(sampler: Sampler) -> tuple[Clause, Subordinate]:
    tense = sampler.pick(NARRATIVE)
    when = ("when", "als" if tense == "past" else "wenn")
    main, inner = clauses.two_events(sampler, tense, tense)
    return main, Subordinate(inner, *sampler.pick((("before", "bevor"), ("while", "während"), when)))


def subject_relative(sampler: Sampler) -> Sentence:
    """The woman who invited the neighbours is reading a poem."""
    subject = clauses.head(sampler, sampler.pick(HUMANS))
    gap = RelativePronoun(subject.noun, subject.plural)
    relative = replace(sampler.event(subject=gap, short=True), front=gap)
    return Sentence((clauses.about(sampler, subject, relative),))


def object_relative(sampler: Sampler) -> Sentence:
    """The letter that the lawyer wrote is too long."""
    verb = sampler.pick(clauses.ONE_OBJECT)
    thing = clauses.head(sampler, sampler.pick(verb.objects[0].nouns))
    relative = clauses.object_gap(sampler, RelativePronoun(thing.noun, thing.plural))
    return Sentence((clauses.about(sampler, thing, relative),))


def oblique_relative(sampler: Sampler) -> Sentence:
    """The girl whose dog I saw is clever. Or: The hotel in which we slept was quiet."""
    relative, thing = sampler.pick((clauses.whose, clauses.in_which))(sampler)
    return Sentence((clauses.about(sampler, thing, relative),))


def passive(sampler: Sampler) -> Sentence:
    """The picture has been stolen by a tourist."""
    return Sentence((maybe_fronted(sampler, sampler.timed(clauses.passive_event(sampler))),))


def purpose_clause(sampler: Sampler) -> Sentence:
    """She went to the market in order to buy fresh apples: `um .. zu` encloses the German clause."""
    verb = clauses.verb_with(sampler, "walk", "journey")
    main = sampler.timed(sampler.event(verb, sampler.subject(short=True), short=True), 0.3)
    aim = replace(clauses.infinitive(sampler, main), adjuncts=())
    purpose = Subordinate(aim, sampler.pick(("in order", "")), "um", infinitive=True)
    return Sentence((maybe_fronted(sampler, replace(main, subordinate=purpose)),))


def control_infinitive(sampler: Sampler) -> Sentence:
    """The engineer tried to turn on the machine."""
    main = sampler.event(clauses.verb_with(sampler, "control"))
    tried = Subordinate(clauses.infinitive(sampler, main), infinitive=True)
    return Sentence((replace(main, subordinate=tried),))


def comparative(sampler: Sampler) -> Sentence:
    """The new bicycle is more expensive than the car that my brother sold."""
    adjective = sampler.pick([adjective for adjective in ADJECTIVES.values() if adjective.german_comparative])
    left = clauses.head(sampler, sampler.pick(adjective.nouns))
    others = [noun for noun in adjective.nouns if noun.semantic_class == left.noun.semantic_class]
    right = clauses.head(sampler, sampler.pick(others))
    if sampler.chance(0.5):
        relative = clauses.object_gap(sampler, RelativePronoun(right.noun, right.plural))
        right = replace(right, adjective=None, very=False, relative=relative)
    predicate = Predicate(adjective, sampler.pick(("comparative", "comparative", "equal")), right)
    return Sentence((Clause(left, tense=sampler.pick(NARRATIVE), predicate=predicate),))


def coordination(sampler: Sampler) -> Sentence:
    """The waitress opened the window and turned off the radio."""
    tense = sampler.pick(NARRATIVE)
    if sampler.chance(0.4):
        subject = sampler.subject()
        first, second = clauses.two_events(sampler, tense, tense, subject)
        return Sentence((first, second), english_conjunction="and", german_conjunction="und")
    english, german = sampler.pick((("and", "und"), ("but", "aber")))
    first, second = clauses.two_events(sampler, tense, tense)
    return Sentence((first, second), english_conjunction=english, german_conjunction=german)


def anaphora(sampler: Sampler) -> Sentence:
    """The actress sold the coat because it was too old: German `it` has the gender of the coat."""
    main, thing, pronoun = clauses.thing_and_pronoun(sampler)
    verbs = [
        verb for verb in clauses.ONE_OBJECT if thing.noun in verb.objects[0].nouns and verb is not main.verb
    ]
    if not verbs or sampler.chance(0.5):
        english, german = sampler.pick((("because", "weil"), ("although", "obwohl")))
        state = sampler.state(pronoun, thing.noun, main.tense)
        main = replace(main, objects=(replace(thing, adjective=None, very=False),))
        return Sentence((replace(main, subordinate=Subordinate(state, english, german)),))
    again = sampler.event(sampler.pick(verbs), short=True, tenses=(main.tense,))
    english, german = sampler.pick((("and", "und"), ("but", "aber")))
    return Sentence((main, replace(again, objects=(pronoun,))), False, english, german)


def existential(sampler: Sampler) -> Sentence:
    """In the old city there are three museums."""
    what = sampler.pick(list(CONTAINED))
    place = NounPhrase(sampler.pick(nouns_of(CONTAINED[what])))
    place = sampler.described(place) if sampler.chance(0.6) else place
    where = Adjunct(expressions.LOCATIVE.get(place.noun.english, expressions.IN), place)
    new = {"a", "two", "many", "several", "some"}
    thing = sampler.noun_phrase(nouns_of(what), allowed=lambda word: word in new)
    tense = sampler.pick(NARRATIVE)
    if sampler.chance(0.6):
        gap = RelativePronoun(thing.noun, thing.plural)
        thing = replace(thing, relative=clauses.object_gap(sampler, gap, (tense,)))
    return Sentence((Clause(Pronoun("there"), THERE_IS, (thing,), tense, adjuncts=(where,), front=where),))


def head_switching(sampler: Sampler) -> Sentence:
    """The child likes to eat sweet pears: English `likes` is the German adverb `gern`."""
    verb = sampler.pick(LIKED)
    clause = sampler.event(verb, sampler.subject(), tenses=("present",))
    kinds = tuple(
        sampler.noun_phrase(
            [noun for noun in slot.nouns if noun not in RELATIONS],
            allowed=lambda word: word == "",
            adjective=0.6,
        )
        for slot in verb.objects
    )
    return Sentence((replace(clause, objects=kinds, modal="like"),))


CONSTRUCTIONS: dict[str, Callable[[Sampler], Sentence]] = {
    function.__name__: function
    for function in (
        declarative,
        fronted_adverbial,
        separable_verb,
        perfect,
        modal,
        negation,
        yes_no_question,
        wh_question,
        complement_clause,
        embedded_question,
        adverbial_clause,
        subject_relative,
        object_relative,
        oblique_relative,
        passive,
        purpose_clause,
        control_infinitive,
        comparative,
        coordination,
        anaphora,
        existential,
        head_switching,
    )
}
"""Every construction by name; all are equally frequent."""


def _asked(sampler: Sampler) -> Clause:
    ask = sampler.pick((clauses.ask_who, clauses.ask_object, clauses.ask_object, clauses.ask_circumstance))
    return ask(sampler)
