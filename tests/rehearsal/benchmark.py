"""`make bench-gpu` runs through on the pretended device, so that it does so where there is a real one."""

import json
from pathlib import Path

import pytest
from benchmarks import accelerator
from tests.rehearsal.backend import Rehearsal


def test_all_of_it_runs_and_is_written_as_it_comes(
    rehearsal: Rehearsal, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert accelerator.main([str(tmp_path), "--tiny"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"a pretended device ({rehearsal.device.type})")
    results = json.loads((tmp_path / "accelerator.json").read_bytes())["results"]
    assert [line.partition("s  ")[2].partition(": ")[0] for line in lines[1:]] == [
        name.partition(": ")[0] for name in results
    ]
    assert results["decoding: checks"]["beam 4: as the CPU's"] == 1
    for name in ("bfloat16: beam 4", "float32: greedy", "bfloat16: like WMT's"):
        assert results[f"decoding: {name}"]["sentences_per_second"] > 0
    assert 0 < results["decoding profile: bfloat16, beam 4"]["products"] < 1


def test_a_part_that_fails_or_is_wrong_is_said(
    rehearsal: Rehearsal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> object:
        yield "decoding: checks", {"beam 4: as the CPU's": 0.98}
        raise RuntimeError("no kernel image")

    monkeypatch.setitem(accelerator.PARTS, "decoding", fails)
    assert accelerator.main([str(tmp_path), "--tiny", "--only", "decoding"]) == 1
    said = capsys.readouterr().out
    assert "WRONG  decoding: failed" in said
    assert "WRONG  decoding: checks: beam 4: as the CPU's" in said
    assert "no kernel image" in (tmp_path / "accelerator.json").read_text()
