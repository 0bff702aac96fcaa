"""Finished rows are kept as small files, and a table is written from them without its data or training."""

import io
import json
import math
import re
import shutil
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from allyouneed.errors import DataError, UsageError
from allyouneed.evaluation.bleu import bleu_13a
from allyouneed.evaluation.significance import bleu_counts, bleu_of_counts
from allyouneed.lab.paper.experiment import (
    HYPOTHESES,
    REFERENCES,
    RESULT,
    Experiment,
    Figure,
    Inputs,
    Row,
    RowError,
    Work,
)
from allyouneed.lab.paper.kept_rows import keep_rows
from allyouneed.lab.paper.pages.results_page import write_report
from allyouneed.lab.paper.reproduction import reproduce
from allyouneed.lab.paper.scales import SCALES
from allyouneed.lab.paper.training_rows import SCORES
from allyouneed.lab.statistics.figure_tests import COUNTS, keep_counts, read_counts
from allyouneed.lab.statistics.verdicts import judge
from allyouneed.storage.run_directory import RunDirectory

TINY = SCALES["tiny"]
NUM_SENTENCES = 150
CURVE = {"step": [1, 2], "seconds": [1.0, 2.0], "matmul_flops": [1e9, 2e9], "perplexity": [9.0, 8.0]}


def experiment_of(rows: Mapping[str, tuple[float, ...]]) -> Experiment:
    """Rows that get a share of the sentences right, one share per seed, and lose more on the others."""

    def row(name: str) -> Row:
        def compute(work: Work) -> Mapping[str, Any]:
            share, folder = rows[name][work.seed - 1], work.directory
            references = [
                f"a sentence {n} of words {n * 7} and others {n * 13}" for n in range(NUM_SENTENCES)
            ]
            right = [n < share * NUM_SENTENCES for n in range(NUM_SENTENCES)]
            found = [text if good else "nothing of it" for text, good in zip(references, right, strict=True)]
            losses = np.array([[8.0 if good else 20.0 + n % 7, 8] for n, good in enumerate(right)])
            for file, lines in ((HYPOTHESES, found), (REFERENCES, references)):
                (folder / file).write_bytes("".join(f"{line}\n" for line in lines).encode())
            keep_counts(folder, {"perplexity": losses, "bleu": bleu_counts(found, references)})
            nats = losses[:, 0].sum() / (8 * NUM_SENTENCES)
            return {
                "perplexity": math.exp(nats),
                "bleu": bleu_13a(found, references).value,
                "curve": CURVE,
            }

        return Row(name, "what it is", compute, {"perplexity": 5.0, "bleu": 25.0})

    return Experiment("toy", "A toy", lambda scale: [row(name) for name in rows], SCORES)


TOY = experiment_of({"base": (0.5, 0.52, 0.51), "worse": (0.3, 0.31, 0.29), "like": (0.5, 0.53, 0.5)})


def run(out: Path, experiment: Experiment = TOY, **options: Any) -> Any:
    *_, results = reproduce(experiment, out, TINY, torch.device("cpu"), **options)
    return results


def test_a_table_made_of_kept_rows_says_the_same_without_references(tmp_path: Path) -> None:
    computed = run(tmp_path / "toy")
    before = judge(computed)
    run(tmp_path / "toy", keep=tmp_path / "rows")
    said: list[str] = []
    taken = run(tmp_path / "elsewhere" / "toy", taken_from=tmp_path / "rows", say=said.append)
    assert said == []
    assert not list((tmp_path / "elsewhere").rglob(REFERENCES))
    assert judge(taken) == before
    assert taken.outcomes == computed.outcomes
    pages = [[file.read_bytes() for file in write_report(results)] for results in (computed, taken)]
    assert pages[0] == pages[1]


