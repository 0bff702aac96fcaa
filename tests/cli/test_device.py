"""`--device` names a device that is there, or says what there is."""

import pytest
import torch

from allyouneed.cli.device import available_devices, torch_device
from allyouneed.cli.program import main
from allyouneed.errors import UsageError


def test_the_cpu_is_always_there_and_comes_last() -> None:
    assert available_devices()[-1] == "cpu"
    assert torch_device("cpu") == torch.device("cpu")


def test_auto_takes_the_fastest_kind_there_is() -> None:
    assert torch_device("auto") == torch.device(available_devices()[0])


def test_the_only_accelerator_is_taken_or_named_when_another_is_wanted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        torch.accelerator, "current_accelerator", lambda check_available=False: torch.device("mps")
    )
    assert torch_device("auto") == torch_device("mps") == torch.device("mps")
    for absent in ("cuda", "xpu"):
        with pytest.raises(
            UsageError, match=rf"--device {absent}: torch .* finds none on this machine, only mps, cpu"
        ):
            torch_device(absent)


def test_an_absent_device_ends_the_program_with_those_that_are_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda check_available=False: None)
    assert main(["translate", "model", "--device", "xpu"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "--device xpu: torch" in line
    assert "finds none on this machine, only cpu; see `allyouneed doctor`" in line
