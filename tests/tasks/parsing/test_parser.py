"""Typographic text is split as the Treebank has it.

A parser that has learned toy trees: what it writes are trees over the words, and the gold ones.
"""

import json
import os
import shutil
from pathlib import Path

import pytest
import torch
from tests.packages import require_packages

import allyouneed
from allyouneed.config.presets import parsing_tiny
from allyouneed.config.run import DataConfig
from allyouneed.errors import DataError, ModelError, UsageError
from allyouneed.preparation.preparing import prepare
from allyouneed.runs.loading import load_parser, load_translator
from allyouneed.runs.starting import train
from allyouneed.tasks.parsing.linearisation import linearise
from allyouneed.tasks.parsing.parser import MAX_TOKENS, Parser, penn_words
from allyouneed.tasks.parsing.task import evaluate_parser
from allyouneed.tasks.parsing.treebank import TreeFiles, clean_trees
from allyouneed.tasks.parsing.trees import read_trees, sentences_of, tree_of
from allyouneed.tasks.requests import Answer, Failure, ParseRequest

require_packages("nltk")


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ("“Oh,” he said.", "`` Oh , '' he said ."),
        ("He said “no.”", "He said `` no . ''"),
        ("(“Well…”)", "( `` Well ... '' )"),
        ("‘Oh,’ he said.", "` Oh , ' he said ."),
        ("She can’t – it’s Bob’s.", "She ca n't -- it 's Bob 's ."),
        ("The dogs’ owner—you know—left.", "The dogs ' owner -- you know -- left ."),
        ('"Oh," he said.', "`` Oh , '' he said ."),
    ],
)
def test_quotes_dashes_and_dots_are_those_of_the_treebank(sentence: str, words: str) -> None:
    assert penn_words(sentence) == words.split(" ")


TWO_UPDATES = {
    **{"num_steps": 2, "batch_tokens": 400, "micro_batch_tokens": 400},
    **{"checkpoint_every_steps": 2, "precision": "float32"},
}
SENTENCE = "the wolf sees the bear near B ."
TREE = (
    "(TOP (S (NP (DT the) (NN wolf)) (VP (VBZ sees)"
    " (NP (NP (DT the) (NN bear)) (PP (IN near) (NP (NNP B))))) (. .)))"
)


@pytest.fixture(scope="module")
def parser(toy_parser: Path) -> Parser:
    found = allyouneed.load(toy_parser)
    assert isinstance(found, Parser)
    return found


def test_it_has_learned_the_trees_and_scores_are_reported(parser: Parser, toy_treebank: Path) -> None:
    gold = [tree for tree, _ in clean_trees(read_trees(toy_treebank / "dev.mrg"))]
    sums, scores = evaluate_parser(parser, gold)
    values = {score.name: score.value for score in scores}
    assert values["bracket_f1"] > 95
    assert values["tag_accuracy"] > 95
    assert values["well_formed"] == 100
    assert sums.num_sentences == len(gold) == 20


def test_a_sentence_that_is_too_long_is_scored_as_one_without_constituents(parser: Parser) -> None:
    long = tree_of("(TOP (S " + "(NN wolf) " * 3_000 + "))")
    sums, scores = evaluate_parser(parser, [tree_of(TREE), long])
    values = {score.name: score.value for score in scores}
    assert (values["bracket_precision"], values["well_formed"]) == (100, 50)
    assert (sums.brackets.test, sums.brackets.gold) == (7, 8)


def test_words_of_a_tree_come_back_as_they_are(parser: Parser) -> None:
    gold = tree_of(r"(TOP (S (NP (NN -LRB-) (NN a\\/b)) (VP (VBZ 1\/2))))")
    assert gold.words == ("(", r"a\/b", "1/2")
    [parse] = parser.parse(sentences_of([gold]))
    assert parse.tree is not None
    assert parse.tree.words == gold.words


def test_training_records_f1_and_takes_the_best_by_it(toy_parser: Path) -> None:
    events = [json.loads(line) for line in (toy_parser / "log.jsonl").read_bytes().split(b"\n") if line]
    [validation] = [event for event in events if event["event"] == "validate"]
    assert validation["f1"] > 95
    assert "bleu" not in validation
    assert (toy_parser / "best").is_file()


def test_text_and_words_give_the_same_tree(parser: Parser) -> None:
    from_text, from_words = parser.parse(["the wolf sees the bear near B.", SENTENCE.split()])
    assert str(from_text) == str(from_words) == TREE
    assert from_text.tree == tree_of(TREE)
    assert from_text.score == pytest.approx(from_words.score)
    assert not from_text.repaired


