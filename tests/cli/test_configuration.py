"""The options of a configuration, each over the one before."""

from pathlib import Path

import pytest

from allyouneed.cli.configuration import NOTHING_ASKED, ConfigurationOptions, one_setting_each
from allyouneed.cli.program import main
from allyouneed.config.presets import base, big, demo
from allyouneed.errors import UsageError


def test_where_nothing_is_asked_another_configuration_stands_in() -> None:
    assert NOTHING_ASKED.resolve(demo()) == demo()


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
