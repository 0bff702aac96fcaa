"""Single files that are replaced at one stroke."""

import contextlib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

from allyouneed.publish.disk import ASIDE, disk_errors, sync


@contextlib.contextmanager
def replaced_file(path: Path) -> Iterator[Path]:
    """Yield an empty file to write into; it takes the place of `path` when the block has succeeded.

    Raises:
        DiskError: It could not be written; the file at `path` is as it was.
    """
    with disk_errors(path):
        aside = path.with_name(
            f"{path.name}{ASIDE}{uuid.uuid4().hex}"
        )  # no other process, of any host, has it
        os.close(os.open(aside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        try:
            yield aside
            sync(aside)
            aside.replace(path)
        except BaseException:
            aside.unlink(missing_ok=True)
            raise
        sync(path.parent)


def write_text(path: Path, text: str) -> None:
    """Replace the file at `path` by one that holds `text`, at one stroke."""
    with replaced_file(path) as aside:
        aside.write_bytes(text.encode())
