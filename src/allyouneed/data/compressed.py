"""Opens files that may be compressed, as their first bytes tell, not their names."""

import errno
import io
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from allyouneed.errors import DataError, UsageError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

BLOCK_BYTES = 1 << 16
"""Number of bytes to read at once."""
_COMPRESSED_BLOCK_BYTES = 1 << 10  # a block of this size expands to 32 MiB at worst
_MOST_MEMORY_BYTES = 1 << 28  # `xz -9` needs a quarter of it; a file may ask for 4 GiB
_OTHER_BYTE_ORDER_MARKS = {
    b"\xff\xfe\0\0": "UTF-32",  # first, as the next one begins it
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
    b"\0\0\xfe\xff": "UTF-32",
}
_TAR_MAGICS, _TAR_MAGICS_BEGIN = (b"ustar\x0000", b"ustar  \0"), 257
_BZIP2_MAGICS = tuple(b"BZh%d%b" % (n, begin) for n in range(1, 10) for begin in (b"1AY&SY", b"\x17rE8P\x90"))
_TO_SKIP = tuple(b"%c*M\x18" % n for n in range(0x50, 0x60))  # frames of zstd with notes, as pzstd writes


_Codec = tuple[Callable[[], Any], type[Exception]]
"""Function that makes a decoder of a frame of a file, and its error where the data is damaged."""


def _gzip() -> _Codec:
    return lambda: zlib.decompressobj(wbits=31), zlib.error


def _bzip2() -> _Codec:
    import bz2  # which some builds of Python lack, as they may lack lzma

    return bz2.BZ2Decompressor, OSError


def _xz() -> _Codec:
    import lzma

    return lambda: lzma.LZMADecompressor(memlimit=_MOST_MEMORY_BYTES), lzma.LZMAError


def _zstandard() -> _Codec:
    try:
        import zstandard
    except ImportError:
        raise ImportError("needs zstandard; pip install 'allyouneed[zstd]'") from None
    return lambda: zstandard.ZstdDecompressor().decompressobj(), zstandard.ZstdError


class Packing(NamedTuple):
    """A kind of compressed file or archive."""

    what: str
    """Description for messages, such as "a zip archive"."""
    command: str
    """Command that expands such a file."""
    magics: tuple[bytes, ...]
    """Bytes that such a file may begin with."""
    suffix: str = ""
    """Usual end of a file name, if such a file can be read here."""
    codec: Callable[[], _Codec] | None = None


_ZIP = Packing("a zip archive", "unzip", (b"PK\3\4", b"PK\5\6"), ".zip")
_TAR = Packing("a tar archive", "tar -xf", ())
_PACKINGS = (
    Packing("compressed by gzip", "gunzip", (b"\x1f\x8b",), ".gz", _gzip),
    Packing("compressed by zstd", "unzstd", (b"\x28\xb5\x2f\xfd", *_TO_SKIP), ".zst", _zstandard),
    Packing("compressed by xz", "unxz", (b"\xfd7zXZ\0",), ".xz", _xz),
    Packing("compressed by lzma", "unlzma", (b"]\0\0",), ".lzma", _xz),
    Packing("compressed by bzip2", "bunzip2", _BZIP2_MAGICS, ".bz2", _bzip2),
    _ZIP,
    Packing("compressed by lz4", "unlz4", (b"\x04\x22\x4d\x18", b"\x02\x21\x4c\x18")),
    Packing("compressed by compress", "uncompress", (b"\x1f\x9d",)),
    Packing("compressed by lzip", "lzip -d", (b"LZIP\1",)),
    Packing("compressed by lzop", "lzop -d", (b"\x89LZO\0\r\n",)),
    Packing("compressed by snappy", "snzip -d", (b"\xff\x06\0\0sNaPpY",)),
    Packing("a 7z archive", "7z x", (b"7z\xbc\xaf\x27\x1c",)),
    Packing("a RAR archive", "unrar x", (b"Rar!\x1a\x07",)),
)
SUFFIXES = tuple(packing.suffix for packing in _PACKINGS if packing.suffix)
"""The usual ends of the names of compressed files that can be read."""


def packing_of(head: bytes, suffix: str = "") -> Packing | None:
    """The packing of a file by its first bytes; None if it is not packed.

    The end of its name, `suffix`, decides if the file ends within the bytes that tell its kind.
    """
    if head[_TAR_MAGICS_BEGIN:].startswith(_TAR_MAGICS):
        return _TAR
    for packing in _PACKINGS:
        is_cut_off = (
            head and suffix and suffix == packing.suffix and any(m.startswith(head) for m in packing.magics)
        )
        if is_cut_off or head.startswith(packing.magics):
            return packing
    return None