def test_only_what_is_new_is_written(tmp_path: Path) -> None:
    run(tmp_path / "toy", num_seeds=1, keep=tmp_path / "rows")
    assert len(list((tmp_path / "rows").rglob(RESULT))) == 3
    run(tmp_path / "toy", num_seeds=2)
    written = keep_rows(TOY, TINY, tmp_path / "toy", tmp_path / "rows")
    assert sorted(str(file.relative_to(tmp_path)) for file in written) == [
        f"rows/toy/{row}/seed-2" for row in ("base", "like", "worse")
    ]
    (tmp_path / "toy" / "like" / "seed-1" / RESULT).write_bytes(b'{"bleu": 3.0}')
    assert keep_rows(TOY, TINY, tmp_path / "toy", tmp_path / "rows") == [], (
        "what another machine has kept stays"
    )


def test_two_machines_finish_a_table_together_with_the_same_bytes(tmp_path: Path) -> None:
    for machine, rows in (("first", ["worse"]), ("second", ["like"])):
        out = tmp_path / machine / "toy"
        taken_from = tmp_path / "rows" if machine == "second" else None
        run(out, only=rows, taken_from=taken_from, keep=tmp_path / "rows")
    together = {file.name: file.read_bytes() for file in (tmp_path / "rows" / "toy" / "base").glob("*/*")}
    shutil.rmtree(tmp_path / "rows")
    run(tmp_path / "third" / "toy", keep=tmp_path / "rows")
    assert together == {
        file.name: file.read_bytes() for file in (tmp_path / "rows" / "toy" / "base").glob("*/*")
    }


def test_a_row_that_another_process_computes_is_left_to_it(tmp_path: Path) -> None:
    run(tmp_path / "toy", keep=tmp_path / "rows")
    out = tmp_path / "elsewhere" / "toy"
    with RunDirectory(out / "like" / "seed-2").locked():
        (out / "like" / "seed-2" / "begun").touch()
        results = run(out, taken_from=tmp_path / "rows")
    assert sorted(results.outcomes["like"]) == [1, 3]


def test_rows_of_other_settings_and_folders_without_rows_are_refused(tmp_path: Path) -> None:
    run(tmp_path / "toy", num_seeds=1, keep=tmp_path / "rows")
    with pytest.raises(
        UsageError, match="nowhere: has no kept rows of toy tiny; name another folder with from"
    ):
        run(tmp_path / "other", taken_from=tmp_path / "nowhere")
    record = tmp_path / "rows" / "toy" / "experiment.json"
    facts = json.loads(record.read_bytes())
    record.write_bytes(json.dumps({**facts, "settings": {**facts["settings"], "narrower": 3}}).encode())
    with pytest.raises(UsageError, match="has rows of other settings; name another folder with from"):
        run(tmp_path / "elsewhere" / "toy", taken_from=tmp_path / "rows")
    with pytest.raises(UsageError, match=r"began with other settings of the scale tiny; .* with keep"):
        run(tmp_path / "new" / "toy", keep=tmp_path / "rows")
    assert not (tmp_path / "new" / "toy" / "base").exists(), "refused before any row"
    record.write_bytes(json.dumps({**facts, "scale": "small"}).encode())
    with pytest.raises(
        UsageError, match="rows: has no kept rows of toy tiny, only of toy small; name another"
    ):
        run(tmp_path / "elsewhere" / "toy", taken_from=tmp_path / "rows")
    record.write_bytes(json.dumps(facts).encode())
    revised = replace(TOY, revision=2)
    with pytest.raises(
        UsageError, match="has rows of another revision of the experiment, by another version"
    ):
        run(tmp_path / "elsewhere" / "toy", revised, taken_from=tmp_path / "rows")
    with pytest.raises(UsageError, match="toy: began with another revision of the experiment, by another"):
        run(tmp_path / "toy", revised)


