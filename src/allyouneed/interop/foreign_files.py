"""Files of other software, read within bounds, and names of models on the Hugging Face hub."""

import json
import math
import struct
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

from allyouneed.data.strict_json import JSONFault, parse_value
from allyouneed.errors import ModelError, UsageError
from allyouneed.storage.publish import MAX_WEIGHT_BYTES, disk_errors, read_published

MAX_SETTINGS_BYTES = 1 << 20
"""Size of a file of settings, above which it is refused."""
MAX_VOCABULARY_BYTES = 1 << 24
"""Size of a vocabulary or a tokeniser; one of 60,000 entries has one or two megabytes."""
MOST_RATIO, ALWAYS_BYTES = 50, 1 << 24
"""Maximum ratio of the unpacked size of an archive to its file size; unpacked size that is always allowed."""


def damaged(path: Path, fault: str) -> ModelError:
    """The error of a file of other software that cannot be read."""
    return ModelError(f"{path}: {fault}; take another copy")


def json_object(path: Path, max_bytes: int = MAX_SETTINGS_BYTES) -> dict[str, Any]:
    """The JSON object in a file; raises ModelError if it is missing, too large, or something else."""
    value = json_value(path, max_bytes)
    if not isinstance(value, dict):
        raise damaged(path, "is no JSON object")
    return value


def json_value(path: Path, max_bytes: int = MAX_SETTINGS_BYTES) -> Any:
    """The JSON value in a file; raises ModelError if it is missing, too large, or not JSON."""
    try:
        return parse_value(read_published(path, max_bytes).decode())
    except (JSONFault, UnicodeDecodeError) as error:
        raise damaged(path, f"is not JSON ({error})") from None


def read_entries(path: Path) -> list[str]:
    """The entries of a plain-text vocabulary, one a line; raises ModelError if one is empty or not UTF-8."""
    try:
        text = read_published(path, MAX_VOCABULARY_BYTES).decode()
    except UnicodeDecodeError as error:
        raise damaged(path, f"is not UTF-8 ({error})") from None
    entries = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
    if "" in entries:
        raise damaged(path, f"line {entries.index('') + 1} is empty, not an entry")
    return entries


def whole_number(value: object) -> int | None:
    """The number that a text of up to nine digits spells; None of anything else."""
    is_one = isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 10
    return int(str(value)) if is_one else None


def is_whole(value: object, least: int, most: int) -> bool:
    """Whether a value of JSON is a whole number between two others."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


class ByteReader:
    """Reads a binary file from the front, and never more than it has."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self.left = file, size

    def numbers(self, form: str) -> tuple[Any, ...]:
        """Numbers in a form of `struct`, little-endian."""
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))

    def number(self, form: str) -> int:
        """An integer in a form of `struct`, little-endian."""
        return int(self.numbers(form)[0])

    def take(self, num_bytes: int) -> bytes:
        """The next bytes; raises ValueError if there are fewer."""
        part = self._file.read(num_bytes) if num_bytes <= self.left else b""
        if len(part) < num_bytes:
            raise ValueError("it ends too early")
        self.left -= num_bytes
        return part


def require_members(archive: zipfile.ZipFile, path: Path, most: int) -> Sequence[zipfile.ZipInfo]:
    """The files in an archive; raises ModelError if they are too many, too large, or oddly compressed."""
    members, size = archive.infolist(), path.stat().st_size
    total = sum(member.file_size for member in members)
    if len(members) > most or total > MAX_WEIGHT_BYTES:
        raise ModelError(f"{path}: has more than {most:,} files or {MAX_WEIGHT_BYTES:,} bytes")
    if total > max(ALWAYS_BYTES, MOST_RATIO * size):
        raise damaged(path, f"expands from {size:,} to {total:,} bytes, too many for its size")
    if any(each.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for each in members):
        raise ModelError(f"{path}: is compressed otherwise than by DEFLATE; make it again")
    return members


@contextmanager
def folder_with(path: Path, names: Sequence[str], settings: Mapping[str, Any]) -> Iterator[Path]:
    """A temporary folder for the other software, which may open whatever a folder has.

    It has links to the files of `names`, which have been checked, and new JSON files of known `settings`.
    """
    with TemporaryDirectory(prefix="allyouneed-import-") as made:
        for name in names:
            if (path / name).is_file():
                Path(made, name).symlink_to((path / name).resolve())
        for name, value in settings.items():
            Path(made, name).write_bytes(json.dumps(value).encode())
        yield Path(made)


def require_finite(value: float, name: str, path: Path) -> float:
    """A number; raises ModelError if it is infinite or NaN."""
    if not math.isfinite(value):
        raise damaged(path, f"{name} is {value}, not a finite number")
    return value


_MOST_BYTES = 1_000
"""Size of a file that names a snapshot; its name has 40 letters."""


def located(path: Path) -> Path:
    """The folder or file of a model: of a folder of the hub's cache, the snapshot of `refs/main` or the only.

    Raises:
        UsageError: There is nothing at the path.
        ModelError: The cache does not say which snapshot is meant, or that is missing.
    """
    folder, main = path / "snapshots", path / "refs" / "main"
    with disk_errors(path):
        if not path.exists():
            raise UsageError(f"{path}: does not exist; name a folder or file of a model")
        if not folder.is_dir():
            return path
        snapshots = sorted(each for each in folder.iterdir() if each.is_dir())
        wanted = read_published(main, _MOST_BYTES).decode(errors="replace").strip() if main.exists() else None
    if wanted is not None:
        snapshots = [each for each in snapshots if each.name == wanted]
        if not snapshots:
            raise ModelError(f"{main}: names the snapshot {wanted!r}, which is not there; download it again")
    if not snapshots:
        raise ModelError(f"{folder}: has no snapshot; download the model again")
    if len(snapshots) > 1:
        raise ModelError(
            f"{path}: has {len(snapshots)} snapshots, and no refs/main that says which; "
            f"name one of them, such as {snapshots[0]}"
        )
    return snapshots[0]
