"""Every construction is translated as a translator wrote it down by hand."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from allyouneed.lab.demo.grammar.constructions import CONSTRUCTIONS
from allyouneed.lab.demo.grammar.expressions import (
    AND,
    BUT,
    BY,
    CONJUNCTIONS,
    IN,
    PRONOUNS,
    TO,
    TO_CITY,
    WHEN,
    WHO,
    relative_pronoun,
)
from allyouneed.lab.demo.grammar.expressions import name as name_of
from allyouneed.lab.demo.grammar.grammar_corpus import realise
from allyouneed.lab.demo.grammar.lexicon import ADJECTIVES, BE, NOUNS, VERBS
from allyouneed.lab.demo.grammar.syntax import (
    Adjunct,
    Clause,
    Fixed,
    Front,
    Nominal,
    NounPhrase,
    Sentence,
    Tense,
    wording,
)

ANNA = name_of("Anna", "Anna", "she")
YESTERDAY = "yesterday/NN = gestern/ADV"


def np(noun: str, determiner: str = "the", plural: bool = False, adjective: str = "") -> NounPhrase:
    return NounPhrase(NOUNS[noun], determiner, plural, ADJECTIVES[adjective] if adjective else None)


def pronoun(word: str) -> Fixed:
    return replace(PRONOUNS[word])


def event(
    subject: Nominal, verb: str, *objects: Nominal, tense: Tense = "present", time: str = "", **more: object
) -> Clause:
    clause = Clause(subject, VERBS[verb], objects, tense, time=Adjunct(wording(time)) if time else None)
    return replace(clause, **more)  # type: ignore[arg-type]


def is_like(subject: Nominal, row: str, tense: Tense = "present", **more: object) -> Clause:
    clause = Clause(subject, BE, tense=tense, predicate=Adjunct(wording(row)))
    return replace(clause, **more)  # type: ignore[arg-type]


def about(head: NounPhrase, verb: str, *others: Nominal, front: Front, tense: Tense = "past") -> NounPhrase:
    """The noun phrase with a relative clause, of which it is the subject or object (`front`)."""
    gap = relative_pronoun(head)
    subject, *objects = (gap, *others) if front == "subject" else (*others, gap)
    return replace(head, relative=event(subject, verb, *objects, tense=tense, front=front))


def declaratives() -> Iterator[tuple[str, Clause, str, str]]:
    """(construction, clause, English by hand, German by hand)."""
    yield (
        "declarative",
        event(
            np("sister", "my"),
            "geben",
            np("child"),
            np("book", "a", adjective="old"),
            tense="past",
            time=YESTERDAY,
        ),
        "My sister gave the child an old book yesterday.",
        "Meine Schwester gab gestern dem Kind ein altes Buch.",
    )
    yield (
        "declarative",
        event(
            np("student", "three", True),
            "helfen",
            np("farmer", "this", adjective="poor"),
            tense="progressive",
        ),
        "Three students are helping this poor farmer.",
        "Drei Studenten helfen diesem armen Bauern.",
    )
    week = "last/JJ week/NN = letzte/ADJA Woche/NN"
    yield (
        "declarative",
        event(np("doctor"), "verkaufen", np("car", "his"), tense="past", time=week, front="time"),
        "Last week the doctor sold his car.",
        "Letzte Woche verkaufte der Arzt sein Auto.",
    )
    year = "in/IN 2015/CD = im/APPRART Jahr/NN 2015/CARD = 0-0 0-1 1-2"
    munich = (Adjunct(TO_CITY, name_of("Munich", "München")),)
    yield (
        "declarative",
        event(pronoun("we"), "reisen", tense="past", adjuncts=munich, time=year, front="time"),
        "In 2015 we travelled to Munich.",
        "Im Jahr 2015 reisten wir nach München.",
    )
    ago = "two/CD days/NNS ago/RB = vor/APPR zwei/CARD Tagen/NN = 0-1 1-2 2-0"
    papers = np("newspaper", "the", True, "old")
    yield (
        "separable_verb",
        event(np("student"), "wegwerfen", papers, tense="past", time=ago),
        "The student threw away the old newspapers two days ago.",
        "Der Student warf vor zwei Tagen die alten Zeitungen weg.",
    )
    yield (
        "separable_verb",
        event(pronoun("he"), "abholen", pronoun("they"), tense="progressive"),
        "He is picking them up.",
        "Er holt sie ab.",
    )
    already = Adjunct(wording("already/RB = schon/ADV"))
    yield (
        "compound_tense",
        event(np("guest", "the", True), "ankommen", tense="perfect", adverb=already),
        "The guests have already arrived.",
        "Die Gäste sind schon angekommen.",
    )
    yield (
        "compound_tense",
        event(np("teacher"), "lesen", np("letter", "our"), tense="future", time="tomorrow/NN = morgen/ADV"),
        "The teacher will read our letter tomorrow.",
        "Der Lehrer wird morgen unseren Brief lesen.",
    )
    yield (
        "modal",
        event(np("writer"), "einschalten", np("radio", "the", True), modal="must"),
        "The writer must turn on the radios.",
        "Der Schriftsteller muss die Radios einschalten.",
    )
    forest = (Adjunct(IN, np("forest", adjective="dark")),)
    yield (
        "modal",
        event(np("boy"), "schlafen", modal="should", adjuncts=forest, negated=True),
        "The boy should not sleep in the dark forest.",
        "Der Junge sollte nicht im dunklen Wald schlafen.",
    )
    yield (
        "negation",
        event(np("girl"), "essen", np("apple", "a", adjective="sweet"), tense="past", negated=True),
        "The girl did not eat a sweet apple.",
        "Das Mädchen aß keinen süßen Apfel.",
    )
    yield (
        "negation",
        event(np("neighbour", "your"), "warten", np("bus"), tense="past", negated=True, time=YESTERDAY),
        "Your neighbour did not wait for the bus yesterday.",
        "Ihr Nachbar wartete gestern nicht auf den Bus.",
    )
    by = (Adjunct(BY, np("tourist", "a")),)
    yield (
        "passive",
        event(np("picture"), "verlieren", tense="perfect", passive=True, adjuncts=by),
        "The picture has been lost by a tourist.",
        "Das Bild ist von einem Touristen verloren worden.",
    )
    by = (Adjunct(BY, np("farmer")),)
    yield (
        "passive",
        event(
            np("door", "two", True),
            "öffnen",
            tense="past",
            passive=True,
            adjuncts=by,
            time="on/IN Monday/NNP = am/APPRART Montag/NN",
        ),
        "Two doors were opened by the farmer on Monday.",
        "Zwei Türen wurden am Montag vom Bauern geöffnet.",
    )


def clauses_in_clauses() -> Iterator[tuple[str, Clause, str, str]]:
    woman, man = np("woman"), np("man")
    inner = event(np("actress"), "aufhängen", np("coat", "her", adjective="expensive"), tense="perfect")
    yield (
        "complement_clause",
        event(ANNA, "sagen", inner=replace(inner, conjunction=CONJUNCTIONS["that"])),
        "Anna says that the actress has hung up her expensive coat.",
        "Anna sagt, dass die Schauspielerin ihren teuren Mantel aufgehängt hat.",
    )
    back = event(np("colleague", "our", True), "zurückkommen", conjunction=CONJUNCTIONS["whether"])
    yield (
        "complement_clause",
        event(pronoun("they"), "fragen", inner=back),
        "They ask whether our colleagues come back.",
        "Sie fragen, ob unsere Kollegen zurückkommen.",
    )
    key = np("key", "which")
    asked = event(np("tourist", "the", True), "suchen", key, tense="progressive", front="object")
    yield (
        "embedded_question",
        event(pronoun("I"), "wissen", inner=asked),
        "I know which key the tourists are looking for.",
        "Ich weiß, welchen Schlüssel die Touristen suchen.",
    )
    sang = event(np("bird", "the", True), "singen", tense="past", conjunction=CONJUNCTIONS["when it was"])
    yield (
        "adverbial_clause",
        event(np("nurse"), "aufstehen", tense="past", inner=sang, front="inner"),
        "When the birds sang, the nurse got up.",
        "Als die Vögel sangen, stand die Krankenschwester auf.",
    )
    tired = is_like(pronoun("she"), "tired/JJ = müde/ADJD", conjunction=CONJUNCTIONS["because"])
    yield (
        "adverbial_clause",
        event(woman, "einschlafen", inner=tired),
        "The woman falls asleep because she is tired.",
        "Die Frau schläft ein, weil sie müde ist.",
    )
    inviting = about(woman, "einladen", np("neighbour", "our", True), front="subject")
    yield (
        "subject_relative",
        event(inviting, "lesen", np("novel", "a"), tense="progressive"),
        "The woman who invited our neighbours is reading a novel.",
        "Die Frau, die unsere Nachbarn einlud, liest einen Roman.",
    )
    thanked = about(np("student", "the", True), "helfen", np("doctor"), front="object", tense="perfect")
    yield (
        "object_relative",
        event(ANNA, "anrufen", thanked, tense="past"),
        "Anna called the students whom the doctor has helped.",
        "Anna rief die Studenten an, denen der Arzt geholfen hat.",
    )
    yield (
        "object_relative",
        is_like(about(np("letter"), "schreiben", man, front="object"), "too/RB long/JJ = zu/ADV lang/ADJD"),
        "The letter that the man wrote is too long.",
        "Der Brief, den der Mann schrieb, ist zu lang.",
    )
    reached = Adjunct(TO, about(np("market"), "besuchen", pronoun("we"), front="object"))
    yield (
        "object_relative",
        event(pronoun("she"), "gehen", tense="past", adjuncts=(reached,)),
        "She went to the market that we visited.",
        "Sie ging zu dem Markt, den wir besuchten.",
    )
    row = "too/RB expensive/JJ = zu/ADV teuer/ADJD"
    expensive = is_like(pronoun("masculine"), row, "past", conjunction=CONJUNCTIONS["because"])
    yield (
        "anaphora",
        event(np("actress"), "kaufen", np("coat"), tense="past", negated=True, inner=expensive),
        "The actress did not buy the coat because it was too expensive.",
        "Die Schauspielerin kaufte den Mantel nicht, weil er zu teuer war.",
    )


def whole_sentences() -> Iterator[tuple[str, Sentence, str, str]]:
    yield (
        "yes_no_question",
        Sentence((event(np("nurse"), "anrufen", np("uncle", "my"), tense="past"),), question=True),
        "Did the nurse call my uncle?",
        "Rief die Krankenschwester meinen Onkel an?",
    )
    yield (
        "yes_no_question",
        Sentence((is_like(np("coffee"), "too/RB hot/JJ = zu/ADV heiß/ADJD"),), question=True),
        "Is the coffee too hot?",
        "Ist der Kaffee zu heiß?",
    )
    whom = event(np("man"), "folgen", replace(WHO), tense="perfect", front="object")
    yield (
        "wh_question",
        Sentence((whom,), question=True),
        "Whom has the man followed?",
        "Wem ist der Mann gefolgt?",
    )
    yield (
        "wh_question",
        Sentence((event(replace(WHO), "schlafen", tense="past", front="subject"),), question=True),
        "Who slept?",
        "Wer schlief?",
    )
    when = replace(event(pronoun("you"), "ankommen", tense="future"), time=Adjunct(WHEN), front="time")
    yield (
        "wh_question",
        Sentence((when,), question=True),
        "When will you arrive?",
        "Wann werden Sie ankommen?",
    )
    waitress = np("waitress")
    turns_off = event(waitress, "einschalten", np("radio"), tense="past", conjunction=AND)
    yield (
        "coordination",
        Sentence((event(waitress, "öffnen", np("window"), tense="past"), turns_off)),
        "The waitress opened the window and turned on the radio.",
        "Die Kellnerin öffnete das Fenster und schaltete das Radio ein.",
    )
    plays = event(np("dog", "the", True), "spielen", conjunction=BUT)
    yield (
        "coordination",
        Sentence((event(np("cat"), "schlafen"), plays)),
        "The cat sleeps, but the dogs play.",
        "Die Katze schläft, aber die Hunde spielen.",
    )


EXAMPLES = [
    (construction, Sentence((clause,)), english, german)
    for examples in (declaratives(), clauses_in_clauses())
    for construction, clause, english, german in examples
] + list(whole_sentences())


@pytest.mark.parametrize(
    ("construction", "structure", "english", "german"), EXAMPLES, ids=[example[2] for example in EXAMPLES]
)
def test_both_sides_are_what_a_translator_wrote(
    construction: str, structure: Sentence, english: str, german: str
) -> None:
    pair = realise(structure, construction)
    assert (pair.source, pair.target) == (english, german)


def test_every_construction_has_a_hand_written_example() -> None:
    assert {construction for construction, *_ in EXAMPLES} == set(CONSTRUCTIONS)
    assert len(CONSTRUCTIONS) >= 12


def test_trees_and_alignment_of_a_separable_verb_in_a_question() -> None:
    clause = event(pronoun("she"), "wegwerfen", np("letter", "a"), tense="past", negated=True)
    pair = realise(Sentence((clause,), question=True), "negation")
    assert pair.source_tree == (
        "(SQ (VBD Did) (NP (PRP she)) (RB not) (VP (VB throw) (PRT (RP away)) (NP (DT a) (NN letter))) (. ?))"
    )
    assert pair.target_tree == (
        "(S (VVFIN Warf) (NP (PPER sie)) (NP (PIAT keinen) (NN Brief)) (PTKVZ weg) ($. ?))"
    )
    did, throw, away = 0, 3, 4
    verb = {(i, j) for i in (did, throw, away) for j in (0, 4)}
    assert set(pair.alignment) == {*verb, (1, 1), (2, 2), (5, 2), (6, 3), (7, 5)}
