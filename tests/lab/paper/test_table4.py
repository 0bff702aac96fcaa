"""Table 4 in small: what each row is trained on, and what is refused."""

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from allyouneed import DataConfig, TreeFiles, prepare
from allyouneed.config.presets import parsing_tiny, parsing_wsj
from allyouneed.data.lines import read_lines, write_lines
from allyouneed.errors import DataError, UsageError
from allyouneed.lab.paper import table4_grammar
from allyouneed.lab.paper.experiment import Inputs, Results
from allyouneed.lab.paper.pages.results_page import as_terminal_table, write_report
from allyouneed.lab.paper.pages.results_table import results_table
from allyouneed.lab.paper.reproduction import reproduce
from allyouneed.lab.paper.scales import Scale
from allyouneed.lab.paper.table4 import EXCHANGES, SENTENCES, TABLE4
from allyouneed.lab.paper.table4_grammar import TABLE4_GRAMMAR
from allyouneed.preparation.prepared_data import PreparedData
from allyouneed.runs.loading import load_parser
from allyouneed.tasks.parsing.trees import tree_of

CPU = torch.device("cpu")
MINUTE = Scale(
    "minute",
    32,
    4,
    {
        "batch_tokens": 400,
        "num_steps": 4,
        "warmup_steps": 4,
        "checkpoint_every_steps": 2,
        "average_last": 2,
        "validate_every_steps": 4,
        "precision": "float32",
    },
    search={"beam_size": 1, "max_extra_tokens": 20},
)
NUM_TREES = 16


