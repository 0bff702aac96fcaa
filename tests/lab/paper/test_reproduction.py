"""Experiments are computed row by row, kept, resumed, compared with the paper, and written down."""

import csv
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.patience import PATIENCE_SECONDS

from allyouneed import CorpusFiles, DataConfig, TreeFiles, prepare
from allyouneed.config.presets import PRESETS, base
from allyouneed.cost.estimate import PUBLISHED, cost
from allyouneed.errors import DataError, DiskError, DivergedError, LockedError, ModelError, UsageError
from allyouneed.evaluation.significance import bleu_counts
from allyouneed.hardware.machine import machine_kind
from allyouneed.lab.paper import identity, reproduction
from allyouneed.lab.paper.experiment import (
    Experiment,
    Figure,
    Inputs,
    Results,
    Row,
    RowError,
    Work,
)
from allyouneed.lab.paper.pages.results_page import as_terminal_table, table_cells, write_report
from allyouneed.lab.paper.pages.results_table import results_table
from allyouneed.lab.paper.reproduction import EXPERIMENTS
from allyouneed.lab.paper.scales import SCALES, Scale
from allyouneed.lab.paper.scaling import additive_micro_batch_tokens
from allyouneed.lab.paper.table3 import TABLE3
from allyouneed.lab.paper.training_rows import SCORES, curve_of
from allyouneed.lab.statistics.figure_tests import keep_counts
from allyouneed.lab.statistics.verdicts import judge
from allyouneed.storage.run_directory import RunDirectory

CPU = torch.device("cpu")
TRANSLATING = [name for name, of in EXPERIMENTS.items() if of.require and name != "table4"]
PAPER, TINY = SCALES["paper"], SCALES["tiny"]
MINUTE = Scale(
    "minute",
    16,
    2,
    {
        "batch_tokens": 400,
        "num_steps": 4,
        "warmup_steps": 4,
        "checkpoint_every_steps": 2,
        "keep_checkpoints": 1,
        "average_last": 1,
        "validate_every_steps": 4,
        "precision": "float32",
    },
)


def experiment_of(bleu: Mapping[str, Mapping[int, float]], paper: Mapping[str, float]) -> Experiment:
    """Rows that compute given scores, and whose translations are the references as far as the score says."""

    def row(name: str) -> Row:
        def compute(work: Work) -> Mapping[str, Any]:
            score = bleu[name][work.seed]
            references = [f"line {n} has its own words {n * 7} and {n * 13}" for n in range(200)]
            found = [text if n < 2 * score else "nothing" for n, text in enumerate(references)]
            keep_counts(work.directory, {"bleu": bleu_counts(found, references)})
            return {"bleu": score, "seconds": 36.0, "matmul_flops": 1e9, "formula_flops": 2e9}

        figures = {"bleu": paper[name]} if name in paper else {}
        return Row(name, f"what {name} is", compute, figures, every_seed=len(bleu[name]) > 1)

    return Experiment("toy", "A toy", lambda scale: [row(name) for name in bleu], {"bleu": SCORES["bleu"]})


def run(experiment: Experiment, out: Path, **options: Any) -> Results:
    *_, results = reproduction.reproduce(experiment, out, TINY, CPU, **options)
    return results


TOY = experiment_of(
    {
        "base": {1: 50.0, 2: 52.0},
        "worse": {1: 30.0, 2: 31.0},
        "better": {1: 80.0, 2: 81.0},
        "like": {1: 51.0, 2: 50.5},
        "once": {1: 20.0},
    },
    {"base": 25.8, "worse": 24.9, "better": 25.0, "like": 25.5},
)


def test_rows_of_every_seed_have_all_of_them_and_the_others_one(tmp_path: Path) -> None:
    results = run(TOY, tmp_path, num_seeds=2)
    assert {row: sorted(of_row) for row, of_row in results.outcomes.items()} == {
        "base": [1, 2],
        "worse": [1, 2],
        "better": [1, 2],
        "like": [1, 2],
        "once": [1],
    }


