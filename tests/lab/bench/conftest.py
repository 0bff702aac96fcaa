"""Processes of contenders begin with PyTorch loaded, which spares each of them the import."""

from collections.abc import Iterator
from multiprocessing import get_context

import pytest

from allyouneed.lab.bench import contenders


@pytest.fixture(scope="session", autouse=True)
def loaded_processes() -> Iterator[None]:
    context = get_context("forkserver")
    names = "decoding_contenders", "decoding_speed", "training_contenders", "training_speed"
    context.set_forkserver_preload([f"allyouneed.lab.bench.{name}" for name in names])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contenders, "get_context", lambda method: context)
        yield