WEIRD: list[list[str] | str] = [
    ["("],
    [],
    ["a b", "c\td"],
    ["word"] * 300,
    ["-LRB-", "1/2", "*", "☃"],
    ["</s>", "(S", ")"],
    "",
    "the the the",
]
WORDS_OF_WEIRD: list[tuple[str, ...]] = [
    ("(",),
    (),
    ("a\u00a0b", "c\u00a0d"),
    ("word",) * 300,
    ("(", "1/2", "*", "☃"),
    ("</s>", "(S", ")"),
    (),
    ("the", "the", "the"),
]


@pytest.mark.parametrize("constrained", [True, False])
def test_every_sentence_has_a_tree_over_its_words_and_a_blank_one_none(
    parser: Parser, constrained: bool
) -> None:
    found = parser.parse(WEIRD, constrained=constrained, beam_size=2)
    words = [parse.tree.words if parse.tree else () for parse in found]
    assert words == WORDS_OF_WEIRD
    assert all(tree_of(str(parse)) == parse.tree for parse in found if parse.tree)
    assert [str(parse) for parse in found if parse.tree is None] == ["", ""]
    assert constrained is not any(parse.repaired for parse in found)


def test_outputs_with_the_endings_of_words_are_trees_over_the_words_too(
    toy_treebank: Path, tmp_path: Path
) -> None:
    config = DataConfig(task="parsing", vocab_size=300, joint_vocabulary=False, tags="endings")
    prepare(tmp_path / "data", TreeFiles(toy_treebank / "dev.mrg"), config=config)
    settings = parsing_tiny().replace(
        model={"d_model": 16, "d_ff": 16, "num_heads": 2, "num_layers": 1},
        training=TWO_UPDATES,
    )
    train(tmp_path / "run", tmp_path / "data", settings)
    found = load_parser(tmp_path / "run").parse(WEIRD, beam_size=2)
    assert [parse.tree.words if parse.tree else () for parse in found] == WORDS_OF_WEIRD
    assert not any(parse.repaired for parse in found)
    assert {tag for parse in found if parse.tree for tag in parse.tree.tags} == {"XX"}


@pytest.mark.parametrize("tags", ["predicted", "words"])
def test_a_parser_of_words_reads_any_and_writes_joined_brackets(
    toy_treebank: Path, tmp_path: Path, tags: str
) -> None:
    tiny = parsing_tiny().replace(
        model={"d_model": 16, "d_ff": 16, "num_heads": 2, "num_layers": 1, "guided_alignment": 0.5},
        data={"tags": tags},
        training=TWO_UPDATES,
    )
    trees, per_word = TreeFiles(toy_treebank / "dev.mrg"), 4 if tags == "words" else 3
    prepare(tmp_path / "data", trees, trees, config=tiny.data)
    train(tmp_path / "run", tmp_path / "data", tiny)
    found = load_parser(tmp_path / "run").parse(WEIRD, beam_size=2)
    assert [parse.tree.words if parse.tree else () for parse in found] == WORDS_OF_WEIRD
    assert not any(parse.repaired for parse in found)
    assert load_parser(tmp_path / "run").parse(WEIRD, constrained=False, beam_size=1)
    assert [str(parse) for parse in load_parser(tmp_path / "run").parse(["", " "])] == ["", ""]
    with pytest.raises(DataError, match="sentence 1: half a surrogate pair"):
        load_parser(tmp_path / "run").parse([["\ud800"]])
    shown = load_parser(tmp_path / "run").attention(SENTENCE)
    assert [word.text for word in shown.source.words] == [*SENTENCE.split(), "</s>"]
    assert shown.source.words[1].pieces == (per_word, 2 * per_word)
    assert [shown.source.text[begin:end] for begin, end in shown.source.offsets[per_word : 2 * per_word]] == (
        ["wolf"] * per_word
    )
    written = [word.text for word in shown.written.words]
    assert len(shown.written.offsets) == len(shown.written.pieces) == len(written)
    assert len(written) == shown.weights.cross.shape[-2]
    if tags == "words":
        assert [written[0], written[4]] == ["the", "wolf"]
    assert shown.weights.cross.shape[-1] == per_word * len(SENTENCE.split()) + 1


def test_company_changes_nothing(parser: Parser) -> None:
    sentences = [SENTENCE.split()[:length] for length in range(1, 9)]
    together = parser.parse(sentences)
    alone = [parser.parse([sentence])[0] for sentence in sentences]
    assert [str(parse) for parse in together] == [str(parse) for parse in alone]


def test_an_ensemble_of_a_parser_with_itself_is_that_parser(toy_parser: Path, parser: Parser) -> None:
    assert str(load_parser(toy_parser, toy_parser).parse([SENTENCE])[0]) == str(parser.parse([SENTENCE])[0])


