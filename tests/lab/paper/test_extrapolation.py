"""What 3.5 says of sinusoids is so."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from allyouneed.lab.paper.extrapolation import largest_error_of_shift, short_data
from allyouneed.storage.run_directory import RunDirectory


@pytest.mark.parametrize("offset", [1, 5, 60])
def test_a_position_further_on_is_a_linear_function_of_the_position(offset: int) -> None:
    assert largest_error_of_shift(64, offset) < 1e-5


def test_data_that_another_process_prepares_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work: Any = SimpleNamespace(directory=tmp_path / "base" / "seed-1")
    prepared = tmp_path / "short" / "data"
    monkeypatch.setattr("time.sleep", lambda seconds: prepared.mkdir(exist_ok=True))
    with RunDirectory(tmp_path / "short").locked():
        assert short_data(work) == prepared
