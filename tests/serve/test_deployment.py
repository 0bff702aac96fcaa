"""The files of `deploy/`: their flags exist, and they are as careful as docs/serving.md says."""

import configparser
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from allyouneed.cli.program import app

DEPLOY = Path(__file__).parents[2] / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_bytes().decode()
COMPOSE = (DEPLOY / "compose.yaml").read_bytes().decode()


def systemd_service() -> configparser.SectionProxy:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string((DEPLOY / "allyouneed.service").read_bytes().decode())
    return parser["Service"]


def image_command() -> list[str]:
    [entry] = re.findall(r"^ENTRYPOINT (\[.*\])$", DOCKERFILE, re.MULTILINE)
    [command] = re.findall(r"^    command:\n((?:      - .*\n)+)", COMPOSE, re.MULTILINE)
    started: list[str] = json.loads(entry)
    return [*started, *re.findall(r"- ([^\s#]+)", command)]


def unit_command() -> list[str]:
    return shlex.split(systemd_service()["ExecStart"].replace("\\\n", " "))


@pytest.mark.parametrize("command", [image_command(), unit_command()], ids=["image", "unit"])
def test_the_commands_are_valid(command: list[str]) -> None:
    assert Path(command[0]).name == "allyouneed"
    assert command[1] == "serve"
    app.parse_args(command[1:], print_error=False, exit_on_error=False)
    assert "--token-file" in command
    assert "--insecure" not in command


def test_the_image_runs_without_rights() -> None:
    assert re.search(r"^USER 10001:10001$", DOCKERFILE, re.MULTILINE)
    last = DOCKERFILE.rpartition("FROM ")[2]
    assert "gcc" not in last
    assert "/healthz" in last
    for setting in ("    read_only: true", "cap_drop:\n      - ALL\n", "no-new-privileges:true"):
        assert setting in COMPOSE


def test_the_unit_waits_for_the_drain_and_runs_without_rights() -> None:
    service = systemd_service()
    assert service["SuccessExitStatus"] == "143"
    assert int(service["TimeoutStopSec"]) > 30
    assert service["User"] == "allyouneed"
    for setting in ("NoNewPrivileges", "PrivateTmp", "PrivateDevices", "RemoveIPC", "RestrictSUIDSGID"):
        assert service[setting] == "yes"
    assert service["ProtectSystem"] == "strict"
    assert service["CapabilityBoundingSet"] == ""


def test_the_unit_reloads_and_keeps_to_its_cores_and_its_memory() -> None:
    service = systemd_service()
    assert service["ExecReload"] == "/bin/kill -HUP $MAINPID"
    assert service["EnvironmentFile"].startswith("-/etc/")
    assert re.fullmatch(r"\d+-\d+", service["CPUAffinity"])
    assert "--workers" not in unit_command()  # one per core of these
    assert re.fullmatch(r"\d+G", service["MemoryMax"])
    assert "LoadCredential" not in service  # it would not be read again


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd")
def test_systemd_accepts_the_unit() -> None:
    unit = str(DEPLOY / "allyouneed.service")
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    said = [line for line in done.stderr.split("\n") if "allyouneed.service" in line]
    assert [line for line in said if "is not executable" not in line] == []  # it is not installed here


def test_only_what_is_built_reaches_the_image() -> None:
    ignored = (DEPLOY.parent / ".dockerignore").read_bytes().decode().split("\n")
    assert "*" in ignored
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, re.MULTILINE)
    names = {name for line in copied for name in line.split()}
    assert names == {line.removeprefix("!").rstrip("/") for line in ignored if line.startswith("!")}
