"""The training part of `make bench-gpu` runs through on the pretended device, from checks to profiles."""

import json
from pathlib import Path

import pytest
from benchmarks import accelerator_training
from tests.rehearsal.backend import Rehearsal


def test_every_run_is_checked_measured_and_profiled(rehearsal: Rehearsal, tmp_path: Path) -> None:
    found = dict(accelerator_training.measure(rehearsal.device, tmp_path, tiny=True))
    assert json.loads(json.dumps(found)) == found
    assert next(iter(found)) == "training: checks"
    assert found["training: checks"]["within 1% of float32"]
    assert found["training: checks"]["the same bits again"]
    for name in accelerator_training.RUNS:
        if name == "base, tf32":
            assert "tf32: rehearsal:0 has no such products" in found[f"training: {name}"]["not measured"]
            continue
        assert found[f"training: {name}"]["target_tokens_per_second"] > 0
        shares = found[f"training profile: {name}"]
        assert sum(shares[part] for part in ("attention", "products", "rest")) == pytest.approx(1)
        assert shares["products"] > 0
    assert not list(tmp_path.iterdir())


def test_what_begins_too_late_is_named(
    rehearsal: Rehearsal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accelerator_training, "SECONDS", 0.0)
    found = dict(accelerator_training.measure(rehearsal.device, tmp_path, tiny=True))
    assert found.pop("training: checks")
    assert found == {
        f"training: {name}": {"not measured": "out of time"} for name in accelerator_training.RUNS
    }