@pytest.fixture(scope="module")
def treebank(toy_treebank: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Few of the toy grammar's trees, prepared, and text beside them."""
    folder = tmp_path_factory.mktemp("table4")
    trees = list(read_lines(toy_treebank / "train.mrg"))
    (folder / "train.mrg").write_bytes("".join(f"{tree}\n" for tree in trees[:NUM_TREES]).encode())
    (folder / "valid.mrg").write_bytes("".join(f"{tree}\n" for tree in trees[-3:]).encode())
    text = [" ".join(tree_of(tree).words) for tree in trees[NUM_TREES:]]
    (folder / "news.txt").write_bytes("".join(f"{line}\n\n" for line in text).encode())
    config = DataConfig(task="parsing", vocab_size=280, joint_vocabulary=False)
    prepare(folder / "data", TreeFiles(folder / "train.mrg"), TreeFiles(folder / "valid.mrg"), config)
    return folder


def run(treebank: Path, out: Path, *only: str, text: Sequence[Path] = ()) -> Results:
    *_, results = reproduce(TABLE4, out, MINUTE, CPU, Inputs(treebank / "data", text), num_seeds=1, only=only)
    return results


def test_every_row_is_trained_on_what_it_says(treebank: Path, tmp_path: Path) -> None:
    results = run(treebank, tmp_path, text=[treebank / "news.txt"])
    assert not results.failures()
    trees = {name: results.values(name, "trees")[0] for name in results.outcomes}
    [num_silver] = results.values("semi_supervised", "silver_trees")
    # Of 384 sentences 160 are parsed; half of these trees are taken, and gold ones repeated to be as many.
    assert NUM_TREES * SENTENCES == 160
    assert num_silver == pytest.approx(80, abs=5)
    assert trees == {
        "supervised": NUM_TREES,
        "semi_supervised": num_silver + NUM_TREES * round(num_silver / NUM_TREES),
        "exchange": NUM_TREES * (1 + EXCHANGES),
        "half": 8,
        "quarter": 4,
        "eighth": 2,
    }
    silver_is_the_surer_half(treebank, tmp_path)
    eighth = PreparedData(tmp_path / "eighth" / "seed-1" / "data")
    assert eighth.lines("train", "target") == PreparedData(treebank / "data").lines("train", "target")[::8]
    assert eighth.source_vocab_size == 261 + 19 // 8
    assert results.values("supervised", "well_formed") == [100.0]
    table = "\n".join(as_terminal_table(results_table(results)))
    assert "F1 unconstrained, paper" in table
    assert "92.7" in table
    assert "Dyer et al. (2016) 93.3" in "\n".join(results_table(results).remarks)
    write_report(results)


def test_test_trees_are_scored_beside_the_validation_trees(treebank: Path, tmp_path: Path) -> None:
    gold = tmp_path / "test.mrg"
    trees = PreparedData(treebank / "data").lines("train", "target")
    write_lines(gold, [*trees, "(())", "( (CODE <P_1>))"])
    inputs = Inputs(treebank / "data", test={"test_trees": gold})
    out = tmp_path / "out"
    *_, results = reproduce(TABLE4, out, MINUTE, CPU, inputs, num_seeds=1, only=["supervised"])
    assert not results.failures()
    assert (out / "supervised" / "seed-1" / "references.txt").read_bytes() == "".join(
        f"{tree}\n" for tree in trees
    ).encode()
    assert results.values("supervised", "bracket_f1_valid")


def test_silver_trees_of_another_parser_are_trained_on_beside_as_many_gold_ones(
    treebank: Path, tmp_path: Path
) -> None:
    silver = tmp_path / "silver.mrg"
    write_lines(silver, [*PreparedData(treebank / "data").lines("train", "target")[:5] * 8, "(())"])
    inputs, out = Inputs(treebank / "data", silver=silver), tmp_path / "out"
    *_, results = reproduce(TABLE4, out, MINUTE, CPU, inputs, num_seeds=1, only=["other_parser"])
    assert not results.failures()
    assert sorted(results.outcomes) == ["other_parser", "supervised"]
    assert results.values("other_parser", "silver_trees") == [40]
    assert results.values("other_parser", "trees") == [40 + NUM_TREES * round(40 / NUM_TREES)]
    silver.write_bytes(silver.read_bytes() * 2)
    with pytest.raises(UsageError, match="began with other silver trees"):
        next(reproduce(TABLE4, out, MINUTE, CPU, inputs, only=["other_parser"]))
    with pytest.raises(UsageError, match="silver_trees: no row trains on them; leave it out"):
        next(reproduce(TABLE4, out, MINUTE, CPU, inputs, only=["eighth"]))
    silver.write_bytes(b"(())\n")
    with pytest.raises(DataError, match="is empty; give silver trees, or leave them out"):
        next(reproduce(TABLE4, out, MINUTE, CPU, inputs, only=["other_parser"]))
    with pytest.raises(
        UsageError, match="trains on silver trees of another parser; name them with silver_trees"
    ):
        run(treebank, tmp_path / "none", "other_parser")


def test_outputs_with_words_are_those_of_as_many_sentences_a_batch(treebank: Path, tmp_path: Path) -> None:
    config = parsing_tiny().data.replace(vocab_size=280)
    prepare(tmp_path / "data", TreeFiles(treebank / "train.mrg"), TreeFiles(treebank / "valid.mrg"), config)
    out, inputs = tmp_path / "out", Inputs(tmp_path / "data")
    *_, results = reproduce(TABLE4, out, MINUTE, CPU, inputs, num_seeds=1, only=["words"])
    assert not results.failures()
    assert results.values("words", "tag_accuracy")
    configs = [load_parser(out / name / "seed-1" / "run").config for name in ("supervised", "words")]
    assert [config.data.tags for config in configs] == ["predicted", "words"]
    assert [config.training.batch_tokens for config in configs] == [400, 533]


def test_a_row_that_the_data_do_not_suit_is_left_out_or_refused(treebank: Path, tmp_path: Path) -> None:
    text = [treebank / "news.txt"]
    assert "words" not in run(treebank, tmp_path, text=text).outcomes
    with pytest.raises(UsageError, match="row words needs data of tokenizer words, tags predicted, brackets"):
        run(treebank, tmp_path / "other", "words")
    assert not (tmp_path / "other").exists()


def test_the_papers_form_learns_from_more_and_more_trees_of_the_grammar(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"NUM_TREES": (100, 200), "IN_SAMPLE": 200, "NUM_VALID": 5, "VOCAB_SIZE": 300}.items():
        monkeypatch.setattr(table4_grammar, name, value)
    scale = replace(
        TABLE4_GRAMMAR.scales["tiny"],
        training=MINUTE.training,
        search={"beam_size": 2, "max_extra_tokens": 20},
    )
    *_, results = reproduce(TABLE4_GRAMMAR, tmp_path, scale, CPU, num_seeds=1)
    assert not results.failures()
    assert [results.values(row.name, "trees") for row in results.rows] == [[100], [200]]
    rows = [tmp_path / row.name / "seed-1" for row in results.rows]
    trees, more = ((row / "train.mrg").read_bytes() for row in rows)
    assert more.startswith(trees)
    references = {(row / "references.txt").read_bytes() for row in rows}
    assert len(references) == 1
    sentences, unseen = ({*map(words_of, lines.split(b"\n")[:-1])} for lines in (more, references.pop()))
    assert len(unseen) == 5
    assert not sentences & unseen
    config = load_parser(rows[0] / "model").config
    assert (config.model.norm, config.data.tokenizer, config.data.brackets) == ("post", "bpe", "labelled")
    assert config.search.length_penalty == 0.3
    assert TABLE4_GRAMMAR.scales["tiny"](parsing_wsj()).search == parsing_wsj().search
    write_report(results)


def words_of(tree: bytes) -> tuple[str, ...]:
    return tree_of(tree.decode()).words


def silver_is_the_surer_half(treebank: Path, out: Path) -> None:
    folder = out / "semi_supervised" / "seed-1" / "silver"
    parser = load_parser(out / "supervised" / "seed-1" / "model")
    words = [line.split() for line in read_lines(treebank / "news.txt") if line]
    words = [words[math.ceil(n * 384 / 160)] for n in range(160)]
    found = parser.parse(words, beam_size=1, max_extra_tokens=20)
    middle = statistics.median(parse.confidence for parse in found)
    assert list(read_lines(folder / "parsed.mrg")) == [str(parse) for parse in found]
    silver = set(read_lines(folder / "silver.mrg"))
    assert silver == {str(parse) for parse in found if parse.confidence >= middle}


def test_text_is_asked_for_by_the_row_that_needs_it_and_known_by_its_contents(
    treebank: Path, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="parses raw sentences; name files of them with text"):
        run(treebank, tmp_path / "out")
    with pytest.raises(UsageError, match="none of these rows uses raw text"):
        run(treebank, tmp_path / "out", "eighth", text=[treebank / "news.txt"])
    with pytest.raises(DataError, match="no such file"):
        run(treebank, tmp_path / "out", "semi_supervised", text=[treebank / "olds.txt"])
    assert not (tmp_path / "out").exists()
    text = tmp_path / "text.txt"
    text.write_bytes(b"\n\n")
    with pytest.raises(DataError, match=f"{text}: has no sentence; give text"):
        run(treebank, tmp_path / "out", "semi_supervised", text=[text])
    assert not (tmp_path / "out").exists()
    run(treebank, tmp_path / "out", "supervised")
    text.write_bytes(b"too long " * 3_000)
    with pytest.raises(DataError, match=f"{text}: has no sentence that can be parsed; give text"):
        run(treebank, tmp_path / "out", "semi_supervised", text=[text])
    with pytest.raises(UsageError, match="began with other text; name another folder"):
        run(treebank, tmp_path / "out", "semi_supervised", text=[treebank / "news.txt"])
    assert set(json.loads((tmp_path / "out" / "experiment.json").read_bytes())) == {
        *("experiment", "scale", "settings", "revision", "data", "model", "text", "test")
    }


def test_data_for_translation_and_data_that_was_added_to_are_refused(
    treebank: Path, toy_data: Path, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="is for translation; prepare data for parsing, with trees"):
        TABLE4.require(PreparedData(toy_data))  # type: ignore[misc]
    files = TreeFiles(treebank / "train.mrg", repetitions=2)
    config = DataConfig(task="parsing", vocab_size=280, joint_vocabulary=False)
    prepare(tmp_path / "data", files, TreeFiles(treebank / "valid.mrg"), config)
    with pytest.raises(UsageError, match="holds repeated, exchanged or silver trees"):
        TABLE4.require(PreparedData(tmp_path / "data"))  # type: ignore[misc]


def test_the_tiny_scale_makes_the_tiny_preset_of_the_papers_parser() -> None:
    scaled, tiny = TABLE4.scales["tiny"](parsing_wsj()), parsing_tiny()
    vocabulary = {"source_vocab_size": 4_000, "d_k": None, "d_v": None}
    assert scaled.model.head_widths == tiny.model.head_widths
    assert scaled.replace(model=vocabulary, data=tiny.data.model_dump()) == tiny  # data are as they were made
    assert TABLE4.scales["paper"](parsing_wsj()).model.replace(d_k=None, d_v=None) == parsing_wsj().model
    assert replace(TABLE4.scales["paper"], sized_for="").changes() == []