def test_what_is_there_is_not_computed_again(tmp_path: Path) -> None:
    run(TOY, tmp_path, num_seeds=1)
    kept = tmp_path / "worse" / "seed-1" / "result.json"
    kept.write_bytes(b'{"bleu": 3.0}')
    (tmp_path / "like" / "seed-1" / "result.json").unlink()
    said: list[str] = []
    results = run(TOY, tmp_path, num_seeds=1, say=said.append)
    assert said == ["row 4 of 5: like, seed 1"]
    assert results.values("worse", "bleu") == [3.0]


def test_verdicts_follow_direction_and_noise(tmp_path: Path) -> None:
    results = run(TOY, tmp_path, num_seeds=2)
    found = {judgement.row: judgement for judgement in judge(results)}
    assert {name: judgement.verdict for name, judgement in found.items()} == {
        "worse": "as the paper",
        "better": "not as the paper",
        "like": "not told apart",
        "once": "not tested",
    }
    worse = found["worse"]
    assert worse.difference == pytest.approx(-20.5)
    assert worse.paper == pytest.approx(-0.9)
    assert worse.p_value is not None
    assert worse.p_value < 0.05


def test_the_report_is_a_table_a_csv_and_a_page_without_links(tmp_path: Path) -> None:
    results = run(TOY, tmp_path, num_seeds=2)
    markdown, values, page = (path.read_bytes().decode() for path in write_report(results))
    assert "| base | what base is | 2 | 25.8 | 51.0 ± 1.4 | 0.02 | 2.0e+09 | 4.0e+09 |" in markdown
    assert "| worse | what worse is | 2 | 24.9 | 30.50 ± 0.71 ✓ |" in markdown
    assert re.search(r"As the paper: worse, BLEU -20.50 \(p = [\d.e-]+\), paper -0.90\.", markdown)
    lines = list(csv.DictReader(values.split("\n")))
    assert [line["bleu"] for line in lines if line["row"] == "worse"] == ["30.0", "31.0"]
    assert 'src="data:image/svg+xml;base64,' in page
    assert "http:" not in page
    assert "https:" not in page
    assert "layers divided by 2" in page
    assert [item.split(",")[0] for item in results_table(results).conclusions["Not as the paper"]] == [
        "better"
    ]
    assert len(list(as_terminal_table(results_table(results)))) >= 1 + 5 + 1


def test_rows_are_chosen_by_name_and_the_first_is_always_there(tmp_path: Path) -> None:
    assert list(run(TOY, tmp_path, num_seeds=1, only=["once"]).outcomes) == ["base", "once"]
    with pytest.raises(UsageError, match=r"^rows onze: reproduce toy has these: base, worse"):
        run(TOY, tmp_path, only=["onze"])


def test_rows_that_others_are_compared_with_are_computed_too(tmp_path: Path) -> None:
    rows = [replace(row, baselines=["like"] if row.name == "once" else None) for row in TOY.rows(TINY)]
    experiment = replace(TOY, rows=lambda scale: rows)
    assert list(run(experiment, tmp_path, num_seeds=1, only=["once"]).outcomes) == ["base", "like", "once"]


def test_a_row_that_is_compared_with_none_is_computed_alone(tmp_path: Path) -> None:
    rows = [replace(row, baselines=() if row.name == "once" else None) for row in TOY.rows(TINY)]
    results = run(replace(TOY, rows=lambda scale: rows), tmp_path, num_seeds=1, only=["once"])
    assert list(results.outcomes) == ["once"]
    assert judge(results) == []


def with_a_sum() -> Experiment:
    """The toy, and a row that is made of two others."""

    def add(work: Work) -> Mapping[str, Any]:
        results = [work.directory.parents[1] / name / work.directory.name for name in ("base", "worse")]
        if any("failed" in (parts := identity.read_json(result / "result.json")) for result in results):
            raise RowError(f"made of what {parts['failed']}")
        return {"bleu": sum(identity.read_json(result / "result.json")["bleu"] for result in results)}

    rows = [*TOY.rows(TINY), Row("sum", "a sum", add, made_of=["base", "worse"])]
    return replace(TOY, rows=lambda scale: rows)


