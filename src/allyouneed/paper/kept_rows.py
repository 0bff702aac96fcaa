"""Finished rows as small files, so that a table can be computed piece by piece, on several machines.

FOLDER/NAME/experiment.json says what the rows are of, and FOLDER/NAME/ROW/seed-N.tar.xz is one row and seed:
its result, its translations, and the counts of each sentence, from which it can be compared. References are
left out, and so are trees, which repeat the sentences: a corpus may not be given on with results.
"""

import contextlib
import io
import json
import lzma
import re
import tarfile
from pathlib import Path
from typing import Any

from allyouneed.errors import DataError, LockedError, UsageError
from allyouneed.paper.experiment import PICTURES, RESULT, Experiment
from allyouneed.paper.figure_tests import find_test, kept_of
from allyouneed.paper.identity import EXPERIMENT, identity_of_scale, read_facts, read_json, require_same
from allyouneed.paper.scales import Scale
from allyouneed.storage.publish import disk_errors, replaced_file
from allyouneed.storage.run_directory import RunDirectory

_SUFFIX = ".tar.xz"
_NAME = re.compile(r"[a-z0-9_]+\.(json|tsv|txt)")
_MOST_FILES, _MOST_BYTES = 100, 100_000_000
"""Most files of a row, and bytes of all of them, so that a hostile archive does not fill memory or disk."""


def keep_rows(out: Path, folder: Path) -> list[Path]:
    """Keep the finished rows of the experiment in `out` that `folder` does not have yet.

    Args:
        out: Folder of an experiment; its name is that of the folder made in `folder`.
        folder: Folder of kept rows.

    Returns:
        The files written.

    Raises:
        UsageError: `folder` has rows of other settings or data under this name, or a row has drawn pictures.
        DataError: A file of a row is damaged.
        DiskError: A file cannot be read or written.
    """
    place, written = folder / _name(out), list[Path]()
    require_same(place, read_facts(out / EXPERIMENT), "keep")
    for result in sorted(out.glob(f"*/seed-*/{RESULT}")):
        row = result.parent
        kept = place / row.parent.name / f"{row.name}{_SUFFIX}"
        if kept.is_file() and _contents(kept).get(RESULT) == result.read_bytes():
            continue
        files = _files(row)
        with disk_errors(kept):
            kept.parent.mkdir(exist_ok=True)
        packed = io.BytesIO()
        with tarfile.TarFile(fileobj=packed, mode="w") as archive:
            for name, content in files.items():
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
        with replaced_file(kept) as aside:
            aside.write_bytes(lzma.compress(packed.getvalue()))
        written.append(kept)
    return written


def kept_identity(experiment: Experiment, scale: Scale, out: Path, folder: Path) -> dict[str, Any]:
    """The facts that the rows kept for an experiment share.

    Raises:
        UsageError: There are none, or they are of another experiment, scale or settings.
    """
    record = folder / _name(out) / EXPERIMENT
    if not record.is_file():
        raise UsageError(
            f"{record.parent}: has no kept rows; from is the folder that has {_name(out)}, the name of out",
            settings=["from", "out"],
        )
    facts = read_facts(record)
    for name, value in identity_of_scale(experiment, scale).items():
        if facts.get(name) != value:
            told = "of other settings" if name == "settings" else f"of {name} {facts.get(name)}"
            raise UsageError(
                f"{record.parent}: has rows {told}; name another folder with from, or another out",
                settings=["from", "out"],
            )
    return facts


def take_up(out: Path, folder: Path) -> None:
    """Unpack the kept rows that are not finished in `out`; rows that another process computes are left to it.

    Raises:
        DataError: A kept row is damaged.
        DiskError: A file cannot be read or written.
    """
    for kept in sorted((folder / _name(out)).glob(f"*/seed-*{_SUFFIX}")):
        row = out / kept.parent.name / kept.name.removesuffix(_SUFFIX)
        if (row / RESULT).is_file():
            continue
        contents = _contents(kept)
        with contextlib.suppress(LockedError), RunDirectory(row).locked():
            for name in sorted(contents, key=lambda name: name == RESULT):  # it says that the row is done
                with replaced_file(row / name) as aside:
                    aside.write_bytes(contents[name])


def _name(out: Path) -> str:
    return out.resolve().name


def _files(row: Path) -> dict[str, bytes]:
    """Name -> content of what is kept of a row and seed."""
    figures = read_json(row / RESULT)
    if PICTURES in figures:
        raise UsageError(f"{row}: has drawn pictures, which are not kept; leave out keep", settings=["keep"])
    files = {RESULT: (row / RESULT).read_bytes()}
    for figure in figures:
        kept, test = kept_of(figure, row), find_test(figure)
        if kept is None or test is None:
            continue
        if len(kept.lines) == 1:
            files[kept.name] = kept.files[0].read_bytes()
        else:
            lines = ("\t".join(map(str, counts)) for counts in kept.counts().tolist())
            files[kept.name] = "".join(f"{line}\n" for line in lines).encode()
        if test.outputs_are_ours and kept.outputs.is_file():
            files[kept.outputs.name] = kept.outputs.read_bytes()
    return files


def _contents(kept: Path) -> dict[str, bytes]:
    """Name -> content of the files of a kept row."""
    found: dict[str, bytes] = {}
    with disk_errors(kept):
        packed = kept.read_bytes()
    unpacking = lzma.LZMADecompressor()
    try:
        unpacked = io.BytesIO(unpacking.decompress(packed, _MOST_BYTES))
        with tarfile.TarFile(fileobj=unpacked) as archive:
            for member in archive:
                if not (member.isreg() and _NAME.fullmatch(member.name) and len(found) < _MOST_FILES):
                    raise tarfile.ReadError(f"{member.name} is not a file of a row")
                content = archive.extractfile(member)
                assert content is not None
                found[member.name] = content.read()
        if not unpacking.eof:
            raise EOFError
        json.loads(found[RESULT])
    except (tarfile.TarError, lzma.LZMAError, EOFError, KeyError, ValueError):
        raise DataError(f"{kept}: is damaged; restore it, or remove it to compute the row again") from None
    return found
