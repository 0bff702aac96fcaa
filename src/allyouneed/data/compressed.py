"""Opens files that may be compressed, by their suffix."""

import gzip
import io
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from allyouneed.errors import UsageError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

BLOCK_BYTES = 1 << 16
"""Number of bytes to read at once."""
_COMPRESSED_BLOCK_BYTES = 1 << 10  # a block of this size expands to 32 MiB at worst


def open_compressed(path: Path) -> BinaryIO:
    """The bytes of a file, plain or named `.gz` or `.zst`.

    Raises:
        UsageError: The file is named `.zst`, and zstandard is not installed.
        OSError: It cannot be opened.
    """
    if path.suffix == ".gz":
        return cast(BinaryIO, gzip.open(path, "rb"))
    if path.suffix == ".zst":
        return io.BufferedReader(_ZstandardStream(path))
    return path.open("rb", BLOCK_BYTES)


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
