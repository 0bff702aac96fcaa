"""Windows hold the lines that one reader finds in a whole file, however these come, and end at a pause."""

import io
import os
import threading
from collections.abc import Iterator
from typing import BinaryIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.patience import PATIENCE_SECONDS

from allyouneed.data import windows
from allyouneed.data.lines import Line, read_each_line
from allyouneed.data.windows import read_windows
from allyouneed.errors import DiskError


class Trickle(io.BytesIO):
    """Bytes that come in pieces of the sizes given."""

    def __init__(self, content: bytes, sizes: list[int]) -> None:
        super().__init__(content)
        self._sizes = iter(sizes)

    def read1(self, size: int | None = -1) -> bytes:
        return super().read1(next(self._sizes, size))


def plain(lines: list[Line]) -> list[tuple[int, str, str]]:
    return [(line.number, line.text, line.error.messages[0] if line.error else "") for line in lines]


@given(
    st.lists(
        st.sampled_from([b"a", b"\n", b"\r", b"\xff", b"\xc3\xa4", b"\0", b"long" * 3, b"\xef\xbb\xbf"])
    ),
    st.lists(st.integers(1, 9)),
    st.integers(1, 5),
    st.integers(1, 9),
)
@settings(max_examples=500)
def test_lines_are_those_of_the_one_reader_in_any_pieces_and_windows(
    pieces: list[bytes], sizes: list[int], window_lines: int, window_bytes: int
) -> None:
    content = b"".join(pieces)
    limits = {"window_lines": window_lines, "window_bytes": window_bytes}
    windows = list(read_windows(Trickle(content, sizes), "input", max_line_bytes=10, **limits))
    expected = plain(list(read_each_line(io.BytesIO(content), max_line_bytes=10)))
    assert plain([line for window in windows for line in window]) == expected
    assert all(1 <= len(window) <= window_lines for window in windows)


@pytest.fixture
def pipe() -> Iterator[tuple[BinaryIO, int]]:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as stream:
        yield stream, writing


def test_a_window_ends_where_the_stream_pauses_even_within_a_line(pipe: tuple[BinaryIO, int]) -> None:
    stream, writing = pipe
    windows = read_windows(stream, "input")
    os.write(writing, b"one\ntwo\nthr")
    assert [line.text for line in next(windows)] == ["one", "two"]
    os.write(writing, b"ee\n")
    assert [line.text for line in next(windows)] == ["three"]
    os.write(writing, b"\nlast")
    assert [line.text for line in next(windows)] == [""]
    os.close(writing)
    assert [line.text for line in next(windows)] == ["last"]
    assert list(windows) == []


def test_what_comes_without_a_pause_is_one_window(
    pipe: tuple[BinaryIO, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(windows, "PAUSE_SECONDS", PATIENCE_SECONDS)
    stream, writing = pipe

    def write() -> None:
        for _ in range(5):
            os.write(writing, b"line\n" * 100)
        os.close(writing)

    thread = threading.Thread(target=write)
    thread.start()
    assert [len(window) for window in read_windows(stream, "input")] == [500]
    thread.join()


def test_a_stream_is_read_no_further_than_its_window() -> None:
    stream = io.BytesIO(b"x" * 99 + b"\n" + b"y\n" * (1 << 20))
    next(read_windows(stream, "input", window_lines=1))
    assert stream.tell() <= 1 << 16


def test_a_line_without_end_is_skipped_in_constant_memory() -> None:
    class Endless(io.RawIOBase):
        left = 1_000

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
            self.left -= 1
            buffer[:] = b"x" * len(buffer)
            return len(buffer) if self.left > 0 else 0

    [[line]] = read_windows(io.BufferedReader(Endless()), "input", max_line_bytes=100)
    assert line.error is not None
    assert "input:1: more than 100 bytes" in line.error.messages[0]


def test_a_stream_that_cannot_be_read_is_told_by_name() -> None:
    class Broken(io.BytesIO):
        def read1(self, size: int | None = -1) -> bytes:
            raise OSError(5, "Input/output error")

    with pytest.raises(DiskError, match="standard input: Input/output error; check"):
        list(read_windows(Broken(), "standard input"))
