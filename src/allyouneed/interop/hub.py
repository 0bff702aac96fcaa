"""The cache of the Hugging Face hub on the local disk, in which files of a snapshot are links to blobs."""

from pathlib import Path

from allyouneed.errors import ModelError, UsageError
from allyouneed.storage.publish import disk_errors, read_published

_MOST_BYTES = 1_000
"""Size of a file that names a snapshot; its name has 40 letters."""


def located(path: Path) -> Path:
    """The folder or file of a model: of a folder of the hub's cache, its snapshot, else the path itself.

    Raises:
        UsageError: There is nothing at the path.
        ModelError: The cache does not say which snapshot is meant, or that is missing.
    """
    with disk_errors(path):
        if not path.exists():
            raise UsageError(f"{path}: does not exist; name a folder or file of a model")
        return _snapshot_of(path) if (path / "snapshots").is_dir() else path


def _snapshot_of(path: Path) -> Path:
    """The snapshot in a folder of the hub's cache that `refs/main` names, or the only one."""
    folder, main = path / "snapshots", path / "refs" / "main"
    snapshots = sorted(each for each in folder.iterdir() if each.is_dir())
    if main.exists():
        wanted = read_published(main, _MOST_BYTES).decode(errors="replace").strip()
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
