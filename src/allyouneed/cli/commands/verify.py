"""`allyouneed verify`: checks that files are unchanged since they were written."""

from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from allyouneed.errors import DiskError, ModelError, UserError, notice
from allyouneed.storage.publish import MANIFEST, read_manifest, unlisted

_READ_OF = {
    "model": ("model.safetensors", "config.toml", "source_tokenizer.json", "target_tokenizer.json"),
    "state": ("state.safetensors", "state.json"),
    "shortlist": ("shortlist.safetensors",),
}
"""Kind -> files that its readers require. They are listed here as some of those modules import PyTorch."""


def verify(directory: Path, /, *more: Path) -> None:
    """Check every file of models, runs and prepared data against its manifest.

    ```
    allyouneed verify runs/demo/run
    allyouneed verify runs/demo/model runs/demo/data
    ```

    Prints one line for each intact directory whose manifest lists every file that other commands read, with
    the languages of a model of several. In a run, every checkpoint and state is checked.

    Args:
        directory: A model, a run, or prepared data.
        more: More such directories.
    """
    faults: list[str] = []
    unread: list[str] = []
    for given in (directory, *more):
        for published in (parts := list(_published_in(given))):
            try:
                print(_check(published), flush=True)
            except ModelError as error:
                faults.extend(error.messages)
            except DiskError as error:
                unread.extend(error.messages)
        if given in parts and len(parts) > 1:
            faults.append(
                f"{given}: is a run, but has a {MANIFEST} of its own; move one to a folder of its own"
            )
    if faults:
        raise ModelError(faults + unread)
    if unread:
        raise DiskError(unread)


def _check(directory: Path) -> str:
    manifest = read_manifest(directory)
    files_read: Collection[str] = _READ_OF.get(manifest["kind"], ())
    if manifest["kind"] == "data":
        from allyouneed.preparation import prepared_data

        files_read = prepared_data.files_read(directory)
    if faults := unlisted(directory, manifest, files_read):
        raise ModelError(faults)
    found = {path.relative_to(directory).as_posix() for path in directory.rglob("*") if not path.is_dir()}
    for name in sorted(found - {MANIFEST, *manifest["files"]}):
        notice(f"{directory / name}: is not in the manifest, and is not used")
    sizes = [entry["size"] for entry in manifest["files"].values()]
    said = f"ok\t{directory}\t{manifest['kind']}\t{len(sizes)} files\t{sum(sizes)} bytes"
    languages = _languages_of(directory) if manifest["kind"] == "model" else []
    return f"{said}\t{len(languages)} languages: {' '.join(languages)}" if languages else said


def _languages_of(directory: Path) -> list[str]:
    """The codes of the languages that a model of several can be told to write."""
    from allyouneed.data.tokenizer import Tokenizer

    with suppress(UserError):  # of a parser, or without the software that it needs
        return [symbol[2:-2] for symbol in Tokenizer.load(directory / "source_tokenizer.json").languages]
    return []


def _published_in(directory: Path) -> Iterator[Path]:
    """The directory itself or, if it is a run, its checkpoints and states."""
    parts = [
        part for folder in ("checkpoints", "state") for part in sorted((directory / folder).glob("step-*"))
    ]
    whole = [part for part in parts if ".tmp-" not in part.name]
    if not whole or (directory / MANIFEST).exists():
        yield directory
    yield from whole
