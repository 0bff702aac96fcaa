"""Reads lines of a stream in windows. A window ends when the stream pauses, so answers are not held back."""

import select
from collections.abc import Iterator
from typing import BinaryIO

from allyouneed.data.lines import MAX_LINE_BYTES, Line, LineCounts, LineDecoder, reading_errors

WINDOW_LINES = 4_096
WINDOW_BYTES = 1 << 20
PAUSE_SECONDS = 0.05
"""Time without input after which a stream counts as paused; a file never does."""

_BLOCK_BYTES = 1 << 16


def read_windows(
    stream: BinaryIO,
    name: str,
    *,
    max_line_bytes: int = MAX_LINE_BYTES,
    window_lines: int = WINDOW_LINES,
    window_bytes: int = WINDOW_BYTES,
) -> Iterator[list[Line]]:
    """Every line of a stream, by the rule of `read_each_line`, in constant memory.

    Args:
        stream: A buffered stream, at its start. Pauses are detected if its file descriptor supports it.
        name: Name of the stream in messages.
        max_line_bytes: Maximum length of a line; a longer one is unusable.
        window_lines: Maximum number of lines in a window.
        window_bytes: Approximate maximum size of a window; lines are not divided.

    Raises:
        DataError: The stream is a directory.
        DiskError: The stream cannot be read.
    """
    counts = LineCounts()
    decoder, splitter = LineDecoder(name, counts, max_line_bytes), _LineSplitter(max_line_bytes)
    window: list[Line] = []
    num_bytes = 0
    for block in _blocks(stream, name, counts):
        window += map(decoder.decode, splitter.feed(block))
        num_bytes += len(block)
        while len(window) >= window_lines:
            yield window[:window_lines]
            window, num_bytes = window[window_lines:], 0
        if window and (not block or num_bytes >= window_bytes):
            yield window
            window, num_bytes = [], 0
    if window := [*window, *map(decoder.decode, splitter.end())]:
        yield window


def _blocks(stream: BinaryIO, name: str, counts: LineCounts) -> Iterator[bytes]:
    """Blocks of bytes as they arrive; an empty block is a pause."""
    while True:
        if _pauses(stream):
            yield b""
        with reading_errors(name, counts):
            block: bytes = stream.read1(_BLOCK_BYTES)  # type: ignore[attr-defined]
        if not block:
            return
        yield block


def _pauses(stream: BinaryIO) -> bool:
    try:
        return not select.select([stream], [], [], PAUSE_SECONDS)[0]
    except OSError:  # a stream in memory has nothing to wait for
        return False


class _LineSplitter:
    """Splits bytes into lines without their line feeds; a line that is too long becomes None."""

    def __init__(self, max_line_bytes: int) -> None:
        self._max_line_bytes = max_line_bytes
        self._begun = bytearray()
        self._too_long = False

    def feed(self, block: bytes) -> Iterator[bytes | None]:
        *ends, begun = block.split(b"\n")
        for end in ends:
            self._add(end)
            yield self._take()
        self._add(begun)

    def end(self) -> Iterator[bytes | None]:
        if self._begun or self._too_long:
            yield self._take()

    def _add(self, piece: bytes) -> None:
        self._too_long |= len(self._begun) + len(piece) > self._max_line_bytes
        if self._too_long:
            self._begun.clear()
        else:
            self._begun += piece

    def _take(self) -> bytes | None:
        line = None if self._too_long else bytes(self._begun)
        self._begun.clear()
        self._too_long = False
        return line
