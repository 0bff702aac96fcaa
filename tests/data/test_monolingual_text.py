"""Text without translations: different lines, in an order that does not depend on their places."""

import random
from pathlib import Path

import pytest

from allyouneed.data.monolingual_text import MonolingualText
from allyouneed.errors import DataError, UsageError

LINES = [f"line {number}" for number in range(200)]


def text(folder: Path, lines: list[str], name: str = "text") -> MonolingualText:
    (folder / name).write_bytes("".join(f"{line}\n" for line in lines).encode())
    return MonolingualText(folder / name)


def test_the_choice_depends_on_the_lines_alone_not_on_their_order_or_repeats(tmp_path: Path) -> None:
    shuffled = random.Random(1).sample([*LINES, *LINES[:50]], 250)
    one, other = text(tmp_path, LINES), text(tmp_path, shuffled, "other")
    assert one.first(30) == other.first(30)
    assert (other.num_lines, other.num_repeats) == (200, 50)


def test_a_smaller_choice_begins_a_larger_one_and_all_are_all(tmp_path: Path) -> None:
    found = text(tmp_path, LINES)
    assert found.first(100)[:30] == found.first(30)
    assert len(found.first(100)) == 100
    assert sorted(found.first(1_000)) == sorted(LINES)


def test_a_choice_of_a_sorted_text_is_not_its_beginning(tmp_path: Path) -> None:
    numbers = [LINES.index(line) for line in text(tmp_path, LINES).first(50)]
    assert 60 < sum(numbers) / 50 < 140  # the mean of all is 99.5


def test_blank_lines_are_left_out_and_a_line_is_a_column_of_a_table(tmp_path: Path) -> None:
    assert text(tmp_path, ["", " ", "a\tb\rc", "\u200b"]).first(9) == ["a b c"]


def test_letters_are_compared_without_case_and_a_text_without_letters_is_of_any_language(
    tmp_path: Path,
) -> None:
    assert text(tmp_path, ["ÄB 1"]).shares_letters(["ä"])
    assert not text(tmp_path, ["привет, 1"]).shares_letters(["hello, 1"])
    assert text(tmp_path, ["1, 2"]).shares_letters(["hello"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no such file; check the path"),
        (b"", "is empty; give a file with one sentence a line"),
        (b"\n \n", "is empty; give a file with one sentence a line"),
        (b"good\n\xff\n", ":2:1: invalid byte 0xFF"),
        (b"good\na\0b\n", ":2:2: NUL character"),
    ],
)
def test_unusable_text_is_refused_in_one_line(tmp_path: Path, content: bytes | None, message: str) -> None:
    file = tmp_path / "text"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(DataError) as raised:
        MonolingualText(file)
    assert str(raised.value).startswith(str(file))
    assert message in str(raised.value)


def test_a_pipe_is_refused_as_it_is_read_again() -> None:
    with pytest.raises(UsageError, match="-: is a pipe, but is needed twice"):
        MonolingualText(Path("-"))
