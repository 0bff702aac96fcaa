"""One rule for lines, whatever file or stream they come from."""

import gzip
import io
import re
import sys
import tracemalloc
from collections.abc import Callable
from itertools import repeat
from pathlib import Path
from typing import BinaryIO, cast

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from allyouneed.data.lines import (
    LineCounts,
    is_blank,
    read_each_line,
    read_lines,
    write_lines,
)
from allyouneed.errors import MAX_REPORTED, DataError, DiskError

SEPARATORS = list("\v\f\x1c\x1d\x1e\x1f\x85\u2028\u2029\r\0\xa0")
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="NOT RUN: needs Linux's /proc and /dev/full")
HOSTILE = st.lists(
    st.sampled_from([b"a", b"\n", b"\r", b"\r\n", b"\xc3\xa9", b"\xc3", b"\xff\xfe", b"\0"])
).map(b"".join)


def lines_by_the_rule(content: bytes) -> list[bytes]:
    """The contract in its plainest form."""
    lines = content.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    return [line.removesuffix(b"\r") for line in lines]


def plain_file(folder: Path, content: bytes) -> Path:
    path = folder / "text.de"
    path.write_bytes(content)
    return path


def gzip_file(folder: Path, content: bytes) -> Path:
    """Two members, as `cat a.gz b.gz` makes them."""
    path = folder / "text.de.gz"
    half = len(content) // 2
    path.write_bytes(gzip.compress(content[:half]) + gzip.compress(content[half:]))
    return path


def zstandard_file(folder: Path, content: bytes) -> Path:
    """Two frames."""
    path = folder / "text.de.zst"
    half = len(content) // 2
    compress = zstandard.ZstdCompressor().compress
    path.write_bytes(compress(content[:half]) + compress(content[half:]))
    return path


WRITERS = [plain_file, gzip_file, zstandard_file]


@pytest.mark.parametrize("separator", SEPARATORS, ids=ascii)
@pytest.mark.parametrize("make_file", WRITERS, ids=lambda make_file: make_file.__name__)
def test_separators_other_than_line_feed_stay_inside_the_line(
    tmp_path: Path, make_file: Callable[[Path, bytes], Path], separator: str
) -> None:
    lines = [f"eins{separator}zwei", f"{separator}drei", "vier"]
    content = "\n".join(lines).encode()
    assert list(read_lines(make_file(tmp_path, content))) == lines
    assert list(read_lines(io.BytesIO(content))) == lines


@given(content=HOSTILE)
def test_as_many_lines_come_out_as_the_rule_says_with_the_text_it_says(content: bytes) -> None:
    raw = lines_by_the_rule(content)
    lines = list(read_each_line(io.BytesIO(content)))
    assert [line.number for line in lines] == list(range(1, len(raw) + 1))
    for line, expected in zip(lines, raw, strict=True):
        if line.error is None:
            assert line.text.encode() == expected
        else:
            assert line.text == ""
            assert expected.decode(errors="replace") != expected.decode(errors="ignore")


@given(content=st.text(alphabet="aä\r\n\u2028").map(str.encode))
def test_plain_gzip_zstandard_and_stream_give_equal_lines(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    folder = tmp_path_factory.mktemp("lines")
    expected = [line.decode() for line in lines_by_the_rule(content)]
    for source in [make_file(folder, content) for make_file in WRITERS] + [io.BytesIO(content)]:
        assert list(read_lines(source)) == expected


@pytest.mark.parametrize("make_file", WRITERS, ids=lambda make_file: make_file.__name__)
def test_a_large_file_is_read_whole(tmp_path: Path, make_file: Callable[[Path, bytes], Path]) -> None:
    lines = [f"Zeile {number} äöü " + "x" * (number % 300) for number in range(20_000)]
    content = "".join(f"{line}\n" for line in lines).encode()
    assert list(read_lines(make_file(tmp_path, content))) == lines


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a", ["a"]),
        (b"a\n\n", ["a", ""]),
        (b"a\r\r\n", ["a\r"]),
        (b"a\r", ["a"]),
        (b"\r\n", [""]),
    ],
)
def test_ends_of_files_and_lines(content: bytes, lines: list[str]) -> None:
    assert list(read_lines(io.BytesIO(content))) == lines


