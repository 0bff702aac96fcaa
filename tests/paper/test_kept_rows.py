"""Finished rows are kept as small files, and a table is written from them without its data or training."""

import io
import json
import math
import shutil
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from allyouneed.errors import DataError, UsageError
from allyouneed.interfaces.reports.reproduction import write_report
from allyouneed.paper.experiment import HYPOTHESES, LOSSES, REFERENCES, RESULT, Experiment, Inputs, Row, Work
from allyouneed.paper.kept_rows import keep_rows
from allyouneed.paper.reproduction import reproduce
from allyouneed.paper.scales import SCALES
from allyouneed.paper.verdicts import judge
from allyouneed.storage.run_directory import RunDirectory

TINY = SCALES["tiny"]
NUM_SENTENCES = 150


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
            losses = [f"{8.0 if good else 20.0 + n % 7}\t8" for n, good in enumerate(right)]
            for file, lines in ((HYPOTHESES, found), (REFERENCES, references), (LOSSES, losses)):
                (folder / file).write_bytes("".join(f"{line}\n" for line in lines).encode())
            nats = sum(float(line.split("\t")[0]) for line in losses) / (8 * NUM_SENTENCES)
            return {
                "perplexity": math.exp(nats),
                "bleu": 100 * share,
                "curve": {"step": [1], "perplexity": [9.0]},
            }

        return Row(name, "what it is", compute, {"perplexity": 5.0, "bleu": 25.0})

    return Experiment(
        "toy", "A toy", lambda scale: [row(name) for name in rows], {"perplexity": True, "bleu": True}
    )


TOY = experiment_of({"base": (0.5, 0.52, 0.51), "worse": (0.3, 0.31, 0.29), "like": (0.5, 0.53, 0.5)})


def run(out: Path, experiment: Experiment = TOY, **options: Any) -> Any:
    *_, results = reproduce(experiment, out, TINY, torch.device("cpu"), **options)
    return results


def test_a_table_made_of_kept_rows_says_the_same_without_references(tmp_path: Path) -> None:
    computed = run(tmp_path / "toy")
    before = judge(computed)
    keep_rows(tmp_path / "toy", tmp_path / "rows")
    said: list[str] = []
    taken = run(tmp_path / "elsewhere" / "toy", taken_from=tmp_path / "rows", say=said.append)
    assert said == []
    assert not list((tmp_path / "elsewhere").rglob(REFERENCES))
    assert judge(taken) == before
    assert taken.outcomes == computed.outcomes
    pages = [[file.read_bytes() for file in write_report(results)] for results in (computed, taken)]
    assert pages[0] == pages[1]


def test_only_what_is_new_or_changed_is_written(tmp_path: Path) -> None:
    run(tmp_path / "toy", num_seeds=1)
    assert len(keep_rows(tmp_path / "toy", tmp_path / "rows")) == 3
    run(tmp_path / "toy", num_seeds=2)
    written = keep_rows(tmp_path / "toy", tmp_path / "rows")
    assert sorted(str(file.relative_to(tmp_path)) for file in written) == [
        f"rows/toy/{row}/seed-2.tar.xz" for row in ("base", "like", "worse")
    ]
    assert keep_rows(tmp_path / "toy", tmp_path / "rows") == []
    (tmp_path / "toy" / "like" / "seed-1" / RESULT).write_bytes(b'{"bleu": 3.0}')
    assert [file.parent.name for file in keep_rows(tmp_path / "toy", tmp_path / "rows")] == ["like"]


def test_two_machines_finish_a_table_together_with_the_same_bytes(tmp_path: Path) -> None:
    for machine, rows in (("first", ["worse"]), ("second", ["like"])):
        out = tmp_path / machine / "toy"
        run(out, only=rows, taken_from=tmp_path / "rows" if machine == "second" else None)
        keep_rows(out, tmp_path / "rows")
    together = {file.name: file.read_bytes() for file in (tmp_path / "rows" / "toy" / "base").glob("*")}
    shutil.rmtree(tmp_path / "rows")
    run(tmp_path / "third" / "toy")
    keep_rows(tmp_path / "third" / "toy", tmp_path / "rows")
    assert together == {
        file.name: file.read_bytes() for file in (tmp_path / "rows" / "toy" / "base").glob("*")
    }


