"""The demo corpus is correct English and German, and its parts are what they are said to be."""

import hashlib
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import pytest
import sacrebleu

from allyouneed.data.demo_grammar import (
    DemoCorpus,
    DemoPair,
    demo_dictionary,
    expressions,
    generate_demo_corpus,
    words,
)
from allyouneed.data.demo_grammar.constructions import CONSTRUCTIONS
from allyouneed.data.demo_grammar.corpus import (
    LONGEST_IN_TEST,
    LONGEST_IN_TRAIN,
    SHARE_OF_LONGER,
    is_held_out,
    realise,
)
from allyouneed.data.demo_grammar.lexicon import ADJECTIVES, NOUNS, THERE_IS, VERBS
from allyouneed.data.demo_grammar.syntax import (
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
from allyouneed.evaluation.yardsticks import nearest_sentence, translate_word_by_word

Bracketing = tuple[str, list["Bracketing"] | str]


@pytest.fixture(scope="module")
def corpus() -> DemoCorpus:
    return generate_demo_corpus(num_train=6000, num_valid=200, num_test=300)


@pytest.fixture(scope="module")
def pairs(corpus: DemoCorpus) -> list[DemoPair]:
    return [*corpus.train, *corpus.valid, *corpus.test]


# Hand-written translations


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


# The corpus


def test_parts_have_the_sizes_asked_for_and_share_no_source(
    corpus: DemoCorpus, pairs: list[DemoPair]
) -> None:
    assert (len(corpus.train), len(corpus.valid), len(corpus.test)) == (6000, 200, 300)
    assert len({pair.source for pair in pairs}) == len(pairs)


def test_vocabulary_and_length_are_those_of_real_text(corpus: DemoCorpus) -> None:
    for side in ("source", "target"):
        types = {word.lower() for pair in corpus.train for word in re.findall(r"\w+", getattr(pair, side))}
        assert len(types) >= 500
    lengths = [len(pair.source.split()) for pair in corpus.train]
    assert 11 <= sum(lengths) / len(lengths) <= 13


def test_constructions_are_all_frequent(corpus: DemoCorpus) -> None:
    counts = Counter(pair.construction for pair in corpus.train)
    assert set(counts) == set(CONSTRUCTIONS)
    assert min(counts.values()) >= 6000 / len(CONSTRUCTIONS) / 2


def test_every_noun_and_verb_is_frequent_in_train(corpus: DemoCorpus) -> None:
    counts = Counter(word for pair in corpus.train for word in set(re.findall(r"\w+", pair.source)))
    for noun in NOUNS.values():
        forms = {noun.english, noun.english_plural}
        assert sum(counts[form] for form in forms) >= 10, noun.english  # 50 in the 30,000 of the demo
    for verb in VERBS.values():
        forms = {verb.base, verb.past, verb.participle, verb.gerund}
        assert sum(counts[form] for form in forms) >= 10, verb.base


def test_equal_sources_of_other_seeds_have_equal_targets(pairs: list[DemoPair]) -> None:
    targets = {pair.source: pair.target for pair in pairs}
    other = generate_demo_corpus(num_train=1500, num_valid=0, num_test=0, seed=2).train
    shared = [pair for pair in other if pair.source in targets]
    assert len(shared) < len(other)
    assert all(targets[pair.source] == pair.target for pair in shared)


def test_corpus_depends_on_the_seed_alone() -> None:
    program = (
        "import hashlib; from allyouneed.data.demo_grammar import generate_demo_corpus;"
        "print(hashlib.sha256(repr(generate_demo_corpus(60, 10, 10, seed=7)).encode()).hexdigest())"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    here = hashlib.sha256(repr(generate_demo_corpus(60, 10, 10, seed=7)).encode()).hexdigest()
    assert digests == {here}
    assert generate_demo_corpus(60, 10, 10, seed=8) != generate_demo_corpus(60, 10, 10, seed=7)


# Trees and alignments


def parse(text: str) -> Bracketing:
    """An independent reader of brackets."""
    tokens = re.findall(r"[()]|[^()\s]+", text)

    def read(position: int) -> tuple[Bracketing, int]:
        label, position = tokens[position + 1], position + 2
        if tokens[position] != "(":
            return (label, tokens[position]), position + 2
        children = []
        while tokens[position] == "(":
            child, position = read(position)
            children.append(child)
        return (label, children), position + 1

    tree, end = read(0)
    assert end == len(tokens)
    return tree


def leaves(tree: Bracketing) -> list[tuple[str, str]]:
    label, children = tree
    return (
        [(label, children)]
        if isinstance(children, str)
        else [leaf for child in children for leaf in leaves(child)]
    )


def phrases(tree: Bracketing) -> Iterator[tuple[str, list[Bracketing]]]:
    label, children = tree
    if not isinstance(children, str):
        yield label, children
        for child in children:
            yield from phrases(child)


def test_leaves_are_the_words_and_marks_of_the_sentence(pairs: list[DemoPair]) -> None:
    for pair in pairs:
        for sentence, tree in ((pair.source, pair.source_tree), (pair.target, pair.target_tree)):
            assert [word for _, word in leaves(parse(tree))] == re.findall(r"\w+|[^\w\s]", sentence)


def test_alignment_is_sorted_within_bounds_and_covers_every_word(pairs: list[DemoPair]) -> None:
    for pair in pairs:
        source, target = leaves(parse(pair.source_tree)), leaves(parse(pair.target_tree))
        assert list(pair.alignment) == sorted(set(pair.alignment))
        for aligned, side in (
            ({i for i, _ in pair.alignment}, source),
            ({j for _, j in pair.alignment}, target),
        ):
            assert aligned <= set(range(len(side)))
            assert all(word == "," for i, (_, word) in enumerate(side) if i not in aligned), pair


def test_names_and_numbers_are_aligned_with_themselves(pairs: list[DemoPair]) -> None:
    checked = 0
    for pair in pairs:
        source, target = leaves(parse(pair.source_tree)), leaves(parse(pair.target_tree))
        for i, (_, word) in enumerate(source):
            if word in {*expressions.LAST_NAMES, *expressions.FIRST_NAMES} or word.isdigit():
                assert [target[j][1] for k, j in pair.alignment if k == i and target[j][1] == word] == [word]
                checked += 1
    assert checked > 1000


def test_sentences_begin_with_a_capital_and_end_with_the_same_mark(pairs: list[DemoPair]) -> None:
    for pair in pairs:
        assert re.fullmatch(r"[A-ZÄÖÜ0-9][\w ,]*[.?]", pair.source)
        assert re.fullmatch(r"[A-ZÄÖÜ0-9][\w ,]*[.?]", pair.target)
        assert pair.source[-1] == pair.target[-1]
        assert "  " not in pair.source + pair.target


# Grammar, checked on the trees and the raw tables


def test_the_german_verb_is_second_in_statements(pairs: list[DemoPair]) -> None:
    for pair in pairs:
        label, children = parse(pair.target_tree)
        assert not isinstance(children, str)
        if label == "S" and pair.target.endswith("."):
            fronted_clause = int(children[1][0] == "$,")
            assert children[1 + fronted_clause][0] in {"VVFIN", "VAFIN", "VMFIN"}, pair.target


def test_the_german_verb_is_last_in_subordinate_clauses(pairs: list[DemoPair]) -> None:
    checked = 0
    for pair in pairs:
        for label, children in phrases(parse(pair.target_tree)):
            opening = leaves((label, children))[0][0]
            if label == "S" and children[0][0] != "S" and opening in {"KOUS", "PRELS", "PRELAT"}:
                tags = [child[0] for child in children]
                after = tags[max(i for i, tag in enumerate(tags) if tag.endswith("FIN")) + 1 :]
                # only clauses and `als ..` may follow
                assert set(after) <= {"$,", "S", "VP", "PP"}, pair.target
                checked += 1
    assert checked > 1000


def test_german_subordinate_clauses_begin_after_a_comma(pairs: list[DemoPair]) -> None:
    for pair in pairs:
        words_of_target = leaves(parse(pair.target_tree))
        for i, (tag, _) in enumerate(words_of_target):
            if tag in {"KOUS", "KOUI", "PRELS", "PRELAT"} and i > 0:
                before = words_of_target[max(0, i - 2) : i]
                assert any(word == "," for _, word in before), pair.target


def raw_nouns() -> Iterator[tuple[str, str, str]]:
    """(article, singular, plural), straight from the tables."""
    for table in words.NOUNS.values():
        for row in table.strip().split("\n"):
            article, singular, _, plural = re.findall(r"= (\w+) (\w+), (\w+)(?:, (\w+))?", row)[0]
            yield article, singular, plural


def test_articles_have_the_gender_of_their_nouns(pairs: list[DemoPair]) -> None:
    seen: dict[str, set[str]] = defaultdict(set)
    for pair in pairs:
        tagged = leaves(parse(pair.target_tree))
        for (tag, article), (_, noun) in pairwise(tagged):
            if tag == "ART":
                seen[noun].add(article.lower())
    feminine, masculine, neuter = {"die", "der"}, {"der", "den", "dem", "des"}, {"das", "dem", "des"}
    possible = {"die": feminine, "der": masculine, "das": neuter}
    indefinite = {
        "die": {"eine", "einer"},
        "der": {"ein", "einen", "einem", "eines"},
        "das": {"ein", "einem", "eines"},
    }
    plurals = {plural for _, _, plural in raw_nouns()}
    for article, singular, _ in raw_nouns():
        if singular not in plurals:
            assert seen[singular] <= possible[article] | indefinite[article], singular
        assert seen[singular]


def test_english_present_verbs_agree_with_noun_subjects(corpus: DemoCorpus) -> None:
    checked = 0
    for pair in corpus.train:
        for label, children in phrases(parse(pair.source_tree)):
            labels = [child[0] for child in children]
            if label == "S" and "NP" in labels and labels[-1] in {"VP", "."} and "VP" in labels:
                subject = children[len(labels) - 1 - labels[::-1].index("NP")]
                verb = next(
                    (tag for tag, _ in leaves(children[labels.index("VP")]) if tag.startswith(("VB", "MD"))),
                    "",
                )
                head = subject
                while not isinstance(head[1], str) and head[1][0][0] == "NP" and ("CC", "and") not in head[1]:
                    head = head[1][0]
                tags = [tag for tag, _ in leaves(head)]
                if verb in {"VBZ", "VBP"} and tags[-1] in {"NN", "NNS"} and "CC" not in tags:
                    assert (verb == "VBP") == (tags[-1] == "NNS"), pair.source
                    checked += 1
    assert checked > 300


def test_indefinite_articles_fit_the_next_word(pairs: list[DemoPair]) -> None:
    for pair in pairs:
        assert not re.search(r"\b[Aa] [aeiou]", pair.source)
        assert not re.search(r"\b[Aa]n [^aeiou]", pair.source)


# The held-out part


def verb_arguments(tree: Bracketing) -> Iterator[tuple[str, str]]:
    """(form of a noun, form of a verb) for plain subjects and objects, read off the English tree."""

    def head_noun(phrase: Bracketing) -> str | None:
        label, children = phrase
        if isinstance(children, str) or label not in {"NP", "WHNP"}:
            return None
        if children[0][0] in {"NP", "WHNP"}:
            return None if ("CC", "and") in children else head_noun(children[0])
        return children[-1][1] if children[-1][0] in {"NN", "NNS"} else None  # type: ignore[return-value]

    for label, children in phrases(tree):
        labels = [child[0] for child in children]
        if label == "S" and labels[:2] == ["NP", "VP"]:
            verb, objects = children[1], []
            while not isinstance(verb[1], str) and any(child[0] == "VP" for child in verb[1]):
                verb = next(child for child in verb[1] if child[0] == "VP")
            main = [child for child in verb[1] if child[0].startswith("VB")]
            # passives and infinitives have other subjects; only the plain clause is read
            if len(main) == 1 and isinstance(main[0][1], str):
                objects = [child for child in verb[1] if child[0] == "NP"]
                for argument in (children[0], *objects):
                    if not isinstance(argument, str) and (noun := head_noun(argument)):
                        yield noun, main[0][1]


def held_out_arguments(part: list[DemoPair]) -> int:
    nouns = {form: noun for noun in NOUNS.values() for form in (noun.english, noun.english_plural)}
    verbs = defaultdict(set)
    for verb in VERBS.values():
        for form in (verb.base, verb.past, verb.participle, verb.gerund, verb.base + "s", verb.base + "es"):
            verbs[form].add(verb)
    found = 0
    for pair in part:
        for noun, form in verb_arguments(parse(pair.source_tree)):
            # forms of two verbs (`know`: kennen, wissen) tell nothing
            if noun in nouns and len(verbs[form]) == 1:
                found += is_held_out(nouns[noun], next(iter(verbs[form])))
    return found


def test_held_out_combinations_occur_in_test_alone(corpus: DemoCorpus) -> None:
    assert held_out_arguments(corpus.train) == 0
    assert held_out_arguments(corpus.valid) == 0
    assert held_out_arguments(corpus.test) > len(corpus.test) / 4


def test_test_part_has_its_share_of_longer_sentences(corpus: DemoCorpus) -> None:
    assert max(len(pair.source.split()) for pair in [*corpus.train, *corpus.valid]) == LONGEST_IN_TRAIN
    lengths = [len(pair.source.split()) for pair in corpus.test]
    assert sum(length > LONGEST_IN_TRAIN for length in lengths) == round(SHARE_OF_LONGER * len(lengths))
    assert max(lengths) <= LONGEST_IN_TEST


# The yardsticks


def test_yardsticks_leave_room_for_a_model(corpus: DemoCorpus) -> None:
    sources, references = [pair.source for pair in corpus.test], [pair.target for pair in corpus.test]
    word_by_word = translate_word_by_word(sources, demo_dictionary(corpus.train))
    nearest = nearest_sentence(
        sources, [pair.source for pair in corpus.train], [pair.target for pair in corpus.train]
    )
    assert 5 < sacrebleu.corpus_bleu(word_by_word, [references]).score < 40
    assert 5 < sacrebleu.corpus_bleu(nearest, [references]).score < 60


def test_dictionary_gives_the_usual_form_of_a_word(corpus: DemoCorpus) -> None:
    dictionary = demo_dictionary(corpus.train)
    entries = {"apple": "Apfel", "children": "Kinder", "because": "weil", "Munich": "München", "two": "zwei"}
    assert {word: dictionary[word] for word in entries} == entries
