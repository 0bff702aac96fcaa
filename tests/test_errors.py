"""Errors are one printable line each, with the label and the exit code of the contract."""

import inspect

import pytest

from allyouneed import errors
from allyouneed.errors import MAX_REPORTED, DataError, UsageError, UserError, printable

EXIT_CODES = {
    "UserError": 2,
    "UsageError": 2,
    "DataError": 3,
    "ModelError": 4,
    "DivergedError": 5,
    "DiskError": 6,
    "ResourceError": 7,
    "LockedError": 8,
    "InternalError": 1,
}


def test_every_kind_of_error_has_its_exit_code() -> None:
    kinds = dict(inspect.getmembers(errors, lambda o: inspect.isclass(o) and issubclass(o, UserError)))
    assert {name: kind.exit_code for name, kind in kinds.items()} == EXIT_CODES


def test_an_error_is_one_line_with_its_label() -> None:
    assert DataError("a.de:3:1: bad").lines() == ["allyouneed: error[E-DATA]: a.de:3:1: bad"]
    assert DataError("a.de:3:1: bad", label="E-UTF8").lines() == ["allyouneed: error[E-UTF8]: a.de:3:1: bad"]


def test_settings_are_printed_as_the_flags_of_commands() -> None:
    error = UsageError(
        "top_k 3, seed: leave out mbr, not top_kk or a.seed", settings=["top_k", "seed", "mbr"]
    )
    assert str(error) == "top_k 3, seed: leave out mbr, not top_kk or a.seed"
    [line] = error.lines()
    assert line.endswith(": --top-k 3, --seed: leave out --mbr, not top_kk or a.seed")


def test_an_error_of_many_messages_shows_some_and_counts_the_rest() -> None:
    messages = [f"line {i}" for i in range(MAX_REPORTED + 3)]
    lines = DataError(messages).lines()
    assert lines[:-1] == [f"allyouneed: error[E-DATA]: {message}" for message in messages[:MAX_REPORTED]]
    assert lines[-1] == "allyouneed: error[E-DATA]: ... and 3 more"
    assert len(DataError(messages[:MAX_REPORTED]).lines()) == MAX_REPORTED


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("a\nb", "a\\nb"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\u2028b\u0085c", "a\\u2028b\\x85c"),
        ("\udcff", "\\udcff"),
        ("\u202egnihtyna", "\\u202egnihtyna"),
        ("größe 日本 🙂", "größe 日本 🙂"),
    ],
)
def test_no_message_can_drive_the_terminal_or_add_a_line(hostile: str, shown: str) -> None:
    assert printable(hostile) == shown
    assert UserError(hostile).lines() == [f"allyouneed: error[E-USAGE]: {shown}"]
