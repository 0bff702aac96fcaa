"""`doctor` tells versions, devices and disk as they are, for people and for programs."""

import json
import platform

import pytest
import torch

from allyouneed.cli.commands.doctor import PACKAGES
from allyouneed.cli.program import main
from allyouneed.cli.shared_options import available_devices
from allyouneed.version import __version__


def test_the_json_holds_versions_devices_and_disk(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0
    findings = json.loads(capsys.readouterr().out)
    assert findings["versions"]["allyouneed"] == __version__
    assert findings["versions"]["python"] == platform.python_version()
    assert findings["versions"]["torch"] == torch.__version__
    assert set(PACKAGES) < set(findings["versions"])
    assert findings["cpu"]["threads"] == torch.get_num_threads()
    assert findings["cpu"]["bfloat16"] in (True, False, None)
    kinds = {device["device"].partition(":")[0] for device in findings["devices"]}
    assert len(findings["devices"]) == torch.accelerator.device_count()
    assert kinds <= set(available_devices())
    assert 0 < findings["disk"]["free_bytes"] < findings["disk"]["total_bytes"]


def test_the_text_tells_the_same_line_by_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.split("\n")
    assert f"allyouneed {__version__}" in lines
    assert f"torch {torch.__version__}" in lines
    assert [line.split(":")[0] for line in lines if ": " in line] == ["cpu", "gpu", "disk"]
