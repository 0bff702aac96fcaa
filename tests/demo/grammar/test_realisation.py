"""Every construction is translated as a translator wrote it down by hand."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from allyouneed.demo.grammar import expressions
from allyouneed.demo.grammar.constructions import CONSTRUCTIONS
from allyouneed.demo.grammar.corpus import realise
from allyouneed.demo.grammar.lexicon import ADJECTIVES, NOUNS, THERE_IS, VERBS
from allyouneed.demo.grammar.syntax import (
    Adjunct,
    Adverbial,
    Clause,
    Degree,
    Modal,
    Name,
    Nominal,
    NounPhrase,
    Pair,
    Predicate,
    Pronoun,
    RelativePronoun,
    Sentence,
    Subordinate,
    Tense,
    WhPronoun,
)


def np(noun: str, determiner: str = "the", plural: bool = False, adjective: str = "") -> NounPhrase:
    return NounPhrase(NOUNS[noun], determiner, plural, ADJECTIVES[adjective] if adjective else None)


def name(*words: str, feminine: bool = True) -> Name:
    return Name(words, words, "feminine" if feminine else "masculine")


def event(
    subject: Nominal,
    verb: str,
    *objects: Nominal,
    tense: Tense = "present",
    modal: Modal = "",
    time: Adverbial | None = None,
    **more: object,
) -> Clause:
    return replace(Clause(subject, VERBS[verb], objects, tense, modal, time=time), **more)  # type: ignore[arg-type]


def is_like(
    subject: Nominal, adjective: str, degree: Degree = "positive", tense: Tense = "present"
) -> Clause:
    return Clause(subject, tense=tense, predicate=Predicate(ADJECTIVES[adjective], degree))


def say(*clauses: Clause, question: bool = False, conjunction: tuple[str, str] = ("", "")) -> Sentence:
    return Sentence(clauses, question, *conjunction)


def gap(noun: str, plural: bool = False) -> RelativePronoun:
    return RelativePronoun(NOUNS[noun], plural)


def fronted(clause: Clause, front: object) -> Clause:
    return replace(clause, front=front)  # type: ignore[arg-type]


def in_(noun: NounPhrase) -> Adjunct:
    return Adjunct(expressions.IN, noun)


def adverbial(english: str) -> Adverbial:
    groups = [*expressions.TIMES.values(), *([adverbs] for adverbs in expressions.FREQUENCY.values())]
    found = [
        a for group in groups for row in group for a in row if " ".join(w for _, w in a.english) == english
    ]
    return replace(found[0])


def example_sentences() -> Iterator[tuple[str, Sentence, str, str]]:
    """(construction, structure, English by hand, German by hand)."""
    anna, woman, man = name("Anna"), np("woman"), np("man")
    yield (
        "declarative",
        say(
            event(
                np("sister", "my"),
                "geben",
                np("child"),
                np("book", "a", adjective="old"),
                tense="past",
                time=adverbial("yesterday"),
            )
        ),
        "My sister gave the child an old book yesterday.",
        "Meine Schwester gab gestern dem Kind ein altes Buch.",
    )
    yield (
        "declarative",
        say(
            event(
                np("student", "three", True),
                "helfen",
                np("farmer", "this", adjective="poor"),
                tense="progressive",
            )
        ),
        "Three students are helping this poor farmer.",
        "Drei Studenten helfen diesem armen Bauern.",
    )
    yield (
        "declarative",
        say(
            event(
                Pair(anna, np("brother", "her")),
                "zeichnen",
                np("horse", "20", True),
                adjuncts=(in_(np("garden")),),
            )
        ),
        "Anna and her brother draw 20 horses in the garden.",
        "Anna und ihr Bruder zeichnen im Garten 20 Pferde.",
    )
    yield (
        "declarative",
        say(
            event(
                Pronoun("I"), "füttern", np("rabbit", "some", True, "hungry"), time=adverbial("every morning")
            )
        ),
        "I feed some hungry rabbits every morning.",
        "Ich füttere jeden Morgen einige hungrige Kaninchen.",
    )
    week = adverbial("last week")
    yield (
        "fronted_adverbial",
        say(event(np("doctor"), "verkaufen", np("car", "his"), tense="past", time=week, front=week)),
        "Last week the doctor sold his car.",
        "Letzte Woche verkaufte der Arzt sein Auto.",
    )
    year = adverbial("in 2015")
    yield (
        "fronted_adverbial",
        say(
            event(
                Pronoun("we"),
                "reisen",
                tense="past",
                adjuncts=(Adjunct(expressions.TO_CITY, Name(("Munich",), ("München",))),),
                time=year,
                front=year,
            )
        ),
        "In 2015 we travelled to Munich.",
        "Im Jahr 2015 reisten wir nach München.",
    )
    yield (
        "separable_verb",
        say(
            event(
                np("student"),
                "wegwerfen",
                np("newspaper", "the", True, "old"),
                tense="past",
                time=adverbial("two days ago"),
            )
        ),
        "The student threw away the old newspapers two days ago.",
        "Der Student warf vor zwei Tagen die alten Zeitungen weg.",
    )
    yield (
        "separable_verb",
        say(event(Pronoun("he"), "abholen", Pronoun("they"), tense="progressive")),
        "He is picking them up.",
        "Er holt sie ab.",
    )
    yield (
        "perfect",
        say(event(np("guest", "the", True), "ankommen", tense="perfect", adverb=adverbial("already"))),
        "The guests have already arrived.",
        "Die Gäste sind schon angekommen.",
    )
    yield (
        "perfect",
        say(event(np("teacher"), "lesen", np("letter", "our"), tense="perfect", time=adverbial("today"))),
        "The teacher has read our letter today.",
        "Der Lehrer hat heute unseren Brief gelesen.",
    )
    yield (
        "modal",
        say(event(np("engineer"), "einschalten", np("machine", "the", True), modal="must")),
        "The engineer must turn on the machines.",
        "Der Ingenieur muss die Maschinen einschalten.",
    )
    yield (
        "modal",
        say(
            event(
                np("boy"),
                "schlafen",
                modal="want",
                adjuncts=(in_(np("forest", adjective="dark")),),
                negated=True,
            )
        ),
        "The boy does not want to sleep in the dark forest.",
        "Der Junge will nicht im dunklen Wald schlafen.",
    )
    yield (
        "negation",
        say(event(np("girl"), "essen", np("apple", "a", adjective="sweet"), tense="past", negated=True)),
        "The girl did not eat a sweet apple.",
        "Das Mädchen aß keinen süßen Apfel.",
    )
    yield (
        "negation",
        say(
            event(
                np("neighbour", "your"),
                "warten",
                np("bus"),
                tense="future",
                negated=True,
                time=adverbial("tomorrow"),
            )
        ),
        "Your neighbour will not wait for the bus tomorrow.",
        "Ihr Nachbar wird morgen nicht auf den Bus warten.",
    )
    yield (
        "yes_no_question",
        say(event(np("nurse"), "anrufen", np("uncle", "my"), tense="past"), question=True),
        "Did the nurse call my uncle?",
        "Rief die Krankenschwester meinen Onkel an?",
    )
    yield (
        "yes_no_question",
        say(is_like(np("coffee"), "hot", "too"), question=True),
        "Is the coffee too hot?",
        "Ist der Kaffee zu heiß?",
    )
    who, which = WhPronoun("who"), np("guest", "which")
    yield (
        "wh_question",
        say(fronted(event(np("man"), "folgen", who, tense="perfect"), who), question=True),
        "Whom has the man followed?",
        "Wem ist der Mann gefolgt?",
    )
    yield (
        "wh_question",
        say(fronted(event(Pronoun("you"), "einladen", which, tense="future"), which), question=True),
        "Which guest will you invite?",
        "Welchen Gast werden Sie einladen?",
    )
    many = np("egg", "how many", True, "fresh")
    yield (
        "wh_question",
        say(fronted(event(woman, "kaufen", many, tense="past"), many), question=True),
        "How many fresh eggs did the woman buy?",
        "Wie viele frische Eier kaufte die Frau?",
    )
    inner = event(np("actress"), "aufhängen", np("coat", "her", adjective="expensive"), tense="perfect")
    yield (
        "complement_clause",
        say(event(anna, "glauben", subordinate=Subordinate(inner, "that", "dass"))),
        "Anna believes that the actress has hung up her expensive coat.",
        "Anna glaubt, dass die Schauspielerin ihren teuren Mantel aufgehängt hat.",
    )
    inner = event(np("colleague", "our", True), "zurückkommen", tense="present")
    yield (
        "complement_clause",
        say(event(Pronoun("they"), "fragen", subordinate=Subordinate(inner, "whether", "ob"))),
        "They ask whether our colleagues come back.",
        "Sie fragen, ob unsere Kollegen zurückkommen.",
    )
    what = np("key", "which")
    asked = fronted(event(np("tourist", "the", True), "suchen", what, tense="progressive"), what)
    yield (
        "embedded_question",
        say(event(Pronoun("I"), "wissen", subordinate=Subordinate(asked))),
        "I know which key the tourists are looking for.",
        "Ich weiß, welchen Schlüssel die Touristen suchen.",
    )
    when = Subordinate(event(np("bird", "the", True), "singen", tense="past"), "when", "als")
    yield (
        "adverbial_clause",
        say(event(np("baker"), "aufstehen", tense="past", subordinate=when, front=when)),
        "When the birds sang, the baker got up.",
        "Als die Vögel sangen, stand der Bäcker auf.",
    )
    because = Subordinate(is_like(Pronoun("she"), "tired"), "because", "weil")
    yield (
        "adverbial_clause",
        say(event(woman, "einschlafen", subordinate=because)),
        "The woman falls asleep because she is tired.",
        "Die Frau schläft ein, weil sie müde ist.",
    )
    pronoun = gap("woman")
    told = fronted(event(pronoun, "einladen", np("neighbour", "our", True), tense="past"), pronoun)
    yield (
        "subject_relative",
        say(event(replace(woman, relative=told), "lesen", np("poem", "a"), tense="progressive")),
        "The woman who invited our neighbours is reading a poem.",
        "Die Frau, die unsere Nachbarn einlud, liest ein Gedicht.",
    )
    pronoun = gap("student", True)
    told = fronted(event(np("doctor"), "danken", pronoun, tense="perfect"), pronoun)
    yield (
        "object_relative",
        say(event(anna, "anrufen", replace(np("student", "the", True), relative=told), tense="past")),
        "Anna called the students whom the doctor has thanked.",
        "Anna rief die Studenten an, denen der Arzt gedankt hat.",
    )
    pronoun = gap("letter")
    told = fronted(event(man, "schreiben", pronoun, tense="past"), pronoun)
    yield (
        "object_relative",
        say(is_like(replace(np("letter"), relative=told), "long", "too")),
        "The letter that the man wrote is too long.",
        "Der Brief, den der Mann schrieb, ist zu lang.",
    )
    owned = NounPhrase(NOUNS["dog"], "whose", possessor=gap("girl"))
    told = fronted(event(Pronoun("we"), "sehen", owned, tense="past"), owned)
    yield (
        "oblique_relative",
        say(is_like(replace(np("girl"), relative=told), "clever", "very")),
        "The girl whose dog we saw is very clever.",
        "Das Mädchen, dessen Hund wir sahen, ist sehr klug.",
    )
    where = Adjunct(expressions.IN, gap("school", True))
    told = fronted(event(Pronoun("they"), "arbeiten", tense="past", adjuncts=(where,)), where)
    yield (
        "oblique_relative",
        say(is_like(replace(np("school", "the", True), relative=told), "modern", tense="past")),
        "The schools in which they worked were modern.",
        "Die Schulen, in denen sie arbeiteten, waren modern.",
    )
    by = Adjunct(expressions.BY, np("tourist", "a"))
    yield (
        "passive",
        say(event(np("picture"), "stehlen", tense="perfect", passive=True, adjuncts=(by,))),
        "The picture has been stolen by a tourist.",
        "Das Bild ist von einem Touristen gestohlen worden.",
    )
    by = Adjunct(expressions.BY, np("painter"))
    yield (
        "passive",
        say(
            event(
                np("door", "two", True),
                "öffnen",
                tense="past",
                passive=True,
                adjuncts=(by,),
                time=adverbial("on Monday"),
            )
        ),
        "Two doors were opened by the painter on Monday.",
        "Zwei Türen wurden am Montag vom Maler geöffnet.",
    )
    she = Pronoun("she")
    purpose = Subordinate(
        event(she, "kaufen", np("tomato", "", True, "fresh")), "in order", "um", infinitive=True
    )
    to_market = Adjunct(expressions.TO, np("market"))
    yield (
        "purpose_clause",
        say(event(she, "gehen", tense="past", adjuncts=(to_market,), subordinate=purpose)),
        "She went to the market in order to buy fresh tomatoes.",
        "Sie ging zum Markt, um frische Tomaten zu kaufen.",
    )
    bring_back = Subordinate(event(man, "zurückbringen", np("boat")), "", "um", infinitive=True)
    to_lake = Adjunct(expressions.TO, np("lake", adjective="small"))
    yield (
        "purpose_clause",
        say(event(man, "rennen", tense="progressive", adjuncts=(to_lake,), subordinate=bring_back)),
        "The man is running to the small lake to bring back the boat.",
        "Der Mann rennt zum kleinen See, um das Boot zurückzubringen.",
    )
    turn_on = Subordinate(event(man, "einschalten", np("radio")), infinitive=True)
    yield (
        "control_infinitive",
        say(event(man, "versuchen", tense="perfect", subordinate=turn_on)),
        "The man has tried to turn on the radio.",
        "Der Mann hat versucht, das Radio einzuschalten.",
    )
    pronoun = gap("car")
    told = fronted(event(np("brother", "my"), "verkaufen", pronoun, tense="past"), pronoun)
    standard = replace(np("car"), relative=told)
    comparison = Predicate(ADJECTIVES["expensive"], "comparative", standard)
    yield (
        "comparative",
        say(Clause(np("bus"), predicate=comparison)),
        "The bus is more expensive than the car that my brother sold.",
        "Der Bus ist teurer als das Auto, das mein Bruder verkaufte.",
    )
    equal = Predicate(ADJECTIVES["old"], "equal", np("castle"))
    said = Subordinate(Clause(np("church"), tense="past", predicate=equal), "that", "dass")
    yield (
        "comparative",
        say(event(np("writer"), "sagen", subordinate=said)),
        "The writer says that the church was as old as the castle.",
        "Der Schriftsteller sagt, dass die Kirche so alt war wie das Schloss.",
    )
    waitress = np("waitress")
    yield (
        "coordination",
        say(
            event(waitress, "öffnen", np("window"), tense="past"),
            event(waitress, "ausschalten", np("radio"), tense="past"),
            conjunction=("and", "und"),
        ),
        "The waitress opened the window and switched off the radio.",
        "Die Kellnerin öffnete das Fenster und schaltete das Radio aus.",
    )
    yield (
        "coordination",
        say(
            event(np("cat"), "schlafen"),
            event(np("dog", "the", True), "spielen"),
            conjunction=("but", "aber"),
        ),
        "The cat sleeps, but the dogs play.",
        "Die Katze schläft, aber die Hunde spielen.",
    )
    expensive = Subordinate(
        is_like(Pronoun("it", "masculine"), "expensive", "too", "past"), "because", "weil"
    )
    yield (
        "anaphora",
        say(event(np("actress"), "kaufen", np("coat"), tense="past", negated=True, subordinate=expensive)),
        "The actress did not buy the coat because it was too expensive.",
        "Die Schauspielerin kaufte den Mantel nicht, weil er zu teuer war.",
    )
    yield (
        "anaphora",
        say(
            event(name("Peter", feminine=False), "finden", np("lamp", "a"), tense="past"),
            event(anna, "wegwerfen", Pronoun("it", "feminine"), tense="past"),
            conjunction=("and", "und"),
        ),
        "Peter found a lamp and Anna threw it away.",
        "Peter fand eine Lampe und Anna warf sie weg.",
    )
    place = in_(np("city", adjective="old"))
    yield (
        "existential",
        say(
            Clause(Pronoun("there"), THERE_IS, (np("museum", "three", True),), adjuncts=(place,), front=place)
        ),
        "In the old city there are three museums.",
        "In der alten Stadt gibt es drei Museen.",
    )
    yield (
        "head_switching",
        say(event(np("child"), "essen", np("pear", "", True, "sweet"), modal="like")),
        "The child likes to eat sweet pears.",
        "Das Kind isst gern süße Birnen.",
    )


EXAMPLES = list(example_sentences())


@pytest.mark.parametrize(
    ("construction", "structure", "english", "german"), EXAMPLES, ids=[e[2] for e in EXAMPLES]
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
    clause = event(Pronoun("she"), "wegwerfen", np("letter", "a"), tense="past", negated=True)
    pair = realise(say(clause, question=True), "negation")
    assert pair.source_tree == (
        "(SQ (VBD Did) (NP (PRP she)) (RB not) (VP (VB throw) (PRT (RP away)) (NP (DT a) (NN letter))) (. ?))"
    )
    assert pair.target_tree == (
        "(S (VVFIN Warf) (NP (PPER sie)) (NP (PIAT keinen) (NN Brief)) (PTKVZ weg) ($. ?))"
    )
    did, throw, away = 0, 3, 4
    verb = {(i, j) for i in (did, throw, away) for j in (0, 4)}
    assert set(pair.alignment) == {*verb, (1, 1), (2, 2), (5, 2), (6, 3), (7, 5)}