def test_a_row_that_is_made_of_others_is_computed_anew_where_one_of_them_was(tmp_path: Path) -> None:
    experiment, part = with_a_sum(), tmp_path / "worse" / "seed-1" / "result.json"
    results = run(experiment, tmp_path, num_seeds=2, only=["sum"])
    assert list(results.outcomes) == ["base", "worse", "sum"]
    assert results.values("sum", "bleu") == [80.0, 83.0]
    for other, expected in (('{"bleu": 3.0}', [53.0, 83.0]), ('{"failed": "full"}', [83.0])):
        part.write_bytes(other.encode())
        results = run(experiment, tmp_path, num_seeds=2)
        assert results.values("sum", "bleu") == expected
    assert results.outcomes["sum"][1]["failed"] == "made of what full"
    part.unlink()
    results = run(experiment, tmp_path, num_seeds=2)
    assert results.values("sum", "bleu") == [80.0, 83.0]
    said: list[str] = []
    run(experiment, tmp_path, num_seeds=2, say=said.append)
    assert said == []


def test_files_that_no_row_has_written_are_left_alone_in_a_rows_folder(tmp_path: Path) -> None:
    folder = tmp_path / "sum" / "seed-1"
    folder.mkdir(parents=True)
    (folder / "precious").write_bytes(b"x")
    with pytest.raises(UsageError, match=f"^{folder}: holds files that no row has written"):
        run(with_a_sum(), tmp_path, num_seeds=1)
    assert (folder / "precious").read_bytes() == b"x"


def test_what_was_kept_of_other_parts_is_forgotten_also_where_it_was_not_finished(tmp_path: Path) -> None:
    folder, part = tmp_path / "kept" / "seed-1", tmp_path / "base" / "seed-1" / "result.json"

    def compute(work: Work) -> Mapping[str, Any]:
        kept = work.directory / "run" / "of_base"
        if not kept.exists():
            kept.parent.mkdir()
            kept.write_bytes(part.read_bytes())
            raise ValueError("interrupted")
        return identity.read_json(kept)

    rows = [*TOY.rows(TINY), Row("kept", "what is kept of base", compute, made_of=["base"])]
    experiment = replace(TOY, rows=lambda scale: rows)

    def computed() -> list[float]:
        return run(experiment, tmp_path, num_seeds=1, only=["kept"]).values("kept", "bleu")

    with pytest.raises(ValueError, match="interrupted"):
        computed()
    [first] = computed()
    part.write_bytes(json.dumps({"bleu": first + 1}).encode())
    with pytest.raises(ValueError, match="interrupted"):
        computed()
    assert {path.name for path in folder.iterdir()} == {"lock", "run", "made_of.json"}
    assert computed() == [first + 1]


def test_a_row_is_left_until_those_that_it_is_made_of_are_there(tmp_path: Path) -> None:
    said: list[str] = []
    with RunDirectory(tmp_path / "worse" / "seed-1").locked():
        results = run(with_a_sum(), tmp_path, num_seeds=1, only=["sum"], say=said.append)
    assert list(results.outcomes) == ["base"]
    assert said[-1] == "row 3 of 3: sum, seed 1: not computed, as worse is not yet; repeat the command then"
    assert run(with_a_sum(), tmp_path, num_seeds=1).values("sum", "bleu") == [80.0]


def test_an_experiment_has_its_own_number_of_seeds_and_says_where_more_are_of_no_use(tmp_path: Path) -> None:
    once, said = replace(TOY, num_seeds=1), list[str]()
    assert sorted(run(once, tmp_path / "once").outcomes["base"]) == [1]
    assert sorted(run(once, tmp_path / "twice", num_seeds=2, say=said.append).outcomes["base"]) == [1, 2]
    assert not [line for line in said if "seeds" in line]
    untold = replace(TOY, rows=lambda scale: [replace(row, every_seed=False) for row in TOY.rows(scale)])
    for num_seeds, notices in ((2, 1), (1, 0), (None, 0)):
        said.clear()
        run(untold, tmp_path / f"untold-{num_seeds}", num_seeds=num_seeds, say=said.append)
        notice = f"NOTICE: {num_seeds} seeds are asked for, but each of these rows is computed once"
        assert said.count(notice) == notices


