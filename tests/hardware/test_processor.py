"""The processor's features are those that this process may use."""

import ctypes
import platform
import sys
from pathlib import Path

import pytest

from allyouneed.errors import ResourceError
from allyouneed.hardware import processor
from allyouneed.hardware.memory import require_memory


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


@pytest.mark.parametrize(
    ("quota", "cores"), [("150000 100000", 2), ("20000 100000", 1), ("max 100000", 8), ("6400000 100000", 8)]
)
def test_a_container_may_use_as_many_cores_as_its_share(
    quota: str, cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processor, "_CONTAINER", tmp_path)
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(8)), raising=False)
    assert processor.available_cores() == 8
    (tmp_path / "cpu.max").write_text(f"{quota}\n")
    assert processor.available_cores() == cores


def test_a_container_may_use_as_much_memory_as_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processor, "_CONTAINER", tmp_path)
    assert processor.container_memory_bytes() is None
    (tmp_path / "memory.max").write_text("max\n")
    assert processor.container_memory_bytes() is None
    require_memory(3_000)
    (tmp_path / "memory.max").write_text("2048\n")
    assert processor.container_memory_bytes() == 2_048
    with pytest.raises(ResourceError, match="needs 3,000 bytes of memory, and this machine has 2,048"):
        require_memory(3_000)


def _state_components(question: int) -> int | None:
    """What Linux says of parts of the processor's state, as bits; None if it does not know the question."""
    answer = ctypes.c_uint64()
    failed = ctypes.CDLL(None).syscall(ctypes.c_long(158), ctypes.c_long(question), ctypes.byref(answer))
    return None if failed else answer.value


def test_the_system_is_asked_only_where_there_are_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor, "_described", lambda: {"flags": "avx2 fma"})
    monkeypatch.delattr(processor, "_may_use_tiles")
    assert {"avx2", "fma"} <= processor.features()
