"""The processor's features are those that this process may use."""

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


def test_the_system_is_asked_only_where_there_are_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor, "_described", lambda: {"flags": "avx2 fma"})
    monkeypatch.delattr(processor, "_may_use_tiles")
    assert {"avx2", "fma"} <= processor.features()