def test_a_report_of_chosen_rows_keeps_the_rows_that_are_there(tmp_path: Path) -> None:
    everything = run(TOY, tmp_path, num_seeds=1)
    some = run(TOY, tmp_path, num_seeds=1, only=["worse"])
    assert some.outcomes == everything.outcomes
    assert table_cells(results_table(some)) == table_cells(results_table(everything))


def failing(*names: str, error: Exception) -> Experiment:
    """The toy, with rows that end in an error."""

    def fail(work: Work) -> Mapping[str, Any]:
        raise error

    rows = [replace(row, compute=fail) if row.name in names else row for row in TOY.rows(TINY)]
    return replace(TOY, rows=lambda scale: rows)


@pytest.mark.parametrize("names", [["worse"], ["base"]])
@pytest.mark.parametrize("error", [DivergedError("update 7: not finite"), MemoryError()])
def test_a_row_that_fails_is_recorded_and_the_others_are_computed(
    names: list[str], error: Exception, tmp_path: Path
) -> None:
    results = run(failing(*names, error=error), tmp_path, num_seeds=2)
    assert results.values("better", "bleu") == [80.0, 81.0]
    folders = [tmp_path / name / f"seed-{seed}" for name in names for seed in (1, 2)]
    assert list(results.failures()) == folders
    assert sum(line[1].endswith("(failed)") for line in table_cells(results_table(results))) == len(names)
    reason = str(error) or "there is not enough memory"
    assert (
        f"{reason}; to continue it, delete {folders[0] / 'result.json'}"
        in results_table(results).conclusions["Failed"][0]
    )
    write_report(results)
    for folder in folders:
        shutil.rmtree(folder)
    assert not run(TOY, tmp_path, num_seeds=2).failures()


@pytest.mark.parametrize(
    "error",
    [
        DiskError("full"),
        ModelError("data: no such directory"),
        UsageError("x"),
        ValueError("a fault of ours"),
    ],
)
def test_what_is_no_fault_of_the_row_ends_the_experiment(error: Exception, tmp_path: Path) -> None:
    with pytest.raises(type(error)):
        run(failing("worse", error=error), tmp_path)
    assert not (tmp_path / "worse" / "seed-1" / "result.json").exists()


def test_processes_that_are_started_alike_share_the_rows(tmp_path: Path) -> None:
    said: list[str] = []
    with RunDirectory(tmp_path / "worse" / "seed-1").locked():
        results = run(TOY, tmp_path, num_seeds=2, say=said.append)
    assert "row 2 of 9: worse, seed 1: left to another process, which is computing it" in said
    assert results.values("worse", "bleu") == [31.0]
    assert not results.failures()
    assert run(TOY, tmp_path, num_seeds=2).values("worse", "bleu") == [30.0, 31.0]


def test_a_row_whose_training_is_held_is_passed_over(tmp_path: Path) -> None:
    results = run(failing("worse", error=LockedError("in use")), tmp_path, num_seeds=1)
    assert results.values("better", "bleu") == [80.0]
    assert not (tmp_path / "worse" / "seed-1" / "result.json").exists()


