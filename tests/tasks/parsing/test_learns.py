"""A small parser learns the demo grammar's English trees, and then finds those of sentences it never saw."""

from pathlib import Path

import pytest

from allyouneed import TreeFiles, average, prepare, presets, train
from allyouneed.lab.demo.grammar import generate_demo_corpus
from allyouneed.runs.loading import load_parser
from allyouneed.tasks.parsing.task import evaluate_parser
from allyouneed.tasks.parsing.trees import tree_of


@pytest.mark.release
def test_a_small_parser_learns_the_demo_grammar(tmp_path: Path) -> None:
    corpus = generate_demo_corpus(num_train=12_000, num_valid=300, num_test=0)
    for part, pairs in (("train", corpus.train), ("valid", corpus.valid)):
        trees = "".join(f"{pair.source_tree}\n" for pair in pairs)
        (tmp_path / f"{part}.mrg").write_bytes(trees.encode())
    small = presets.parsing_tiny().replace(
        model={
            **{"d_model": 64, "d_ff": 128, "num_heads": 2, "num_layers": 2},
            **{"dropout": 0.0, "attention_dropout": 0.0, "symbol_dropout": 0.0},
        },
        training={
            "batch_tokens": 2_048,
            "micro_batch_tokens": 1_024,
            "num_steps": 1_600,
            "warmup_steps": 300,
            "learning_rate_factor": 1.0,
            "checkpoint_every_steps": 50,
            "average_last": 5,
            "precision": "float32",
        },
    )
    prepare(tmp_path / "data", TreeFiles(tmp_path / "train.mrg"), config=small.data)
    train(tmp_path / "run", tmp_path / "data", small)
    average(tmp_path / "run", tmp_path / "model")
    gold = [tree_of(pair.source_tree) for pair in corpus.valid]
    assert not {tree.words for tree in gold} & {tree_of(pair.source_tree).words for pair in corpus.train}
    sums, _ = evaluate_parser(load_parser(tmp_path / "model"), gold)
    assert sums.brackets.f1 >= 99
