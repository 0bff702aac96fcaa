"""Reads and writes lines of text by one rule: a line ends at a line feed and is valid UTF-8.

The last line may lack its line feed. One carriage return at the end of a line is dropped and counted. Other
separators of Unicode (U+2028, U+0085, form feed, ..) are ordinary characters.
"""

import contextlib
import errno
import io
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import BinaryIO, NamedTuple

from allyouneed.data.compressed import BLOCK_BYTES, open_compressed, other_content
from allyouneed.errors import MAX_REPORTED, DataError, DiskError, UserError
from allyouneed.storage.publish import disk_errors

MAX_LINE_BYTES = 1 << 20
"""Longest line that `read_each_line` accepts; the rest of a longer line is skipped in constant memory."""

MAX_CORPUS_LINE_BYTES = 1 << 26
"""Longest line that `read_lines` accepts, to bound memory."""

_STANDARD_STREAM = Path("-")
_SHOWN_LINES = 5
"""Maximum number of other lines that a message about one names."""
_SKIPPED_BLOCK_BYTES = 1 << 16
_BLANK = re.compile(r"[\s\u200b\u200c\u200d\u2060\ufeff]*")


class Line(NamedTuple):
    """A line of input, numbered from 1. An unusable line has an error and no text."""

    number: int
    text: str
    error: DataError | None = None


@dataclass
class LineCounts:
    """The counts of a reader in one file so far."""

    num_lines: int = 0
    num_carriage_returns: int = 0
    """Carriage returns dropped at the ends of lines."""
    has_byte_order_mark: bool = False
    """Whether the file began with a UTF-8 byte order mark, which is not part of the text."""


def read_each_line(
    source: Path | BinaryIO,
    counts: LineCounts | None = None,
    *,
    max_line_bytes: int = MAX_LINE_BYTES,
    allow_nul: bool = True,
) -> Iterator[Line]:
    """Read every line, including unusable ones, so that lines keep their numbers.

    Args:
        source: A file, plain or compressed (see `open_compressed`); a binary stream; `Path("-")` is stdin.
        counts: Counts to update while reading.
        max_line_bytes: Maximum length of a line; a longer one is unusable.
        allow_nul: Whether a line may contain NUL characters.

    Raises:
        DataError: The file does not exist, is a directory, or its compressed data is damaged or cut off.
        DiskError: There is no permission to read the file, or the disk failed.
        UsageError: A package that expands the file is not installed.
    """
    counts = LineCounts() if counts is None else counts
    for found in read_lines_or_errors(source, counts, max_line_bytes=max_line_bytes, allow_nul=allow_nul):
        text, error = (found, None) if isinstance(found, str) else ("", found)
        yield Line(counts.num_lines, text, error)


def read_lines(
    source: Path | BinaryIO,
    counts: LineCounts | None = None,
    *,
    max_bytes: int | None = None,
    allow_nul: bool = True,
    keep_mark: bool = False,
) -> Iterator[str]:
    """Read the text of every line, and fail at the first unusable one. See `read_lines_or_errors`.

    Raises:
        DataError: Lines are unusable; the error names the first one by file, line and byte, and some others.
    """
    counts = LineCounts() if counts is None else counts
    lines = read_lines_or_errors(
        source, counts, max_bytes=max_bytes, allow_nul=allow_nul, keep_mark=keep_mark
    )
    for line in lines:
        if not isinstance(line, str):
            later = (error for error in lines if isinstance(error, DataError))
            alike = (counts.num_lines for error in later if error.label == line.label)
            raise DataError(line.messages[0] + likewise(alike), label=line.label)
        yield line