def test_carriage_returns_and_the_byte_order_mark_are_removed_and_counted() -> None:
    counts = LineCounts()
    assert list(read_lines(io.BytesIO(b"\xef\xbb\xbfa\r\nb\n\xef\xbb\xbfc\r"), counts)) == [
        "a",
        "b",
        "\ufeffc",
    ]
    assert counts == LineCounts(num_lines=3, num_carriage_returns=2, has_byte_order_mark=True)


def test_a_byte_order_mark_is_text_where_it_is_kept() -> None:
    counts = LineCounts()
    content = io.BytesIO(b"\xef\xbb\xbfa\nb\n")
    assert list(read_lines(content, counts, keep_mark=True)) == ["\ufeffa", "b"]
    assert counts == LineCounts(num_lines=2)


def test_a_later_fault_of_another_kind_does_not_hide_the_first(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"\xff\n" + bytes(range(1, 9)) * 9_000)[:-9])
    with pytest.raises(DataError, match=r"a\.gz:1:1: invalid byte 0xFF"):
        list(read_lines(tmp_path / "a.gz"))


def test_an_invalid_byte_is_named_by_file_line_and_byte(tmp_path: Path) -> None:
    path = plain_file(tmp_path, "gut\nschön".encode() + b" \xc3 x\n")
    with pytest.raises(DataError) as caught:
        list(read_lines(path))
    assert caught.value.label == "E-UTF8"
    assert caught.value.messages == (f"{path}:2:8: invalid byte 0xC3; convert the file to UTF-8 with iconv",)


def test_the_byte_order_mark_counts_in_the_column_of_the_first_line() -> None:
    (line,) = read_each_line(io.BytesIO(b"\xef\xbb\xbfab\xff"))
    assert line.error is not None
    assert ":1:6: invalid byte 0xFF" in line.error.messages[0]


def test_bad_lines_are_one_message_with_a_count() -> None:
    bad = io.BytesIO(b"good\n" + b"\xff\n" * 3 + b"good\n\xff")
    with pytest.raises(DataError) as caught:
        list(read_lines(bad))
    fault = "invalid byte 0xFF; convert the file to UTF-8 with iconv"
    assert caught.value.messages == (f"input:2:1: {fault} (likewise lines 3, 4, 6)",)
    for num_bad, others in (
        (1, ""),
        (2, " (likewise line 2)"),
        (6, " (likewise lines 2, 3, 4, 5, 6)"),
        (9, " (likewise lines 2, 3, 4, 5, 6 and 3 more)"),
        (MAX_REPORTED, " (likewise lines 2, 3, 4, 5, 6 and 14 more)"),
        (100, " (likewise lines 2, 3, 4, 5, 6 and at least 15 more)"),
    ):
        with pytest.raises(DataError) as caught:
            list(read_lines(io.BytesIO(b"\xff\n" * num_bad + b"good")))
        assert caught.value.messages == (f"input:1:1: {fault}{others}",)


def test_good_lines_before_a_bad_one_are_given_and_none_after() -> None:
    lines = read_lines(io.BytesIO(b"a\nb\n\xff\nc\n"))
    assert [next(lines), next(lines)] == ["a", "b"]
    with pytest.raises(DataError):
        next(lines)
    assert list(lines) == []


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_other_encodings_of_unicode_are_recognised(encoding: str) -> None:
    content, name = "\ufeffschön\nwär's".encode(encoding), encoding[:6].upper()
    with pytest.raises(DataError) as caught:
        list(read_lines(io.BytesIO(content)))
    assert caught.value.messages == (f"input:1:1: {name}; convert with iconv -f {name} -t UTF-8",)


def test_nul_is_an_error_only_where_it_is_refused() -> None:
    assert list(read_lines(io.BytesIO(b"a\0b"))) == ["a\0b"]
    with pytest.raises(DataError, match="input:2:3: NUL character"):
        list(read_lines(io.BytesIO(b"a\nab\0"), allow_nul=False))


@pytest.mark.parametrize("ending", [b"", b"\n", b"\r\n"])
def test_the_longest_line_passes_and_a_longer_one_fails_alone(ending: bytes) -> None:
    limit = 10 + len(ending.removesuffix(b"\n"))
    fits = list(read_each_line(io.BytesIO(b"0123456789" + ending), max_line_bytes=limit))
    assert [(line.text, line.error) for line in fits] == [("0123456789", None)]
    first, second = read_each_line(io.BytesIO(b"x" * 100_000 + b"\nb\n"), max_line_bytes=limit)
    assert first.error is not None
    assert f"input:1: more than {limit} bytes" in first.error.messages[0]
    assert (second.number, second.text, second.error) == (2, "b", None)


