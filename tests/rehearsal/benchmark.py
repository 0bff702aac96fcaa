"""`make bench-gpu` runs through on the pretended device, so that it does so where there is a real one."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from benchmarks import accelerator
from tests.rehearsal.backend import Rehearsal

from allyouneed.lab.bench.training_workloads import SHAPES, Lengths, equal_lengths


def test_the_page_holds_checks_and_speeds(
    rehearsal: Rehearsal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shape = replace(SHAPES["small"], model=accelerator.SMALL, batch_tokens=200, steps=1)
    lengths: dict[str, Callable[[], Lengths]] = {"5 tokens": partial(equal_lengths, 5)}
    monkeypatch.setattr(accelerator, "TRAINED", replace(shape, workloads=lengths))
    monkeypatch.setattr(accelerator, "NUM_SENTENCES", 4)
    monkeypatch.setattr(accelerator, "OUTPUT_TOKENS", 3)
    monkeypatch.setattr(accelerator, "RESULTS", tmp_path / "accelerator.json")
    assert accelerator.main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"a pretended device ({rehearsal.device.type})")
    assert [line.split()[0] for line in lines[1:]] == ["ok"] * 4 + ["tests"] + ["training"] * 2 + [
        "decoding"
    ] * 2
    found = json.loads((tmp_path / "accelerator.json").read_bytes())
    assert all(row["share_of_peak"] > 0 for row in found["training"])