def read_lines_or_errors(
    source: Path | BinaryIO,
    counts: LineCounts | None = None,
    *,
    max_line_bytes: int = MAX_CORPUS_LINE_BYTES,
    max_bytes: int | None = None,
    allow_nul: bool = True,
    keep_mark: bool = False,
) -> Iterator[str | DataError]:
    """Read the text of every line, or the error of an unusable one. See `read_each_line`.

    Most blocks have nothing to repair, and are decoded at once. More than `max_bytes` are a `DataError`. With
    `keep_mark` a byte order mark is text, as it is in files that this program has written.
    """
    counts = LineCounts() if counts is None else counts
    decoder = LineDecoder(source_name(source), counts, max_line_bytes, allow_nul, keep_mark)
    with reading_errors(decoder.name, counts), _opened(source) as stream:
        num_bytes = 0

        def count(more: int) -> None:
            nonlocal num_bytes
            num_bytes += more
            if max_bytes is not None and num_bytes > max_bytes:
                raise too_large(decoder.name, counts.num_lines, max_bytes)

        for block in _blocks(stream, decoder.max_line_bytes, count):
            if (texts := decoder.decode_clean(block)) is not None:
                for text in texts:
                    counts.num_lines += 1  # one by one, as messages refer to the last line taken
                    yield text
                continue
            for raw in block.removesuffix(b"\n").split(b"\n"):
                line = decoder.decode(raw if len(raw) <= decoder.max_line_bytes else None)
                yield line.text if line.error is None else line.error


def too_large(name: str, num_lines: int, max_bytes: int) -> DataError:
    """The error of a file with more text than `max_bytes`, found after some number of lines."""
    place = f"after line {num_lines:,}" if num_lines else "in its first lines"
    return DataError(
        f"{name}: has more than max_bytes = {max_bytes} of text, {place}; raise that, or check the file",
        settings=["max_bytes"],
    )


def read_aligned(*paths: Path) -> list[list[str]]:
    """The lines of files, each read once; raises DataError if they have different numbers of lines."""
    texts = [list(read_lines(path)) for path in paths]
    for path, lines in zip(paths, texts, strict=True):
        if len(lines) != len(texts[-1]):
            raise DataError(
                f"{path} has {len(lines)} lines, but {paths[-1]} has {len(texts[-1])}; "
                "give files that match line by line"
            )
    return texts


def write_lines(target: Path | BinaryIO, lines: Iterable[str]) -> None:
    """Write lines to a file or binary stream; `Path("-")` is stdout.

    Raises:
        DiskError: The file could not be written.
    """
    if not isinstance(target, Path):
        target.writelines(map(encode_line, lines))
    elif target == _STANDARD_STREAM:
        sys.stdout.buffer.writelines(map(encode_line, lines))
        sys.stdout.buffer.flush()
    else:
        with disk_errors(target), target.open("wb") as stream:
            stream.writelines(map(encode_line, lines))


def encode_line(text: str) -> bytes:
    """Encode `text` as exactly one line: line feeds and carriage returns become spaces."""
    return text.replace("\n", " ").replace("\r", " ").encode() + b"\n"


def encode_lines(texts: Sequence[str]) -> bytes:
    """Encode each text as exactly one line; see `encode_line`."""
    joined = "\n".join([*texts, ""])
    if "\r" in joined or joined.count("\n") > len(texts):
        return b"".join(map(encode_line, texts))
    return joined.encode()


def is_blank(text: str) -> bool:
    """Whether `text` has only white space, zero-width spaces and joiners."""
    return not text[:1].isalnum() and _BLANK.fullmatch(text) is not None  # the first test is the faster one


@dataclass
class LineDecoder:
    """Decodes lines from bytes; errors name file, line and byte."""

    name: str
    counts: LineCounts = field(default_factory=LineCounts)
    max_line_bytes: int = MAX_LINE_BYTES
    allow_nul: bool = True
    keep_mark: bool = False

    def decode(self, raw: bytes | None) -> Line:
        """Decode the next line, given without its line feed, or None if it was too long."""
        self.counts.num_lines += 1
        if raw is None:
            return self._unusable(
                None, f"more than {self.max_line_bytes:,} bytes; split the line", "E-LINE-LENGTH"
            )
        if raw.endswith(b"\r"):
            raw = raw[:-1]
            self.counts.num_carriage_returns += 1
        first = self.counts.num_lines == 1
        if first and (found := other_content(raw)):
            return self._unusable(0, *found)
        if not self.allow_nul and (position := raw.find(b"\0")) >= 0:
            return self._unusable(
                position, "NUL character; remove it, or convert the file if it is UTF-16", "E-NUL"
            )
        try:
            text = raw.decode()
        except UnicodeDecodeError as error:
            fault = f"invalid byte 0x{raw[error.start]:02X}; convert the file to UTF-8 with iconv"
            return self._unusable(error.start, fault, "E-UTF8")
        if first and not self.keep_mark and text.startswith("\ufeff"):
            text = text[1:]
            self.counts.has_byte_order_mark = True
        return Line(self.counts.num_lines, text)

    def decode_clean(self, block: bytes) -> list[str] | None:
        """Decode whole lines, not the first ones of a file. None if one needs repair or is unusable."""
        is_clean = self.counts.num_lines and len(block) <= self.max_line_bytes and b"\r" not in block
        if not is_clean or (not self.allow_nul and b"\0" in block):
            return None
        try:
            return block.decode().removesuffix("\n").split("\n")
        except UnicodeDecodeError:
            return None

    def _unusable(self, position: int | None, fault: str, label: str) -> Line:
        number = self.counts.num_lines
        column = "" if position is None else f":{position + 1}"
        return Line(number, "", DataError(f"{self.name}:{number}{column}: {fault}", label=label))


