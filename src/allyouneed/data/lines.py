"""Reads and writes lines of text by one rule: a line ends at a line feed and is valid UTF-8.

The last line may lack its line feed. One carriage return at the end of a line is dropped and counted. Other
separators of Unicode (U+2028, U+0085, form feed, ..) are ordinary characters.
"""

import contextlib
import errno
import gzip
import io
import re
import sys
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

from allyouneed.errors import MAX_REPORTED, DataError, DiskError, UsageError
from allyouneed.storage.publish import disk_errors

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

MAX_LINE_BYTES = 1 << 20
"""Longest line that `read_each_line` accepts; the rest of a longer line is skipped in constant memory."""

MAX_CORPUS_LINE_BYTES = 1 << 26
"""Longest line that `read_lines` accepts, to bound memory."""

_STANDARD_STREAM = Path("-")
_UTF16_BYTE_ORDER_MARKS = (b"\xff\xfe", b"\xfe\xff")
_COMPRESSED_BLOCK_BYTES = 1 << 10  # a block of this size expands to 32 MiB at worst
_SKIPPED_BLOCK_BYTES = 1 << 16
_BLANK = re.compile(r"[\s\u200b\u200c\u200d\u2060\ufeff]*")


class Line(NamedTuple):
    """A line of input, numbered from 1. An unusable line has an error and no text."""

    number: int
    text: str
    error: DataError | None = None