def test_rows_are_found_by_experiment_and_scale_whatever_their_folders_are_called(tmp_path: Path) -> None:
    computed = run(tmp_path / "first", num_seeds=1, keep=tmp_path / "rows")
    run(tmp_path / "toy", replace(TOY, name="other"), num_seeds=1, keep=tmp_path / "rows")
    (tmp_path / "rows" / "unrelated").mkdir()
    (tmp_path / "rows" / "unrelated" / "experiment.json").write_bytes(b'{"title": "of another program"}')
    for number, folder in enumerate((tmp_path / "rows", tmp_path / "rows" / "first")):
        taken = run(tmp_path / f"elsewhere-{number}" / "toy", num_seeds=1, taken_from=folder)
        assert taken.outcomes == computed.outcomes


def test_of_two_kept_tables_that_fit_both_are_named_unless_one_has_the_name_of_out(tmp_path: Path) -> None:
    for name in ("one", "two"):
        run(tmp_path / name, num_seeds=1, only=["base"], keep=tmp_path / "rows")
    both = re.escape(f"{tmp_path}/rows/one and {tmp_path}/rows/two: have rows of toy tiny; name one of them")
    with pytest.raises(UsageError, match=both):
        run(tmp_path / "three", taken_from=tmp_path / "rows")
    assert not (tmp_path / "three").exists()
    run(tmp_path / "elsewhere" / "two", num_seeds=1, only=["base"], taken_from=tmp_path / "rows")
    run(tmp_path / "three", num_seeds=1, only=["base"], taken_from=tmp_path / "rows" / "one")