class Endless(io.RawIOBase):
    """64 MiB without a line feed, made as they are read."""

    remaining = 1 << 26

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        size = min(size, self.remaining)
        self.remaining -= size
        return b"x" * size

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]
        block = self.read(len(buffer))
        buffer[: len(block)] = block
        return len(block)


def test_an_endless_line_takes_constant_memory() -> None:
    tracemalloc.start()
    (line,) = read_each_line(cast(BinaryIO, io.BufferedReader(Endless())))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert line.error is not None
    assert peak < 4 << 20


def test_standard_input_is_a_dash_and_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.BytesIO("ä\nö\xff".encode() + b"\xff")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stream, encoding="ascii"))
    lines = list(read_each_line(Path("-")))
    assert lines[0].text == "ä"
    assert lines[1].error is not None
    assert lines[1].error.messages[0].startswith("standard input:2:5: invalid byte 0xFF")
    assert not stream.closed


@pytest.mark.parametrize("make_file", [gzip_file, zstandard_file], ids=["gzip", "zstandard"])
def test_compressed_data_cut_off_anywhere_is_an_error_that_names_the_file(
    tmp_path: Path, make_file: Callable[[Path, bytes], Path]
) -> None:
    path = make_file(tmp_path, "".join(f"Zeile {number}\n" for number in range(100)).encode())
    whole = path.read_bytes()
    messages: list[str] = []
    for size in range(1, len(whole)):
        path.write_bytes(whole[:size])
        messages += error_messages(path)
    assert len(messages) == len(whole) - 2  # all cuts but the one between the two members
    assert all(re.match(f"{path}: compressed data damaged or cut off .*fetch the file", m) for m in messages)


def error_messages(path: Path) -> tuple[str, ...]:
    try:
        for _ in read_lines(path):
            pass
    except DataError as error:
        return error.messages
    return ()


def test_missing_files_and_directories_are_data_errors(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nowhere: no such file"):
        list(read_lines(tmp_path / "nowhere"))
    with pytest.raises(DataError, match="is a directory"):
        list(read_lines(tmp_path))


@on_linux
def test_a_failing_disk_is_a_disk_error() -> None:
    with pytest.raises(DiskError, match="/proc/self/mem: Input/output error"):
        list(read_lines(Path("/proc/self/mem")))


@given(lines=st.lists(st.text()))
def test_what_is_written_is_read_back_with_line_ends_as_spaces(lines: list[str]) -> None:
    stream = io.BytesIO()
    write_lines(stream, lines)
    content = stream.getvalue()
    assert content.count(b"\n") == len(lines)
    assert b"\r" not in content
    read = list(read_lines(io.BytesIO(content.removeprefix(b"\xef\xbb\xbf"))))
    expected = [line.replace("\n", " ").replace("\r", " ") for line in lines]
    assert read == [expected[0].removeprefix("\ufeff"), *expected[1:]] if expected else read == []


def test_a_file_that_is_written_has_line_feeds_alone(tmp_path: Path) -> None:
    write_lines(tmp_path / "out", ["a\r\nb", "ü\u2028", ""])
    assert (tmp_path / "out").read_bytes() == b"a  b\n" + "ü\u2028\n\n".encode()


@on_linux
def test_writing_to_a_full_disk_is_a_disk_error() -> None:
    with pytest.raises(DiskError, match="/dev/full: No space left on device"):
        write_lines(Path("/dev/full"), repeat("x" * 1000, 1000))


def test_standard_output_is_a_dash(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    write_lines(Path("-"), ["ä", "b"])
    assert capfdbinary.readouterr().out == "ä\nb\n".encode()


def test_blank_lines_are_those_in_which_nothing_can_be_seen() -> None:
    assert all(map(is_blank, ["", " \t", "\xa0\u3000", "\u200b", "\u2028 \ufeff\u2060\u200d"]))
    assert not any(map(is_blank, [".", " a ", "\u200bא", "\0"]))
