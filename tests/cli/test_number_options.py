"""Options that are whole numbers take digits between bounds; a fraction is told as one."""

import pytest

from allyouneed.cli.program import main

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