@pytest.mark.parametrize(("fact", "value"), [("revision", 2), ("settings", {}), ("text", ["0"])])
def test_of_two_kept_tables_the_one_is_taken_whose_record_fits(fact: str, value: Any, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_bytes(b"A text.")
    rows = [replace(row, needs_text=row.name == "like") for row in TOY.rows(TINY)]
    reads, inputs = replace(TOY, rows=lambda scale: rows), Inputs(text=[text])
    computed = run(tmp_path / "toy", reads, num_seeds=1, inputs=inputs, keep=tmp_path / "rows")
    for name in ("a variant", "variant"):
        record = shutil.copytree(tmp_path / "rows" / "toy", tmp_path / "rows" / name) / "experiment.json"
        record.write_bytes(json.dumps({**json.loads(record.read_bytes()), fact: value}).encode())
    said: list[str] = []
    options = {"num_seeds": 1, "inputs": inputs, "taken_from": tmp_path / "rows", "say": said.append}
    assert run(tmp_path / "elsewhere" / "variant", reads, **options).outcomes == computed.outcomes
    assert said == []
    shutil.rmtree(tmp_path / "rows" / "toy")
    with pytest.raises(UsageError) as refused:
        run(tmp_path / "elsewhere" / "new", reads, **options)
    assert [message.partition(": has rows of ")[0] for message in refused.value.messages] == [
        str(tmp_path / "rows" / name) for name in ("a variant", "variant")
    ]


def test_a_record_without_rows_makes_no_table(tmp_path: Path) -> None:
    needs_data = replace(TOY, require=lambda data: None)
    run(tmp_path / "toy", num_seeds=1, only=["base"])
    shutil.rmtree(tmp_path / "toy" / "base")
    with pytest.raises(UsageError, match="toy: has no finished rows; name another folder with from"):
        run(tmp_path / "elsewhere", needs_data, taken_from=tmp_path / "toy")


@pytest.mark.parametrize("content", ["{", '{"settings": 3}', '{"settings": {}}'])
def test_a_damaged_record_is_named(content: str, tmp_path: Path) -> None:
    run(tmp_path / "toy", num_seeds=1, keep=tmp_path / "rows")
    for record in (tmp_path / "rows" / "toy" / "experiment.json", tmp_path / "toy" / "experiment.json"):
        record.write_text(content)
    with pytest.raises(DataError, match=r"rows/toy/experiment\.json: is damaged; delete it"):
        run(tmp_path / "elsewhere" / "toy", taken_from=tmp_path / "rows")
    with pytest.raises(DataError, match=r"toy/experiment\.json: is damaged; delete it"):
        run(tmp_path / "toy")


@pytest.mark.parametrize("content", ["{", '{"experiment": "other", "settings": {}}'])
def test_a_damaged_record_beside_rows_that_fit_does_not_matter(content: str, tmp_path: Path) -> None:
    computed = run(tmp_path / "toy", num_seeds=1, keep=tmp_path / "rows")
    (tmp_path / "rows" / "another").mkdir()
    (tmp_path / "rows" / "another" / "experiment.json").write_text(content)
    taken = run(tmp_path / "elsewhere" / "toy", num_seeds=1, taken_from=tmp_path / "rows")
    assert taken.outcomes == computed.outcomes


def test_a_figure_may_be_infinite_as_paths_in_table_1_are(tmp_path: Path) -> None:
    rows = [
        Row("base", "short", lambda work: {"path": 1.0}),
        Row("one", "none", lambda work: {"path": "inf"}),
    ]
    paths = Experiment("toy", "A toy", lambda scale: rows, {"path": Figure("path")})
    computed = run(tmp_path / "toy", paths, keep=tmp_path / "rows")
    taken = run(tmp_path / "elsewhere" / "toy", paths, taken_from=tmp_path / "rows")
    assert taken.outcomes == computed.outcomes


def test_outputs_of_an_interrupted_computation_do_not_count_as_those_of_a_kept_row(tmp_path: Path) -> None:
    before = run(tmp_path / "toy", keep=tmp_path / "rows")
    folder = tmp_path / "elsewhere" / "toy" / "worse" / "seed-1"
    folder.mkdir(parents=True)
    keep_counts(folder, {"bleu": np.ones((NUM_SENTENCES, 10), np.int64)})
    taken = run(tmp_path / "elsewhere" / "toy", taken_from=tmp_path / "rows")
    assert judge(taken) == judge(before)


def packed(**arrays: Any) -> bytes:
    file = io.BytesIO()
    content: Any = {name: np.array(array) for name, array in arrays.items()}
    np.savez_compressed(file, **content)
    return file.getvalue()


def bomb() -> bytes:
    """A small file of 64 MiB when it is unpacked."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bleu.npy", bytes(2**26))
    return file.getvalue()


SCORED = b'{"bleu": 3.0}'
HOSTILE: dict[str, Mapping[str, bytes]] = {
    "deep": {RESULT: b"[" * 100_000},
    "half": {RESULT: b"{"},
    "number": {RESULT: b"3"},
    "no text": {RESULT: b"\xff"},
    "figure": {RESULT: b'{"bleu": "x"}'},
    "huge": {RESULT: b'{"bleu": 1' + b"0" * 400 + b"}"},
    "processor": {RESULT: b'{"processor": 3}'},
    "no figure": {RESULT: b"{}"},
    "cost": {RESULT: b'{"bleu": 3.0, "matmul_flops": "x"}'},
    "curve": {RESULT: b'{"bleu": 3.0, "curve": 3}'},
    "score": {RESULT: json.dumps({"bleu": 3.0, "curve": {**CURVE, "f1": 3}}).encode()},
    "pictures": {RESULT: b'{"pictures": {"a": {}}}'},
    "failed": {RESULT: b'{"failed": "there is not enough memory"}'},
    "counts": {RESULT: SCORED, COUNTS: packed(bleu=[["a", "b"]])},
    "no zip": {RESULT: SCORED, COUNTS: b"1\t2\n"},
    "half a zip": {RESULT: SCORED, COUNTS: packed(bleu=[[1] * 10])[:-30]},
    "an array": {RESULT: SCORED, COUNTS: b"\x93NUMPY\x01\x00v\x00{'descr': '<f8'"},
    "objects": {RESULT: SCORED, COUNTS: packed(bleu=[[None] * 10])},
    "few counts": {RESULT: SCORED, COUNTS: packed(bleu=[[1, 2]])},
    "no counts": {RESULT: SCORED, COUNTS: b""},
    "no sentences": {RESULT: SCORED, COUNTS: packed(bleu=np.zeros((0, 10)))},
    "too many": {RESULT: SCORED, COUNTS: bomb()},
    "one count": {RESULT: b'{"perplexity": 3.0}', COUNTS: packed(perplexity=[[9.0]])},
    "infinite": {RESULT: b'{"bleu": Infinity}', COUNTS: packed(bleu=[[1] * 10])},
    "infinite counts": {RESULT: b'{"perplexity": 3.0}', COUNTS: packed(perplexity=[[math.inf, 9.0]])},
    "other counts": {RESULT: b'{"perplexity": 3.0}', COUNTS: packed(perplexity=[[9.0, 9]])},
    "another figure": {RESULT: SCORED, COUNTS: packed(speed=[[1] * 10])},
}
"""What is wrong with a kept row -> the files that make it so."""


@pytest.mark.parametrize("what", HOSTILE)
def test_damaged_and_hostile_files_are_refused_in_one_line(what: str, tmp_path: Path) -> None:
    run(tmp_path / "toy", num_seeds=1)
    kept = keep_rows_anew(tmp_path)[0]
    for name, content in HOSTILE[what].items():
        (kept / name).write_bytes(content)
    with pytest.raises(DataError, match=r"base/seed-1: is damaged; restore it, or remove it"):
        run(tmp_path / "elsewhere" / "toy", taken_from=tmp_path / "rows")
    assert not list((tmp_path / "elsewhere").rglob(RESULT))


def test_what_a_row_has_computed_itself_comes_before_counts_that_were_taken_up(tmp_path: Path) -> None:
    run(tmp_path / "toy", keep=tmp_path / "rows")
    out = tmp_path / "elsewhere" / "toy"
    run(out, taken_from=tmp_path / "rows")
    (out / "worse" / "seed-1" / RESULT).unlink()
    better = experiment_of({"base": (0.5, 0.52, 0.51), "worse": (0.9, 0.31, 0.29), "like": (0.5, 0.53, 0.5)})
    computed = run(out, better)
    assert computed.values("worse", "bleu")[0] > 90.0
    kept = read_counts((out / "worse" / "seed-1" / COUNTS).read_bytes())["bleu"]
    assert bleu_of_counts(kept.sum(axis=0)) > 80


def with_a_sum() -> Experiment:
    """The toy with a row that is made of two others."""
    rows = TOY.rows(TINY)

    def add(work: Work) -> Mapping[str, Any]:
        parts = [json.loads((work.beside(name) / RESULT).read_bytes()) for name in ("base", "worse")]
        return {"bleu": sum(part["bleu"] for part in parts)}

    return replace(TOY, rows=lambda scale: [*rows, Row("sum", "a sum", add, made_of=["base", "worse"])])


def test_a_row_made_of_others_is_taken_up_with_the_parts_that_it_was_made_of(tmp_path: Path) -> None:
    run(tmp_path / "toy", with_a_sum(), num_seeds=1, keep=tmp_path / "rows")
    said: list[str] = []
    out = tmp_path / "elsewhere" / "toy"
    run(out, with_a_sum(), num_seeds=1, taken_from=tmp_path / "rows", say=said.append)
    assert said == []
    other = tmp_path / "other" / "toy"
    run(other, with_a_sum(), num_seeds=1, only=["base"])
    (result := other / "base" / "seed-1" / RESULT).write_bytes(result.read_bytes() + b" ")
    found = run(other, with_a_sum(), num_seeds=1, taken_from=tmp_path / "rows", say=said.append)
    assert said == ["row 4 of 4: sum, seed 1"], "its base is another one"
    parts = [found.values(name, "bleu")[0] for name in ("base", "worse")]
    assert found.values("sum", "bleu") == [sum(parts)]


def test_a_row_made_of_others_is_kept_beside_the_parts_that_it_was_made_of(tmp_path: Path) -> None:
    run(tmp_path / "first" / "toy", with_a_sum(), num_seeds=1, only=["base"], keep=tmp_path / "rows")
    second = tmp_path / "second" / "toy"
    run(second, with_a_sum(), num_seeds=1, only=["worse"])
    (result := second / "base" / "seed-1" / RESULT).write_bytes(result.read_bytes() + b" ")
    run(second, with_a_sum(), num_seeds=1, keep=tmp_path / "rows")
    assert not (tmp_path / "rows" / "toy" / "sum").exists(), "its base is not the one that is there"
    first = tmp_path / "first" / "toy"
    run(first, with_a_sum(), num_seeds=1, taken_from=tmp_path / "rows", keep=tmp_path / "rows")
    assert (tmp_path / "rows" / "toy" / "sum" / "seed-1" / RESULT).is_file()


def test_rows_of_other_inputs_are_not_mixed(tmp_path: Path) -> None:
    texts = [tmp_path / name for name in ("one.txt", "two.txt")]
    for text in texts:
        text.write_bytes(text.name.encode())
    rows = [replace(row, needs_text=row.name == "like") for row in TOY.rows(TINY)]
    reads = replace(TOY, rows=lambda scale: rows)
    run(tmp_path / "toy", reads, num_seeds=1, inputs=Inputs(text=[texts[0]]), keep=tmp_path / "rows")
    out = tmp_path / "elsewhere" / "toy"
    with pytest.raises(UsageError, match="toy: has rows of other text; give theirs, or leave out from"):
        run(out, reads, inputs=Inputs(text=[texts[1]]), taken_from=tmp_path / "rows")
    assert not (out / "experiment.json").exists()
    run(out, reads, num_seeds=1, only=["base"], taken_from=tmp_path / "rows")
    with pytest.raises(UsageError, match="toy: began with other text"):
        run(out, reads, inputs=Inputs(text=[texts[1]]))


def test_a_failure_is_not_kept_as_it_may_not_fail_elsewhere(tmp_path: Path) -> None:
    def fail(work: Work) -> Mapping[str, Any]:
        raise RowError("there is not enough memory")

    rows = [replace(row, compute=fail) if row.name == "like" else row for row in TOY.rows(TINY)]
    failing = replace(TOY, rows=lambda scale: rows)
    assert run(tmp_path / "toy", failing, num_seeds=1, keep=tmp_path / "rows").failures()
    assert not (tmp_path / "rows" / "toy" / "like").exists()
    results = run(tmp_path / "elsewhere" / "toy", num_seeds=1, taken_from=tmp_path / "rows")
    assert results.values("like", "bleu") == results.values("base", "bleu"), "half of it is right in both"


def test_pictures_cannot_be_kept(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="toy: draws pictures, which are not kept; leave out keep"):
        run(tmp_path / "toy", replace(TOY, draws_pictures=True), keep=tmp_path / "rows")
    assert not (tmp_path / "toy" / "base").exists()


def keep_rows_anew(folder: Path) -> list[Path]:
    """Keep the rows of the toy in a new folder; return those of each row and seed."""
    run(folder / "toy", num_seeds=1, keep=folder / "rows")
    return sorted((folder / "rows").rglob("seed-*"))


def test_without_data_no_row_is_trained_and_with_other_data_none_is_mixed(tmp_path: Path) -> None:
    needs_data = Experiment("toy", "A toy", TOY.rows, TOY.figures, lambda data: None, notes=TOY.notes)
    run(tmp_path / "toy", num_seeds=1, only=["worse"], keep=tmp_path / "rows")
    results = run(tmp_path / "elsewhere" / "toy", needs_data, taken_from=tmp_path / "rows")
    assert sorted(results.outcomes) == ["base", "worse"]
    with pytest.raises(UsageError, match="trains models; name prepared folders with data"):
        run(
            tmp_path / "again" / "toy",
            needs_data,
            inputs=Inputs(text=[tmp_path / "x"]),
            taken_from=tmp_path / "rows",
        )
