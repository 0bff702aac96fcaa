"""Options that are whole numbers take digits between bounds; a fraction is told as one.

`--device` names a device that is there, or says what there is.
The options of a configuration, each over the one before.
"""

from pathlib import Path

import pytest
import torch

from allyouneed.cli.program import main, one_setting_each
from allyouneed.cli.shared_options import (
    ConfigurationOptions,
    available_devices,
    torch_device,
)
from allyouneed.config.presets import base, big, demo
from allyouneed.errors import UsageError
from allyouneed.hardware import accelerators

NO_NUMBERS = ["4.5", "4.0", "1e3", "nan", "inf", "", "x", "٣", " 4", "4\n", "0x10", "²", "--5", "1__0"]


@pytest.mark.parametrize("value", NO_NUMBERS)
@pytest.mark.parametrize("option", ["--beam-size", "--n-best", "--workers"])
def test_what_is_no_whole_number_is_refused(
    option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["translate", "no-model", f"{option}={value}"]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert f"Invalid value for {option}" in told or "unable to convert" in told


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["translate", "m", "--workers", "1000000"], '"1000000" for --workers. Must be <= 1024.'),
        (["translate", "m", "--threads", "100000"], '"100000" for --threads. Must be <= 1024.'),
        (["translate", "m", "--mbr", "1000000000"], '"1000000000" for --mbr. Must be <= 10000.'),
        (["translate", "m", "--n-best", "1000000000"], '"1000000000" for --n-best. Must be <= 10000.'),
        (["translate", "m", "--batch-size", "10000000000"], "Must be <= 1000000000."),
        (["translate", "m", "--batch-tokens", "0"], "Must be >= 1."),
        (["score", "m", "--source", "s", "--target", "t", "--workers", "9999"], "Must be <= 1024."),
        (
            ["sweep", "m", "--source", "s", "--reference", "r", "--beam-sizes", "1", "4.5"],
            'unable to convert "4.5"',
        ),
        (["plan", "--length", "9" * 5_000], "--length"),
        (["average", "r", "--out", "o", "--last", "1.5"], "for --last: '1.5' is not a whole number"),
    ],
)
def test_a_number_beyond_its_bounds_is_refused_with_the_bound(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert message in told
    assert len(told) < 1_500


def test_numbers_in_digits_are_taken(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--length", "1_000", "--vocab-size", "+9"]) == 0
    assert "sentences of 1000 tokens" in capsys.readouterr().out


@pytest.mark.parametrize("value", ["nan", "inf", "1.5", "-0.1"])
def test_a_share_is_a_number_from_0_to_1(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["parse", "no-model", f"--min-confidence={value}"]) == 2
    assert "Must be >= 0 and <= 1." in capsys.readouterr().err


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
    monkeypatch.setattr("allyouneed.hardware.accelerators.may_have_accelerator", lambda: True)
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


def test_where_nothing_is_asked_another_configuration_stands_in() -> None:
    assert ConfigurationOptions().resolve(demo()) == demo()


def test_a_preset_takes_the_place_of_the_other_configuration() -> None:
    assert ConfigurationOptions(preset="big").resolve(demo()) == big()


def test_a_file_goes_over_the_preset_and_settings_over_both(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(b"[training]\nseed = 2\nwarmup_steps = 2\n")
    settings = ["training.seed=3", "search.beam_size=3"]
    resolved = ConfigurationOptions(preset="big", config=path, set_=settings).resolve(base())
    assert resolved == big().replace(training={"seed": 3, "warmup_steps": 2}, search={"beam_size": 3})
    released = ConfigurationOptions("big", "released-later", path).resolve(base())
    assert (released.training.adam_beta2, released.training.warmup_steps) == (0.997, 2)
    assert (
        ConfigurationOptions(config=path).resolve(demo()).training.batch_tokens
        == demo().training.batch_tokens
    )


def test_an_unknown_preset_is_refused_before_anything_is_read() -> None:
    with pytest.raises(UsageError, match="preset bigg: unknown; did you mean big"):
        ConfigurationOptions(preset="bigg", config=Path("absent.toml")).resolve(base())


@pytest.mark.parametrize(
    ("given", "understood"),
    [
        ("--set a=1 b=2 RUN", "--set a=1 --set b=2 RUN"),
        ("RUN --set a=1 b=2 --data d", "RUN --set a=1 --set b=2 --data d"),
        ("--set=a=1 b=2 RUN x=1", "--set=a=1 --set b=2 RUN x=1"),
        ("--set a=1 --set b=2 c=3 -- d=4", "--set a=1 --set b=2 --set c=3 -- d=4"),
        ("x --set a=1 --resume b=2", "x --set a=1 --resume b=2"),
        ("--set x RUN", "--set x RUN"),
        ("--set", "--set"),
    ],
)
def test_after_settings_comes_what_is_none(given: str, understood: str) -> None:
    assert list(one_setting_each(given.split())) == understood.split()


def test_a_run_may_follow_its_settings(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments = ["--set", "training.seed=1", "model.dropout=0.2", str(tmp_path / "run"), "--data", "no-data"]
    assert main(["train", *arguments]) == 4
    assert "no-data: no such directory" in capsys.readouterr().err


def test_an_unknown_task_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="task 'parsin': is unknown; did you mean parsing"):
        ConfigurationOptions(set_=['data.task="parsin"']).resolve(base())


@pytest.mark.parametrize(
    ("version", "file", "expected"),
    [
        ("2.13.0+cpu", "/dev/null", False),
        ("2.13.0", "/dev/null", True),
        ("2.13.0+cu130", "/dev/nowhere", False),
        ("2.13.0+xpu", "/dev/null", True),
        ("2.13.0+rocm7.1", "/dev/null", True),
    ],
)
def test_pytorch_is_asked_only_where_there_are_signs_of_an_accelerator(
    monkeypatch: pytest.MonkeyPatch, version: str, file: str, expected: bool
) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda package: version)
    monkeypatch.setattr(accelerators, "_DEVICES", dict.fromkeys(accelerators._DEVICES, file))
    monkeypatch.setattr("sys.platform", "linux")
    assert accelerators.may_have_accelerator() is expected