def likewise(numbers: Iterable[int]) -> str:
    """The end of a message about a line that is true of others, too, whose numbers it reads."""
    found: list[int] = []
    with contextlib.suppress(UserError):  # another fault, at which the reading ends, does not hide this one
        for number in islice(numbers, MAX_REPORTED):
            found.append(number)
    if not found:
        return ""
    shown, num_more = ", ".join(f"{number:,}" for number in found[:_SHOWN_LINES]), len(found) - _SHOWN_LINES
    more = f" and {'at least ' * (len(found) == MAX_REPORTED)}{num_more} more" if num_more > 0 else ""
    return f" (likewise line{'s' * (len(found) > 1)} {shown}{more})"


def _blocks(stream: BinaryIO, max_line_bytes: int, count: Callable[[int], None]) -> Iterator[bytes]:
    """Blocks of whole lines; a line that is too long is cut off at some place beyond the limit.

    `count` receives numbers of bytes before these are yielded or, after a line that is too long, skipped.
    """
    read = stream.read1 if isinstance(stream, io.BufferedIOBase) else stream.readline
    while block := read(BLOCK_BYTES):
        whole, newline, begun = block.rpartition(b"\n")
        if newline:
            count(len(whole) + 1)
            yield whole + newline  # before more is read, which may fail
        if begun:
            begun += stream.readline(max(0, max_line_bytes + 1 - len(begun)))
            count(len(begun))
            if len(begun) > max_line_bytes and not begun.endswith(b"\n"):
                _skip_to_next_line(stream, count)
            yield begun


def _skip_to_next_line(stream: BinaryIO, count: Callable[[int], None]) -> None:
    while block := stream.readline(_SKIPPED_BLOCK_BYTES):
        count(len(block))
        if block.endswith(b"\n"):
            return


def source_name(source: Path | BinaryIO) -> str:
    """How messages name a source of lines."""
    if source == _STANDARD_STREAM:
        return "standard input"
    return str(source) if isinstance(source, Path) else str(getattr(source, "name", "input"))


@contextlib.contextmanager
def _opened(source: Path | BinaryIO) -> Iterator[BinaryIO]:
    """The bytes of `source`; closes it only if it was opened here."""
    if not isinstance(source, Path):
        yield source
    elif source == _STANDARD_STREAM:
        yield sys.stdin.buffer
    else:
        with open_compressed(source) as stream:
            yield stream


@contextlib.contextmanager
def reading_errors(name: str, counts: LineCounts) -> Iterator[None]:
    """Convert errors raised while the block reads a file into errors for the user."""
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"{name}: no such file; check the path") from None
    except IsADirectoryError:
        raise DataError(f"{name}: is a directory; name a file in it") from None
    except EOFError as error:
        place = f"after line {counts.num_lines:,}" if counts.num_lines else "at its start"
        raise DataError(
            f"{name}: compressed data damaged or cut off {place}; fetch the file again"
        ) from error
    except OSError as error:
        if error.errno == errno.EBADF:
            raise DiskError(f"{name}: is closed; give it something to read, or </dev/null") from None
        raise DiskError(f"{name}: {error.strerror or error}; check the file and its permissions") from error
