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
    counts, window, num_bytes = LineCounts(), list[Line](), 0
    decoder = LineDecoder(name, counts, max_line_bytes)
    begun = bytearray()  # a line without its end
    for block in _blocks(stream, name, counts):
        *ended, rest = block.split(b"\n")
        if ended:
            ended[0] = bytes(begun) + ended[0]
            begun.clear()
        window += (decoder.decode(line if len(line) <= max_line_bytes else None) for line in ended)
        if len(begun) <= max_line_bytes:
            begun += rest
        num_bytes += len(block)
        while len(window) >= window_lines:
            yield window[:window_lines]
            window, num_bytes = window[window_lines:], 0
        if window and (not block or num_bytes >= window_bytes):
            yield window
            window, num_bytes = [], 0
    if begun:
        window.append(decoder.decode(bytes(begun) if len(begun) <= max_line_bytes else None))
    if window:
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