@dataclass
class LineCounts:
    """What a reader has counted so far in one file."""

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
        source: A file, plain or named `.gz` or `.zst`; a binary stream; `Path("-")` is stdin.
        counts: Counts to update while reading.
        max_line_bytes: Maximum length of a line; a longer one is unusable.
        allow_nul: Whether a line may contain NUL characters.

    Raises:
        DataError: The file does not exist, is a directory, or its compressed data is damaged or cut off.
        DiskError: There is no permission to read the file, or the disk failed.
        UsageError: The file is named `.zst`, and zstandard is not installed.
    """
    counts = LineCounts() if counts is None else counts
    decoder = LineDecoder(_name(source), counts, max_line_bytes, allow_nul)
    with reading_errors(decoder.name, counts), _opened(source) as stream:
        for raw in _raw_lines(stream, max_line_bytes):
            yield decoder.decode(raw)


def read_lines(
    source: Path | BinaryIO,
    counts: LineCounts | None = None,
    *,
    max_line_bytes: int = MAX_CORPUS_LINE_BYTES,
    allow_nul: bool = True,
) -> Iterator[str]:
    """Read the text of every line, and fail at the first unusable one. See `read_each_line`.

    Raises:
        DataError: Lines are unusable; the error names the first ones by file, line and byte.
    """
    lines = read_each_line(source, counts, max_line_bytes=max_line_bytes, allow_nul=allow_nul)
    for line in lines:
        if line.error is not None:
            raise _with_later_errors(line.error, lines)
        yield line.text


def read_aligned(path: Path, reference: Path) -> tuple[list[str], list[str]]:
    """The lines of two line-aligned files.

    Raises:
        DataError: The files have different numbers of lines.
    """
    lines, references = list(read_lines(path)), list(read_lines(reference))
    if len(lines) != len(references):
        raise DataError(
            f"{path} has {len(lines)} lines, but {reference} has {len(references)}; "
            "give two files that match line by line"
        )
    return lines, references


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


def is_blank(text: str) -> bool:
    """Whether `text` has only white space, zero-width spaces and joiners."""
    return _BLANK.fullmatch(text) is not None


@dataclass
class LineDecoder:
    """Decodes lines from bytes; errors name file, line and byte."""

    name: str
    counts: LineCounts = field(default_factory=LineCounts)
    max_line_bytes: int = MAX_LINE_BYTES
    allow_nul: bool = True

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
        if first and raw.startswith(_UTF16_BYTE_ORDER_MARKS):
            return self._unusable(0, "UTF-16; convert with iconv -f UTF-16 -t UTF-8", "E-UTF16")
        if not self.allow_nul and (position := raw.find(b"\0")) >= 0:
            return self._unusable(
                position, "NUL character; remove it, or convert the file if it is UTF-16", "E-NUL"
            )
        try:
            text = raw.decode()
        except UnicodeDecodeError as error:
            fault = f"invalid byte 0x{raw[error.start]:02X}; convert the file to UTF-8 with iconv"
            return self._unusable(error.start, fault, "E-UTF8")
        if first and text.startswith("\ufeff"):
            text = text[1:]
            self.counts.has_byte_order_mark = True
        return Line(self.counts.num_lines, text)

    def _unusable(self, position: int | None, fault: str, label: str) -> Line:
        number = self.counts.num_lines
        column = "" if position is None else f":{position + 1}"
        return Line(number, "", DataError(f"{self.name}:{number}{column}: {fault}", label=label))


def _with_later_errors(first: DataError, lines: Iterable[Line]) -> DataError:
    """Combine `first` with the next errors of its kind, up to the number that is reported."""
    later = (line.error for line in lines if line.error is not None and line.error.label == first.label)
    messages = [message for error in islice(later, MAX_REPORTED - 1) for message in error.messages]
    return DataError([*first.messages, *messages], label=first.label)


def _raw_lines(stream: BinaryIO, max_line_bytes: int) -> Iterator[bytes | None]:
    while raw := stream.readline(max_line_bytes + 1):
        if raw.endswith(b"\n"):
            yield raw[:-1]
        elif len(raw) <= max_line_bytes:
            yield raw
        else:
            _skip_to_next_line(stream)
            yield None


def _skip_to_next_line(stream: BinaryIO) -> None:
    while block := stream.readline(_SKIPPED_BLOCK_BYTES):
        if block.endswith(b"\n"):
            return


def _name(source: Path | BinaryIO) -> str:
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
        with _open_file(source) as stream:
            yield stream


def _open_file(path: Path) -> BinaryIO:
    if path.suffix == ".gz":
        return cast(BinaryIO, gzip.open(path, "rb"))
    if path.suffix == ".zst":
        return io.BufferedReader(_ZstandardStream(path))
    return path.open("rb")


@contextlib.contextmanager
def reading_errors(name: str, counts: LineCounts) -> Iterator[None]:
    """Convert errors raised while the block reads a file into errors for the user."""
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"{name}: no such file; check the path") from None
    except IsADirectoryError:
        raise DataError(f"{name}: is a directory; name a file in it") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        place = f"after line {counts.num_lines:,}" if counts.num_lines else "at its start"
        raise DataError(
            f"{name}: compressed data damaged or cut off {place}; fetch the file again"
        ) from error
    except OSError as error:
        if error.errno == errno.EBADF:
            raise DiskError(f"{name}: is closed; give it something to read, or </dev/null") from None
        raise DiskError(f"{name}: {error.strerror or error}; check the file and its permissions") from error


class _ZstandardStream(io.RawIOBase):
    """Decompresses all frames of a `.zst` file.

    The reader of zstandard does not report a frame that is cut off; `decompressobj` does.
    """

    def __init__(self, path: Path) -> None:
        try:
            import zstandard
        except ImportError:
            raise UsageError(f"{path}: .zst needs zstandard; pip install 'allyouneed[zstd]'") from None
        self._zstandard = zstandard
        self._file = path.open("rb")
        self._compressed = b""
        self._content = io.BytesIO()
        self._frame: zstandard.ZstdDecompressionObj | None = None

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        if hasattr(self, "_file"):  # it has none where opening failed
            self._file.close()
        super().close()

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        while not (size := self._content.readinto(buffer)):
            self._compressed = self._compressed or self._file.read(_COMPRESSED_BLOCK_BYTES)
            if not self._compressed:
                break
            self._content = io.BytesIO(self._decompress())
        if not size and self._frame is not None:
            raise EOFError("the last frame is cut off")
        return size

    def _decompress(self) -> bytes:
        if self._frame is None:
            self._frame = self._zstandard.ZstdDecompressor().decompressobj()
        try:
            content = self._frame.decompress(self._compressed)
        except self._zstandard.ZstdError as error:
            raise EOFError(str(error)) from error
        self._compressed = self._frame.unused_data
        if self._frame.eof:
            self._frame = None
        return content