def test_a_row_that_another_process_computes_is_left_to_it(tmp_path: Path) -> None:
    run(tmp_path / "toy")
    keep_rows(tmp_path / "toy", tmp_path / "rows")
    out = tmp_path / "elsewhere" / "toy"
    with RunDirectory(out / "like" / "seed-2").locked():
        (out / "like" / "seed-2" / "begun").touch()
        results = run(out, taken_from=tmp_path / "rows")
    assert sorted(results.outcomes["like"]) == [1, 3]


def test_rows_of_other_settings_and_folders_without_rows_are_refused(tmp_path: Path) -> None:
    run(tmp_path / "toy", num_seeds=1)
    keep_rows(tmp_path / "toy", tmp_path / "rows")
    with pytest.raises(UsageError, match="has no kept rows; from is the folder that has other"):
        run(tmp_path / "other", taken_from=tmp_path / "rows")
    record = tmp_path / "rows" / "toy" / "experiment.json"
    facts = json.loads(record.read_bytes())
    record.write_bytes(json.dumps({**facts, "settings": {"narrower": 3}}).encode())
    with pytest.raises(UsageError, match="has rows of other settings; name another folder with from"):
        run(tmp_path / "elsewhere" / "toy", taken_from=tmp_path / "rows")
    with pytest.raises(UsageError, match=r"began with other settings of the scale tiny; .* with keep"):
        keep_rows(tmp_path / "toy", tmp_path / "rows")
    record.write_bytes(json.dumps({**facts, "scale": "small"}).encode())
    with pytest.raises(UsageError, match="has rows of scale small"):
        run(tmp_path / "elsewhere" / "toy", taken_from=tmp_path / "rows")


@pytest.mark.parametrize("what", ["cut", "text", "path", "link", "result", "many"])
def test_damaged_and_hostile_files_are_refused_in_one_line(what: str, tmp_path: Path) -> None:
    run(tmp_path / "toy", num_seeds=1)
    kept = keep_rows(tmp_path / "toy", tmp_path / "rows")[0]
    if what == "cut":
        kept.write_bytes(kept.read_bytes()[:-40])
    elif what == "text":
        kept.write_bytes(b"no archive")
    else:
        with tarfile.open(kept, "w:xz") as archive:
            names = ["../result.json"] if what == "path" else [f"a{n}.txt" for n in range(101)]
            for name in ["result.json"] if what in ("link", "result") else names:
                member = tarfile.TarInfo(name)
                member.type = tarfile.SYMTYPE if what == "link" else tarfile.REGTYPE
                member.linkname = "/etc/passwd" if what == "link" else ""
                content = b"{" if what == "result" else b""
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    with pytest.raises(DataError, match=r"seed-1\.tar\.xz: is damaged; restore it, or remove it"):
        run(tmp_path / "elsewhere" / "toy", taken_from=tmp_path / "rows")
    assert not (tmp_path / "elsewhere" / "result.json").exists()


def test_without_data_no_row_is_trained_and_with_other_data_none_is_mixed(tmp_path: Path) -> None:
    needs_data = Experiment("toy", "A toy", TOY.rows, TOY.figures, lambda data: None, notes=TOY.notes)
    run(tmp_path / "toy", num_seeds=1, only=["worse"])
    keep_rows(tmp_path / "toy", tmp_path / "rows")
    results = run(tmp_path / "elsewhere" / "toy", needs_data, taken_from=tmp_path / "rows")
    assert sorted(results.outcomes) == ["base", "worse"]
    with pytest.raises(UsageError, match="trains models; name prepared folders with data"):
        run(
            tmp_path / "again" / "toy",
            needs_data,
            inputs=Inputs(text=[tmp_path / "x"]),
            taken_from=tmp_path / "rows",
        )