def test_data_that_cannot_be_read_leaves_the_folder_free(toy_data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(ModelError, match="no such directory"):
        run(TABLE3, out, inputs=Inputs(tmp_path / "dta"))
    assert not out.exists()


def test_data_is_known_by_its_contents(toy_data: Path, tmp_path: Path, monkeypatch: Any) -> None:
    experiment, out = replace(TOY, require=lambda data: None), tmp_path / "out"
    run(experiment, out, num_seeds=1, inputs=Inputs(toy_data))
    moved = tmp_path / "moved"
    shutil.copytree(toy_data, moved)
    run(experiment, out, num_seeds=1, inputs=Inputs(moved))
    shutil.rmtree(moved)
    files = CorpusFiles(toy_data / "text" / "valid.source", toy_data / "text" / "valid.target")
    prepare(moved, files, config=DataConfig(vocab_size=270))
    with pytest.raises(UsageError, match="began with other data; name another folder"):
        run(experiment, out, num_seeds=1, inputs=Inputs(moved))


@pytest.mark.parametrize("name", TRANSLATING)
def test_data_that_does_not_suit_is_refused_before_anything_is_computed(
    name: str, toy_data: Path, tmp_path: Path
) -> None:
    files = CorpusFiles(toy_data / "text" / "train.source", toy_data / "text" / "train.target")
    prepare(tmp_path / "data", files, config=DataConfig(vocab_size=290))
    with pytest.raises(UsageError, match="has no validation text to score on"):
        run(EXPERIMENTS[name], tmp_path / "out", inputs=Inputs(tmp_path / "data"))
    assert not (tmp_path / "out").exists()


def test_text_without_long_sentences_is_refused_by_what_translates_them(
    toy_data: Path, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match="training pairs have 21 to 30 tokens, 10 are needed"):
        run(EXPERIMENTS["extrapolation"], tmp_path / "out", inputs=Inputs(toy_data))
    assert not (tmp_path / "out").exists()


def test_results_of_another_scale_are_not_mixed_in(tmp_path: Path) -> None:
    run(TOY, tmp_path, num_seeds=1)
    with pytest.raises(UsageError, match="began with scale tiny, now small; name another folder"):
        list(reproduction.reproduce(TOY, tmp_path, SCALES["small"], CPU))
    longer = replace(TINY, training={**TINY.training, "num_steps": 9_000})
    with pytest.raises(UsageError, match="began with other settings of the scale tiny; name another"):
        list(reproduction.reproduce(TOY, tmp_path, longer, CPU))


def test_rows_without_training_want_no_data_and_stand_alone(tmp_path: Path, toy_data: Path) -> None:
    for name, row in (("scaling", "random_unscaled_64"), ("extrapolation", "linear")):
        results = run(EXPERIMENTS[name], tmp_path / name, only=[row])
        assert list(results.outcomes) == [row]
        write_report(results)
    [variance] = run(EXPERIMENTS["scaling"], tmp_path / "scaling", only=["random_unscaled_64"]).values(
        "random_unscaled_64", "variance"
    )
    assert variance == pytest.approx(64, rel=0.05)
    assert "Why dot products are divided" in (tmp_path / "scaling" / "results.html").read_text()
    # Data may be given to the same folder later.
    identity.require_same(tmp_path / "scaling", {"experiment": "scaling", "data": {"train": "x"}})


def test_what_is_damaged_or_no_seed_is_told_or_passed_over(tmp_path: Path) -> None:
    run(TOY, tmp_path, num_seeds=1)
    shutil.copytree(tmp_path / "once" / "seed-1", tmp_path / "once" / "seed-1.bak")
    assert list(run(TOY, tmp_path, num_seeds=1).outcomes["once"]) == [1]
    damaged = tmp_path / "once" / "seed-1" / "result.json"
    damaged.write_bytes(b'{"bleu": ')
    with pytest.raises(DataError, match=re.escape(f"{damaged}: is damaged; delete it")):
        run(TOY, tmp_path, num_seeds=1)


def test_the_time_that_is_left_follows_from_the_rows_that_have_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([0.0, 60.0, 120.0, 180.0, 240.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    said: list[str] = []
    run(TOY, tmp_path, num_seeds=1, say=said.append)
    assert said[:3] == [
        "row 1 of 5: base, seed 1",
        "row 2 of 5: worse, seed 1, 0:04:00 left in all",
        "row 3 of 5: better, seed 1, 0:03:00 left in all",
    ]


@pytest.mark.parametrize("name", TRANSLATING)
def test_a_treebank_is_refused_by_what_translates(name: str, tmp_path: Path) -> None:
    (tmp_path / "trees.mrg").write_bytes(b"(S (NP (D the) (N dog)) (VP (V runs)))\n" * 9)
    trees = TreeFiles(tmp_path / "trees.mrg")
    config = DataConfig(task="parsing", vocab_size=270, joint_vocabulary=False)
    prepare(tmp_path / "data", trees, trees, config)
    with pytest.raises(UsageError, match="is for parsing; prepare data for translation, with source"):
        run(EXPERIMENTS[name], tmp_path / "out", inputs=Inputs(tmp_path / "data"))


def test_training_wants_data(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="with data"):
        run(TABLE3, tmp_path)


# --- the experiments


def test_the_rows_of_table_3_have_the_papers_parameters_where_it_prints_them() -> None:
    rows = {row.name: row for row in TABLE3.rows(PAPER)}
    assert len(rows) == 20
    for name, published in PUBLISHED.items():
        if not name.startswith("aop"):
            row = rows[name.removeprefix("table3_")]
            assert row.paper["parameters_millions"] == published.parameters_millions
    assert {f"table3_{name}" for name in rows} - {"table3_base", "table3_big"} <= set(PRESETS)
    assert (rows["heads_1"].paper["perplexity"], rows["heads_1"].paper["bleu"]) == (5.29, 24.9)
    assert [name for name, row in rows.items() if not row.every_seed] == ["big"]


@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES)
def test_additive_attention_fits_into_a_gpu(scale: Scale) -> None:
    widest = base().replace(model={"attention": "additive", "d_k": 256})
    config = scale(widest).replace(training={"micro_batch_tokens": additive_micro_batch_tokens(scale)})
    assert cost(config, length=config.data.max_tokens).memory.activations_estimate < 60e9


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["aop", "extrapolation", "scaling", pytest.param("variants", marks=pytest.mark.release)]
)
def test_an_experiment_trains_its_rows(name: str, toy_data: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("allyouneed.lab.paper.extrapolation.LONGEST_TRAINED", 6)
    monkeypatch.setattr("allyouneed.lab.paper.extrapolation._BUCKETS", ((7, 60),))
    only = {"scaling": ["additive_16", "random_unscaled_64"]}.get(name, [])
    *_, results = reproduction.reproduce(
        EXPERIMENTS[name], tmp_path, MINUTE, CPU, inputs=Inputs(toy_data), num_seeds=1, only=only
    )
    rows = [
        row
        for row in results.rows
        if row.name in results.outcomes and row.name != "linear" and "random" not in row.name
    ]
    assert len(rows) >= 2
    for row in rows:
        figures = results.outcomes[row.name][1]
        assert figures["perplexity"] > 1
        assert figures["matmul_flops"] > 0
        assert json.loads((tmp_path / row.name / "seed-1" / "run" / "exit.json").read_bytes())["step"] == 4
    if name == "aop":
        assert results.values("base", "step_time_ratio") == [1.0]
        assert results.values("aop1", "step_time_ratio")[0] > 0
    if name == "extrapolation":
        assert results.outcomes["learned"][1]["perplexity_7_60"] > 1
        assert results.values("linear", "error_of_shift")[0] < 1e-4
    write_report(results)


@pytest.mark.slow
def test_blocks_are_trained_on_top_of_other_rows_and_give_what_greedy_search_does(
    toy_data: Path, tmp_path: Path
) -> None:
    experiment = EXPERIMENTS["blockwise"]
    *_, results = reproduction.reproduce(
        experiment, tmp_path, MINUTE, CPU, inputs=Inputs(toy_data), only=["regular_2", "both_4"]
    )
    rows = {row.name: row for row in results.rows}
    assert rows["both_6"].paper == {
        **{"bleu": 26.18, "mean_block": 4.18, "bleu_top_2": 25.90, "mean_block_top_2": 4.59}
    }
    assert results.outcomes.keys() == {"regular_1", "regular_2", "distilled_1", "both_4"}
    for name in ("regular_2", "both_4"):
        figures = results.outcomes[name][1]
        assert figures["same"] == 1.0
        assert 1.0 <= figures["mean_block"] <= int(name[-1])
    assert results.outcomes["regular_2"][1]["bleu"] == results.outcomes["regular_1"][1]["bleu"]
    write_report(results)


BETWEEN_CHECKPOINTS = """
import os, signal, sys
from contextlib import nullcontext
from pathlib import Path
import torch
from allyouneed.lab.paper import reproduction
from allyouneed.lab.paper.reproduction import EXPERIMENTS
from allyouneed.lab.paper.experiment import Inputs
from allyouneed.lab.paper.scales import Scale

training = {"batch_tokens": 400, "num_steps": 6, "warmup_steps": 4, "checkpoint_every_steps": 2}
training |= {"keep_checkpoints": 1, "average_last": 1, "validate_every_steps": 6, "precision": "float32"}

def end(event):
    if event["event"] == "train" and f"{event['step']}" == sys.argv[3]:
        os.kill(os.getpid(), int(sys.argv[4]))
    if event["event"] == "start":
        print(event["step"])

from allyouneed.training import trainer
trainer._LOG_EVERY_STEPS = 1
data, out = map(Path, sys.argv[1:3])
scale, cpu = Scale("minute", 16, 2, training), torch.device("cpu")
list(reproduction.reproduce(
    EXPERIMENTS["aop"], out, scale, cpu, Inputs(data),
    num_seeds=1, only=["base"], reporter=lambda run: nullcontext(end),
))
"""


@pytest.mark.release
def test_what_signals_end_between_checkpoints_goes_on_with_the_same_command(
    toy_data: Path, tmp_path: Path
) -> None:
    result, begun_at = tmp_path / "out" / "base" / "seed-1" / "result.json", []
    for step, number, code in (
        (3, signal.SIGTERM, -signal.SIGTERM),  # which is saved
        (5, signal.SIGKILL, -signal.SIGKILL),  # after the checkpoint of step 4
        (0, 0, 0),
    ):
        assert not result.exists()
        given = (str(toy_data), str(tmp_path / "out"), str(step), str(int(number)))
        command = [sys.executable, "-uc", BETWEEN_CHECKPOINTS, *given]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
        assert ended.returncode == code, ended.stderr
        begun_at.append(int(ended.stdout))
    assert begun_at == [0, 3, 4]
    figures = json.loads(result.read_bytes())
    whole = reproduction.reproduce(
        EXPERIMENTS["aop"],
        tmp_path / "whole",
        replace(MINUTE, training={**MINUTE.training, "num_steps": 6, "validate_every_steps": 6}),
        CPU,
        inputs=Inputs(toy_data),
        num_seeds=1,
        only=["base"],
    )
    *_, expected = whole
    for figure in ("perplexity", "bleu", "matmul_flops"):
        assert figures[figure] == expected.outcomes["base"][1][figure]


def test_figures_of_speed_are_compared_between_rows_of_one_kind_of_machine(tmp_path: Path) -> None:
    timed = replace(
        TOY,
        timed=["tokens_per_second"],
        figures={**TOY.figures, "tokens_per_second": Figure("tokens per second", judged=True)},
    )
    results = run(timed, tmp_path, num_seeds=2)
    for name, machine in (("base", "one"), ("worse", "one"), ("like", "another")):
        for seed in (1, 2):
            result = tmp_path / name / f"seed-{seed}" / "result.json"
            figures = {**json.loads(result.read_bytes()), "processor": machine, "tokens_per_second": 9.0}
            result.write_bytes(json.dumps(figures).encode())
    (tmp_path / "base" / "seed-1" / "result.json").write_bytes(b'{"failed": "it diverged"}')
    results = reproduction.read_results(timed, tmp_path, TINY)
    speeds = {row: results.values(row, "tokens_per_second") for row in ("base", "worse", "like")}
    assert speeds == {"base": [9.0], "worse": [9.0, 9.0], "like": []}
    table = results_table(results)
    assert {line.name: line.processor for line in table.lines}["like"] == "another"


def test_every_row_tells_where_and_when_it_was_computed(tmp_path: Path) -> None:
    results = run(TOY, tmp_path, num_seeds=1)
    for of_row in results.outcomes.values():
        assert of_row[1]["processor"] == machine_kind(CPU)
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", of_row[1]["date"])
    line = results_table(results).lines[0]
    assert (line.processor, line.dates) == (machine_kind(CPU), results.outcomes["base"][1]["date"])
    page = next(path for path in write_report(results) if path.suffix == ".html").read_bytes().decode()
    assert page.partition("<script")[0].count(machine_kind(CPU)) == 1


def test_processors_are_named_once_each_with_its_rows(tmp_path: Path) -> None:
    results = run(TOY, tmp_path, num_seeds=1)
    outcomes = {
        row: {1: {**of[1], "processor": "A" if row == "base" else "B"}}
        for row, of in results.outcomes.items()
    }
    facts = results_table(replace(results, outcomes=outcomes)).facts
    assert "A (base); B (worse, better, like, once)" in facts


def test_data_that_no_row_uses_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="reproduce toy: needs no data; leave it out"):
        run(TOY, tmp_path / "out", inputs=Inputs(data=tmp_path))
    assert not (tmp_path / "out").exists()


def test_a_learning_curve_forgets_pauses_that_a_resumed_run_has_not_counted(tmp_path: Path) -> None:
    def validated(step: int, seconds: float) -> dict[str, Any]:
        known = {"event": "validate", "step": step, "seconds": seconds, "validation_seconds": 3.0}
        return known | {"perplexity": 5.0, "matmul_flops": 1e9}

    events = [
        {"event": "start", "step": 0},
        *(validated(2, 20.0), {"event": "checkpoint", "step": 2, "seconds": 1.0}),
        {"event": "checkpoint", "step": 3, "seconds": 50.0},
        validated(4, 90.0),
        # Step 2 was saved with the seconds until then, 23; that second, and all later ones, are forgotten.
        {"event": "start", "step": 2},
        *(validated(4, 43.0), {"event": "checkpoint", "step": 4, "seconds": 1.0}),
        validated(6, 67.0),
    ]
    (tmp_path / "log.jsonl").write_bytes("".join(json.dumps(event) + "\n" for event in events).encode())
    assert curve_of(tmp_path)["seconds"] == [20.0, 40.0, 60.0]


def test_energy_of_some_seeds_alone_is_not_given_as_that_of_a_row(tmp_path: Path) -> None:
    rows = [
        Row(
            "base",
            "-",
            lambda work: {"seconds": 36.0, "energy_joules": 3.6e6} if work.seed < 3 else {"seconds": 36.0},
        )
    ]
    for num_seeds, energy in ((2, "2.000"), (3, "")):
        results = run(replace(TOY, rows=lambda scale: rows), tmp_path, num_seeds=num_seeds)
        assert results_table(results).lines[0].costs[3] == energy


def test_a_learning_curve_leaves_pauses_out_and_events_of_earlier_versions(tmp_path: Path) -> None:
    old = {"event": "validate", "step": 1, "loss": 2.0, "perplexity": 7.4}
    new = [
        {**old, "step": n, "perplexity": 9.0 - n, "seconds": 10.0 * n, "matmul_flops": 1e9 * n, "bleu": n}
        for n in (2, 4, 4, 6)
    ]
    events = [old, *({**event, "validation_seconds": 3.0} for event in new)]
    events.insert(4, {"event": "checkpoint", "step": 4, "seconds": 1.0})
    (tmp_path / "log.jsonl").write_bytes("".join(json.dumps(event) + "\n" for event in events).encode())
    assert curve_of(tmp_path) == {
        "step": [2, 4, 6],
        "seconds": [20.0, 37.0, 53.0],
        "matmul_flops": [2e9, 4e9, 6e9],
        "perplexity": [7.0, 5.0, 3.0],
        "bleu": [2, 4, 6],
    }