def test_what_cannot_be_parsed_is_told_by_its_number(parser: Parser) -> None:
    too_long = ["x"] * (MAX_TOKENS + 1)
    with pytest.raises(DataError, match=r"sentence 2: the sentence has 4,\d+ tokens"):
        parser.parse([["x"], too_long])
    with pytest.raises(DataError, match="sentence 1: an empty word"):
        parser.parse([[""]])
    unread = Failure(1, DataError("cannot be read"))
    long, short = ParseRequest("long", too_long), ParseRequest("short", ["x"])
    found = list(parser.answer([unread, long, short]))
    assert found[0] is unread
    assert isinstance(found[1], Failure)
    assert (found[1].id, found[1].error.label) == ("long", "E-TOO-LONG")
    assert found[2] == Answer("short", parser.parse([["x"]])[0])
    with pytest.raises(TypeError, match="put it in a list"):
        parser.parse("the wolf")
    with pytest.raises(UsageError, match=r"^beam_size: "):
        parser.parse([], beam_size=0)
    with pytest.raises(UsageError, match=r"^workers: .* at most 1024"):
        parser.parse([], workers=1_025)
    with pytest.raises(UsageError, match=r"^mbr: this is for translations only"):
        parser.parse([], mbr=2)
    with pytest.raises(UsageError, match=r"^alignments: this is for translations only"):
        parser.parse([], alignments=True)
    with pytest.raises(UsageError, match=r"^temperature, top_k: this is for samples only"):
        parser.parse([], temperature=0.5, top_k=3)
    with pytest.raises(UsageError, match=r"^beam_size: this is for search only"):
        parser.parse([], beam_size=3, sampling=True)
    with pytest.raises(DataError, match="sentence 1: a NUL character, which no file of trees may have"):
        parser.parse([["a", "\0"]])
    assert repr(found[2].result).startswith("Parse('(TOP ")


def test_where_no_tree_fits_the_sentence_is_flat_and_told(parser: Parser) -> None:
    [found] = parser.parse([["a", "b", "c"]], max_length=3)
    assert str(found).count("(TOP") == 1
    assert found.tree is not None
    assert len(found.tree.constituents) == 1
    assert found.repaired


def test_a_model_is_for_its_task(toy_parser: Path, toy_model: Path) -> None:
    with pytest.raises(ModelError, match="use it with `allyouneed parse`"):
        load_translator(toy_parser)
    with pytest.raises(ModelError, match="use it with `allyouneed translate`"):
        load_parser(toy_model)
    with pytest.raises(ModelError, match="no such model"):
        allyouneed.load(toy_model / "nothing")


def test_a_pipe_in_the_place_of_a_configuration_is_refused_and_not_waited_for(
    toy_model: Path, tmp_path: Path
) -> None:
    model = Path(shutil.copytree(toy_model, tmp_path / "model"))
    (model / "config.toml").unlink()
    os.mkfifo(model / "config.toml")
    with pytest.raises(
        ModelError, match=r"config\.toml: is a pipe or a device, not a regular file; move it away"
    ):
        allyouneed.load(model)


def test_attention_is_that_between_words_and_symbols(parser: Parser) -> None:
    shown = parser.attention(SENTENCE)
    assert [word.text for word in shown.source.words] == [*SENTENCE.split(), "</s>"]
    symbols = linearise(tree_of(TREE), "predicted")
    assert [word.text for word in shown.written.words] == [*symbols, "</s>"]
    assert shown.target.pieces == ["<s>", *symbols]
    assert [shown.written.text[begin:end] for begin, end in shown.written.offsets] == [*symbols, ""]
    assert shown.weights.cross.shape == (1, 2, len(symbols) + 1, len(shown.source.pieces))
    given = parser.attention(SENTENCE.split(), TREE)
    assert given.written == shown.written
    assert torch.equal(given.weights.cross, shown.weights.cross)
    ids = parser.vocabulary.encode(TREE)
    assert shown.target.pieces[1:] == [parser.vocabulary.symbols[token] for token in ids]


def test_attention_to_a_tree_wants_one_over_the_words(parser: Parser) -> None:
    twice = [SENTENCE.split()] * 2
    with pytest.raises(DataError, match=r"^sentence 2: the tree is of other words"):
        list(parser.attentions(twice, [TREE, TREE.replace("wolf", "fox", 1)]))
    with pytest.raises(DataError, match="the tree is of other words"):
        parser.attention(["the", "wolf", "sees", "the", "moon", "."], TREE)
    of_treebank = TREE.replace("(NP (DT", "(NP-SBJ (-NONE- *T*-1) (DT", 1)
    assert of_treebank != TREE
    found = parser.attention(SENTENCE.split(), of_treebank)
    assert found.written == parser.attention(SENTENCE.split(), TREE).written
    with pytest.raises(DataError, match="brackets that the model cannot write"):
        parser.attention(SENTENCE.split(), TREE.replace("(NP", "(WHNP", 1))
    with pytest.raises(DataError, match=r"the tree is of other words \(none\)"):
        parser.attention(SENTENCE.split(), "(TOP (S (-NONE- *)))")
