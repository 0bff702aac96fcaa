"""The processor's features are those that this process may use."""

import ctypes
import platform
import sys

import pytest

from allyouneed.hardware import processor


@pytest.mark.skipif(sys.platform != "linux", reason="tiles are asked for on Linux")
@pytest.mark.parametrize("allowed", [True, False])
def test_tiles_are_a_feature_if_the_system_allows_them(
    allowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processor, "_described", lambda: {"flags": "avx2 AMX_TILE amx_int8 amx_bf16 fma"})
    monkeypatch.setattr(processor, "_may_use_tiles", lambda: allowed)
    tiles = {"amx_tile", "amx_int8", "amx_bf16"} if allowed else set()
    assert processor.features() == {"avx2", "fma"} | tiles


@pytest.mark.skipif((sys.platform, platform.machine()) != ("linux", "x86_64"), reason="Linux on x86-64")
def test_linux_gives_the_tiles_that_it_has() -> None:
    if not (_state_components(0x1021) or 0) >> 18 & 1:
        pytest.skip("NOT RUN: needs a processor and a Linux with matrix tiles")
    assert "amx_tile" in processor.features()
    assert (_state_components(0x1022) or 0) >> 18 & 1, "and has allowed this process to use them"


def _state_components(question: int) -> int | None:
    """What Linux says of parts of the processor's state, as bits; None if it does not know the question."""
    answer = ctypes.c_uint64()
    failed = ctypes.CDLL(None).syscall(ctypes.c_long(158), ctypes.c_long(question), ctypes.byref(answer))
    return None if failed else answer.value


def test_the_system_is_asked_only_where_there_are_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor, "_described", lambda: {"flags": "avx2 fma"})
    monkeypatch.delattr(processor, "_may_use_tiles")
    assert {"avx2", "fma"} <= processor.features()
