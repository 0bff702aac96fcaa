"""A plugin of pytest for the processes whose accelerator is the pretended device."""

from collections.abc import Iterator

import pytest
from tests.rehearsal.backend import Rehearsal

from allyouneed.hardware import accelerators, machine
from allyouneed.hardware.devices import widest_float
from allyouneed.training.optimizer import skips_if_told

_REHEARSAL = Rehearsal()


@pytest.fixture
def rehearsal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rehearsal]:
    """The device, with all its memory and number formats."""
    monkeypatch.setattr(accelerators, "may_have_accelerator", lambda: True)  # no file shows it
    monkeypatch.setattr(machine, "_ACCELERATOR_MATRIX_SIZE", 128)  # a real one multiplies 8,192 as fast
    yield _REHEARSAL
    _REHEARSAL.forbid_waits(False)
    _REHEARSAL.forbid_float64(False)
    _REHEARSAL.limit_bytes(8 << 30)


@pytest.fixture
def heedless(rehearsal: Rehearsal) -> Iterator[Rehearsal]:
    """The device with an Adam that ignores `found_inf`."""
    rehearsal.make_adam_heedless(True)
    skips_if_told.cache_clear()
    yield rehearsal
    rehearsal.make_adam_heedless(False)
    skips_if_told.cache_clear()


@pytest.fixture(params=["all formats", "no float64"])
def formats(request: pytest.FixtureRequest, rehearsal: Rehearsal) -> Iterator[Rehearsal]:
    """The device as it is, and one that lacks float64."""
    rehearsal.forbid_float64(request.param == "no float64")
    widest_float.cache_clear()
    yield rehearsal
    widest_float.cache_clear()
