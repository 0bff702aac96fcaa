"""What an experiment makes of the given data is prepared once."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from allyouneed.lab.paper.remade_data import remade_data
from allyouneed.storage.run_directory import RunDirectory


def test_data_that_another_process_prepares_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work: Any = SimpleNamespace(directory=tmp_path / "base" / "seed-1")
    prepared = tmp_path / "short" / "data"
    monkeypatch.setattr("time.sleep", lambda seconds: prepared.mkdir(exist_ok=True))
    with RunDirectory(tmp_path / "short").locked():
        assert remade_data(work, "short") == prepared
