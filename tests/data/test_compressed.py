"""Files are expanded by their content, whatever their names; what is not read is named with its command."""

import bz2
import gzip
import io
import lzma
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from allyouneed.data.lines import read_lines
from allyouneed.errors import DataError, UsageError

LINES = [f"Zeile {number}: süß" for number in range(3_000)]
TEXT = "".join(f"{line}\n" for line in LINES).encode()


def zipped(*contents: bytes, method: int = zipfile.ZIP_DEFLATED, extra: str = "folder/") -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as archive:
        archive.writestr(extra, b"")
        for number, content in enumerate(contents):
            archive.writestr(f"folder/{number}.txt", content)
    return packed.getvalue()


def tar() -> bytes:
    packed = io.BytesIO()
    with tarfile.TarFile(fileobj=packed, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("a.txt"), io.BytesIO())
    return packed.getvalue()


def to_be_skipped(content: bytes) -> bytes:
    """A frame of notes before a frame of zstd, as pzstd writes it."""
    return b"\x50\x2a\x4d\x18\x04\0\0\0note" + COMPRESS["zstd"](content)


COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "lzma": lambda content: lzma.compress(content, lzma.FORMAT_ALONE),
    "zstd": zstandard.ZstdCompressor(write_checksum=True).compress,
    "zstd with notes": to_be_skipped,
}
PACK = COMPRESS | {
    "zip": zipped,
    "zip, stored": lambda content: zipped(content, method=zipfile.ZIP_STORED),
    "zip of macOS": lambda content: zipped(content, extra="__MACOSX/folder/._0.txt"),
}


@pytest.mark.parametrize("name", ["a.en", "a.en.gz", "a.xz", "a.zip", "a.bz2"])
@pytest.mark.parametrize("pack", [*PACK.values(), bytes], ids=[*PACK, "nothing"])
def test_text_is_read_however_it_is_packed_and_named(
    tmp_path: Path, pack: Callable[[bytes], bytes], name: str
) -> None:
    (tmp_path / name).write_bytes(pack(TEXT))
    assert list(read_lines(tmp_path / name)) == LINES


@pytest.mark.parametrize("padding", [b"", bytes(8)], ids=["", "padded"])
@pytest.mark.parametrize("compress", COMPRESS.values(), ids=COMPRESS)
def test_all_frames_of_concatenated_files_are_read(
    tmp_path: Path, compress: Callable[[bytes], bytes], padding: bytes
) -> None:
    frames = [compress(TEXT[begin : begin + 9_999]) + padding for begin in range(0, len(TEXT), 9_999)]
    (tmp_path / "a").write_bytes(b"".join(frames) + compress(b""))
    assert list(read_lines(tmp_path / "a")) == LINES


@pytest.mark.parametrize("pack", PACK.values(), ids=PACK)
def test_packed_data_that_is_damaged_is_an_error_in_one_line(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    path, whole = tmp_path / "a.en", pack(TEXT)
    damaged = [whole[: len(whole) * part // 8] for part in range(1, 8)]
    if pack is not COMPRESS["lzma"]:  # which has no check sum
        damaged.append(whole[: len(whole) // 2] + bytes(9) + whole[len(whole) // 2 + 9 :])
    for content in damaged:
        path.write_bytes(content)
        with pytest.raises(DataError) as caught:
            list(read_lines(path))
        (message,) = caught.value.messages
        assert "a.en: compressed data damaged or cut off" in message or "invalid byte" in message


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x04\x22\x4d\x18" + bytes(9), "is compressed by lz4; expand it first: unlz4 FILE"),
        (b"\x1f\x9d\x90abc", "is compressed by compress; expand it first: uncompress FILE"),
        (b"LZIP\1" + bytes(9), "is compressed by lzip; expand it first: lzip -d FILE"),
        (b"7z\xbc\xaf\x27\x1c", "is a 7z archive; expand it first: 7z x FILE"),
        (b"Rar!\x1a\x07\0", "is a RAR archive; expand it first: unrar x FILE"),
        (tar(), "is a tar archive; expand it first: tar -xf FILE"),
        (gzip.compress(tar(), mtime=0), "is a tar archive; expand it first: tar -xf FILE"),
        (lzma.compress(tar()), "is a tar archive; expand it first: tar -xf FILE"),
        (
            gzip.compress(gzip.compress(b"a", mtime=0), mtime=0),
            "holds a file that is compressed by gzip; .*: gunzip FILE",
        ),
        (zipped(bz2.compress(b"a")), "holds a file that is compressed by bzip2; .*: unzip FILE"),
        (zipped(b"a", b"b"), "is a zip archive of 2 files; expand it first: unzip FILE"),
        (zipped(), "is a zip archive of 0 files; expand it first: unzip FILE"),
        (zipped(b"a", method=zipfile.ZIP_BZIP2), r"a zip archive of an unknown kind \(method 12\); .*unzip"),
        (zipped(b"a").replace(b"PK\1\2\x14\3\x14\0\0", b"PK\1\2\x14\3\x14\0\1"), "an encrypted zip archive;"),
    ],
)
def test_what_is_not_expanded_here_is_named_with_what_expands_it(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "a.en.gz"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message.replace("FILE", str(path))):
        list(read_lines(path))


def test_a_text_is_no_archive_for_a_word_where_archives_have_their_mark(tmp_path: Path) -> None:
    line = "x" * 257 + "ustar 00: me va a gustar"
    (tmp_path / "a.es").write_bytes(line.encode())
    assert list(read_lines(tmp_path / "a.es")) == [line]


def test_a_stream_of_compressed_text_is_named_as_such() -> None:
    with pytest.raises(DataError, match=r"input:1:1: compressed by xz; expand it first, with unxz") as caught:
        list(read_lines(io.BytesIO(lzma.compress(TEXT))))
    assert caught.value.label == "E-COMPRESSED"


def test_a_file_that_needs_much_memory_to_expand_is_refused(tmp_path: Path) -> None:
    packed = bytearray(lzma.compress(b"a\n", check=lzma.CHECK_NONE))
    packed[16] = 40  # the size of the dictionary in the header of the block: 4 GiB
    packed[20:24] = zlib.crc32(packed[12:20]).to_bytes(4, "little")
    (tmp_path / "a.xz").write_bytes(packed)
    with pytest.raises(DataError, match=r"a\.xz: needs too much memory to expand here; expand it first"):
        list(read_lines(tmp_path / "a.xz"))


@pytest.mark.parametrize(
    ("module", "compress", "message"),
    [
        ("zstandard", zstandard.compress, r"is compressed by zstd: .*pip install 'allyouneed\[zstd\]'"),
        ("lzma", lzma.compress, "is compressed by xz: .*lzma"),
    ],
)
def test_a_package_that_is_missing_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    module: str,
    compress: Callable[[bytes], bytes],
    message: str,
) -> None:
    (tmp_path / "a.en").write_bytes(compress(TEXT))
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UsageError, match=message):
        list(read_lines(tmp_path / "a.en"))
