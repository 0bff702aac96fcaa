"""`--device` names a device that is there, or says what there is."""

import pytest
import torch

from allyouneed.errors import UsageError
from allyouneed.interfaces.device import available_devices, torch_device


def test_the_cpu_is_always_there_and_comes_last() -> None:
    assert available_devices()[-1] == "cpu"
    assert torch_device("cpu") == torch.device("cpu")


def test_auto_takes_the_fastest_kind_there_is() -> None:
    assert torch_device("auto") == torch.device(available_devices()[0])


def test_an_absent_device_is_refused_with_those_that_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UsageError, match=r"--device cuda: torch .* finds none on this machine, only cpu"):
        torch_device("cuda")
