"""The demo corpus has the parts, the vocabulary and the yardsticks that it is said to have."""

import hashlib
import os
import re
import subprocess
import sys
from collections import Counter

import sacrebleu

from allyouneed.lab.demo.demo_run import nearest_sentence, translate_word_by_word
from allyouneed.lab.demo.grammar import DemoCorpus, DemoPair, demo_dictionary, generate_demo_corpus
from allyouneed.lab.demo.grammar.constructions import CONSTRUCTIONS
from allyouneed.lab.demo.grammar.grammar_corpus import LONGEST_IN_TEST, LONGEST_IN_TRAIN, SHARE_OF_LONGER
from allyouneed.lab.demo.grammar.lexicon import NOUNS, VERBS


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
    assert 10 <= sum(lengths) / len(lengths) <= 13


def test_constructions_are_all_frequent(corpus: DemoCorpus) -> None:
    counts = Counter(pair.construction for pair in corpus.train)
    assert set(counts) == set(CONSTRUCTIONS)
    assert min(counts.values()) >= 6000 / len(CONSTRUCTIONS) / 2


def test_every_noun_and_verb_is_frequent_in_train(corpus: DemoCorpus) -> None:
    counts = Counter(word for pair in corpus.train for word in set(re.findall(r"\w+", pair.source)))
    for noun in NOUNS.values():
        forms = {noun.english, noun.english_plural}
        assert sum(counts[form] for form in forms) >= 10, noun.english
    for verb in VERBS.values():
        english = verb.english
        forms = {*english.present, *english.past, english.participle, english.gerund}
        assert sum(counts[form] for form in forms) >= 10, english.infinitive


def test_equal_sources_of_other_seeds_have_equal_targets(pairs: list[DemoPair]) -> None:
    targets = {pair.source: pair.target for pair in pairs}
    other = [  # two seeds, as few sentences are drawn twice
        pair
        for seed in (3, 8)
        for pair in generate_demo_corpus(num_train=6000, num_valid=0, num_test=0, seed=seed).train
    ]
    shared = [pair for pair in other if pair.source in targets]
    assert shared
    assert len(shared) < len(other)
    assert all(targets[pair.source] == pair.target for pair in shared)


def test_corpus_depends_on_the_seed_alone() -> None:
    program = (
        "import hashlib; from allyouneed.lab.demo.grammar import generate_demo_corpus;"
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


def test_test_part_has_its_share_of_longer_sentences(corpus: DemoCorpus) -> None:
    assert max(len(pair.source.split()) for pair in [*corpus.train, *corpus.valid]) == LONGEST_IN_TRAIN
    lengths = [len(pair.source.split()) for pair in corpus.test]
    assert sum(length > LONGEST_IN_TRAIN for length in lengths) == round(SHARE_OF_LONGER * len(lengths))
    assert max(lengths) <= LONGEST_IN_TEST


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
    assert dictionary["does"] == dictionary["did"] == ""
