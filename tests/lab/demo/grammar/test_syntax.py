"""Trees and alignments fit the sentences, and the trees show correct grammar and what was held out."""

import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from allyouneed.lab.demo.grammar import DemoCorpus, DemoPair, expressions
from allyouneed.lab.demo.grammar.grammar_corpus import is_held_out
from allyouneed.lab.demo.grammar.lexicon import NOUNS, VERBS, WORDS

Bracketing = tuple[str, list["Bracketing"] | str]


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
    for table in WORDS["nouns"].values():
        for row in table.strip().split("\n"):
            article, singular, plural = re.findall(r"= (\w+) (\w+)(?:, (\w+))?", row)[0]
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
    assert len(seen) > 150


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
        english = verb.english
        for form in (*english.present, *english.past, english.participle, english.gerund):
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
