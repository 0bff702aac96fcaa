"""The pretended device is as strict as a real one: what would fail or wait there fails or is counted here."""

import ctypes
import faulthandler
import os
import signal
from collections.abc import Callable

import pytest
import torch
from tests.rehearsal.backend import Rehearsal
from torch import Tensor


def test_it_is_pytorchs_accelerator(rehearsal: Rehearsal) -> None:
    assert torch.accelerator.current_accelerator() == torch.device(rehearsal.device.type)
    assert torch.rehearsal.get_device_name() == "a pretended device"  # type: ignore[attr-defined]


def test_a_program_that_reads_its_memory_dies(rehearsal: Rehearsal) -> None:
    x = torch.ones(3, device=rehearsal.device)
    child = os.fork()
    if not child:
        faulthandler.disable()
        ctypes.string_at(x.data_ptr(), 4)
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGSEGV
    assert x.tolist() == [1, 1, 1]


def test_new_memory_holds_no_numbers(rehearsal: Rehearsal) -> None:
    assert torch.empty(1000, device=rehearsal.device).isnan().all()


def test_a_tensor_of_the_host_is_refused(rehearsal: Rehearsal) -> None:
    x = torch.ones(2, 2, device=rehearsal.device)
    for operation in (torch.add, torch.matmul, torch.minimum):
        with pytest.raises(RuntimeError, match="same device"):
            operation(x, torch.ones(2, 2))


def indexed(x: Tensor) -> Tensor:
    return x[x > 0]


WAITS: dict[str, Callable[[Tensor], object]] = {
    "item": lambda x: x[0].item(),
    "if": lambda x: bool((x > 0).any()),
    "to the host": lambda x: x.cpu(),
    "nonzero": lambda x: x.nonzero(),
    "a mask": indexed,
    "a mask assigned": lambda x: x.clone().masked_fill_(x > 0, 0.0).__setitem__(x > 0, x[:2]),
    "unique": lambda x: x.unique(),
    "indices on the host": lambda x: x[[0, 1]],
    "from the host": lambda x: torch.tensor([1.0], device=x.device),
    "not pinned": lambda x: torch.ones(2).to(x.device, non_blocking=True),
    "synchronize": lambda x: torch.accelerator.synchronize(),
}
NO_WAITS: dict[str, Callable[[Tensor], object]] = {
    "arithmetic": lambda x: (x * 2 + 1).sum(),
    "a slice": lambda x: x[1:],
    "indices": lambda x: x[x.argsort()],
    "filling": lambda x: x.clone().masked_fill_(x > 0, 0.0).fill_(2),
    "pinned": lambda x: torch.ones(2).pin_memory().to(x.device, non_blocking=True),
    "random numbers": torch.rand_like,
}


@pytest.mark.parametrize("name", [*WAITS, *NO_WAITS])
def test_waits_are_counted(rehearsal: Rehearsal, name: str) -> None:
    x = torch.tensor([3.0, 4.0], device=rehearsal.device)
    before = rehearsal.num_waits
    {**WAITS, **NO_WAITS}[name](x)
    assert (rehearsal.num_waits > before) == (name in WAITS)


def test_its_memory_is_counted_reused_and_limited(rehearsal: Rehearsal) -> None:
    before = torch.accelerator.memory_allocated()
    x = torch.ones(1 << 20, device=rehearsal.device)
    assert torch.accelerator.memory_allocated() - before == 4 << 20
    place = x.data_ptr()
    del x
    assert torch.accelerator.memory_allocated() == before
    assert torch.ones(1 << 20, device=rehearsal.device).data_ptr() == place
    assert torch.accelerator.max_memory_allocated() >= before + (4 << 20)
    rehearsal.limit_bytes(before + (1 << 20))
    with pytest.raises(torch.OutOfMemoryError):
        torch.ones(1 << 20, device=rehearsal.device)