def other_content(head: bytes) -> tuple[str, str] | None:
    """Message about a stream that begins as UTF-16, UTF-32 or packed, and its label; None otherwise."""
    for mark, encoding in _OTHER_BYTE_ORDER_MARKS.items():
        if head.startswith(mark):
            return f"{encoding}; convert with iconv -f {encoding} -t UTF-8", "E-UTF16"
    if packing := packing_of(head):  # in a stream; files are expanded
        return f"{packing.what}; expand it first, with {packing.command}", "E-COMPRESSED"
    return None


def open_compressed(path: Path) -> BinaryIO:
    """The bytes of a file, expanded if it is compressed by gzip, bzip2, xz, zstd, or the only file in a zip.

    Reading raises EOFError where compressed data is damaged or cut off.

    Raises:
        UsageError: The package that expands it is not installed.
        DataError: It is packed in another way; the error says how, and what expands it.
        EOFError: It is damaged or cut off at its start.
        OSError: It cannot be opened.
    """
    with ExitStack() as on_error:
        file = on_error.enter_context(io.BufferedReader(path.open("rb", 0), BLOCK_BYTES))
        if packing := packing_of(file.peek(), path.suffix):
            blocks = _expanded(packing, file, path)
            expanded: io.BufferedReader[Any] = io.BufferedReader(_Expanded(file, blocks), BLOCK_BYTES)
            if inner := packing_of(expanded.peek()):
                fault = f"is {inner.what}" if inner == _TAR else f"holds a file that is {inner.what}"
                command = inner.command if inner == _TAR else packing.command
                raise DataError(f"{path}: {fault}; expand it first: {command} {path}")
        on_error.pop_all()
        return expanded if packing else file


class _Expanded(io.RawIOBase):
    """Reads the content of a compressed file, which is closed with it, from blocks of any size."""

    def __init__(self, file: BinaryIO, blocks: Iterator[bytes]) -> None:
        self._file, self._blocks = file, blocks
        self._content = io.BytesIO()

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._file.close()
        super().close()

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        while not (size := self._content.readinto(buffer)):
            if (block := next(self._blocks, None)) is None:
                return 0
            self._content = io.BytesIO(block)
        return size


def _expanded(packing: Packing, file: BinaryIO, path: Path) -> Iterator[bytes]:
    if packing == _ZIP:
        return _only_member(file, path)
    if packing.codec is None:
        raise DataError(f"{path}: is {packing.what}; expand it first: {packing.command} {path}")
    try:
        codec = packing.codec()
    except ImportError as error:
        raise UsageError(f"{path}: is {packing.what}: {error}") from None
    return _all_frames(codec, file, path)


def _all_frames(codec: _Codec, file: BinaryIO, path: Path) -> Iterator[bytes]:
    """The content of all frames of a file, as concatenated files have several."""
    make_decoder, damage = codec
    frame, data = None, b""
    while data := data or file.read(_COMPRESSED_BLOCK_BYTES):
        if frame is None:
            data = data.lstrip(b"\0")  # the padding between frames
            if not data:
                continue
            frame = make_decoder()
        try:
            content = frame.decompress(data)
        except damage as error:
            if "memory" in str(error).lower():
                raise DataError(f"{path}: needs too much memory to expand here; expand it first") from error
            raise EOFError(str(error)) from error
        data, frame = frame.unused_data, None if frame.eof else frame
        yield content
    if frame is not None:
        raise EOFError("the last frame is cut off")


def _only_member(file: BinaryIO, path: Path) -> Iterator[bytes]:
    """The content of the only file in a zip archive, besides what macOS adds."""
    expand = f"expand it first: {_ZIP.command} {path}"
    if not file.seekable():
        raise DataError(f"{path}: is a zip archive, but a pipe; save it to a file first")
    try:
        with zipfile.ZipFile(file) as archive:
            infos = [each for each in archive.infolist() if not each.filename.startswith("__MACOSX/")]
            members = [each for each in infos if not each.is_dir()]
            if len(members) != 1:
                raise DataError(f"{path}: is a zip archive of {len(members)} files; {expand}")
            if members[0].flag_bits & 1:
                raise DataError(f"{path}: is an encrypted zip archive; {expand}")
            if members[0].compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise NotImplementedError(f"method {members[0].compress_type}")
            with zipfile.Path(archive, members[0].filename).open("rb") as member:
                while block := member.read(BLOCK_BYTES):
                    yield block
    except NotImplementedError as error:
        raise DataError(f"{path}: is a zip archive of an unknown kind ({error}); {expand}") from None
    except (zipfile.BadZipFile, zlib.error, struct.error, OSError, ValueError, IndexError) as error:
        if isinstance(error, OSError) and error.errno != errno.EINVAL:  # which a damaged place gives
            raise
        raise EOFError(str(error)) from error
