"""What `torchrun` tells a process about its device; the exchanges are tested in tests/reliability."""

import socket
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from tests.patience import PATIENCE_SECONDS, wait_until
from torch.distributed import HashStore  # type: ignore[attr-defined]

from allyouneed.errors import ResourceError, UsageError
from allyouneed.training import distributed
from allyouneed.training.distributed import Processes, device_of_process, joined_processes


def test_a_process_on_the_cpu_needs_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_RANK", "7")
    assert device_of_process(torch.device("cpu")) == torch.device("cpu")


def test_each_process_takes_the_accelerator_of_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 2)
    monkeypatch.setattr(torch.accelerator, "set_device_index", taken.append)
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert device_of_process(torch.device("xpu")) == torch.device("xpu", 1)
    assert taken == [1]


def test_more_processes_than_accelerators_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 2)
    monkeypatch.setenv("WORLD_SIZE", "3")
    monkeypatch.setenv("LOCAL_RANK", "2")
    with pytest.raises(
        UsageError, match=r"LOCAL_RANK=2: .* a cuda device of its own, .* has 2; let torchrun"
    ):
        device_of_process(torch.device("cuda"))


def test_an_accelerator_that_is_not_there_is_refused_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 2)
    with pytest.raises(UsageError, match=r"^cuda:5: this machine has 2 such devices; numbers count from 0$"):
        device_of_process(torch.device("cuda:5"))


def test_processes_wait_at_the_start_for_one_that_still_reads() -> None:
    store = HashStore()
    first, late = (Processes(rank, 2, store) for rank in (0, 1))
    with ThreadPoolExecutor(1) as threads:
        for number in (1, 2):
            waiting = threads.submit(first.gather)
            wait_until(lambda number=number: store.check([f"here/{number}/0"]))  # type: ignore[misc]
            assert not waiting.done()
            late.gather()
            waiting.result(PATIENCE_SECONDS)


def test_a_process_that_never_comes_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed, "_GATHER_SECONDS", 0.0)
    with pytest.raises(ResourceError, match="not all 2 processes have read their data within 0 minutes"):
        Processes(0, 2, HashStore()).gather()


def test_processes_that_cannot_meet_are_told_where(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        given = {"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        for name, value in given.items():
            monkeypatch.setenv(name, value)
        with (
            pytest.raises(
                ResourceError, match=f"the processes cannot meet at 127.0.0.1:{port} .*; check MASTER"
            ),
            joined_processes(torch.device("cpu")),
        ):
            pass
