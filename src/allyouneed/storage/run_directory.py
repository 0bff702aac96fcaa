"""A run on disk: checkpoints, training states, the `latest` and `best` marks, and the lock."""

import contextlib
import json
import os
import re
import shutil
from collections.abc import Collection, Iterator
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from allyouneed.errors import DiskError, ModelError, UsageError, UserError
from allyouneed.storage.publish import (
    MANIFEST,
    discard,
    disk_errors,
    read_manifest,
    read_published,
    require_space,
    sign,
    write_text,
)
from allyouneed.storage.publish.directory import is_leftover, put_back, remove_directory
from allyouneed.storage.publish.disk import require_local
from allyouneed.storage.publish.lock import require_unlocked, same_file, take_lock
from allyouneed.storage.remote import local_copy

KEPT_STATES = 2
_STEP = "step-"
_MAX_NAME_BYTES = 64
_LOCK = "lock"
_WORK = "training here"
FIRST_MODELS = "monolingual"
"""Folder of a run for the models that it trains first, and their translations."""
_WRITTEN = re.compile(r"latest|best|config\.toml|exit\.json|test\.json|\w+\.png")
"""Names of the files that a run replaces repeatedly."""


class RunDirectory:
    """The directory of a run; see "Files of a run" in docs/files.md for its layout."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.toml"
        self.log = path / "log.jsonl"
        self._exit = path / "exit.json"
        self._lock: BinaryIO | None = None

    def checkpoint(self, step: int) -> Path:
        """Path of the checkpoint of `step`."""
        return self.path / "checkpoints" / step_name(step)

    def state(self, step: int) -> Path:
        """Path of the training state of `step`."""
        return self.path / "state" / step_name(step)

    def checkpoint_steps(self) -> list[int]:
        """Steps of the existing checkpoints, ascending."""
        return _steps(self.path / "checkpoints")

    def scheduled_steps(self, every: int | None) -> list[int]:
        """Steps of the checkpoints that `average` may use, ascending.

        These are the multiples of `every` and the last update of a run that has ended; if none of these
        exists, all checkpoints. Checkpoints saved for the best validation or at an interruption do not count
        as scheduled, nor does step 0, the model that a run continues.
        """
        steps, last = self.checkpoint_steps(), self.end()
        made = [step for step in steps if step > 0]
        return [s for s in made if every is None or s % every == 0 or s == last] or made or steps

    def end(self) -> int | None:
        """The last step of a run that has ended; None if it has not, or was stopped."""
        try:
            ended = json.loads(read_published(self._exit))
            return int(ended["step"]) if ended["code"] == 0 else None
        except (UserError, ValueError, TypeError, KeyError):
            return None

    def resumable_steps(self) -> list[int]:
        """Steps that have both a checkpoint and a training state, ascending."""
        return sorted(set(self.checkpoint_steps()) & set(_steps(self.path / "state")))

    def require_space(self, save_bytes: int) -> None:
        """Raise DiskError if the disk lacks room for the saves that are kept plus the one being written."""
        missing = KEPT_STATES + 1 - len(self.resumable_steps())
        require_space(self.path, max(1, missing) * save_bytes)

    def mark(self, name: str, step: int) -> None:
        """Write the name of the checkpoint of `step` into the text file `name`: `latest` or `best`."""
        write_text(self.path / name, f"{step_name(step)}\n")

    def marked(self, name: str) -> int | None:
        """The step named in the file `latest` or `best`; None if there is none."""
        path = self.path / name
        if not path.is_file():
            return None
        with disk_errors(path), path.open("rb") as file:
            return step_of(file.read(_MAX_NAME_BYTES).decode(errors="replace").strip())

    def prune(self, step: int, keep_checkpoints: int, every: int | None = None) -> None:
        """Delete all but the newest scheduled checkpoints and the newest states.

        The checkpoint and state of `step` are read back and checked first. The best checkpoint is kept, and
        so is every checkpoint that a kept state belongs to. Everything of steps after `step` is kept, too: it
        may be damaged, and a run resumed from an earlier step cannot tell until it reaches that step again.

        Raises:
            ModelError: The checkpoint or state of `step` is damaged; nothing is deleted.
        """
        read_manifest(self.checkpoint(step), "model")
        read_manifest(self.state(step), "state")
        checkpoints = [saved for saved in self.checkpoint_steps() if saved <= step]
        states = [saved for saved in _steps(self.path / "state") if saved <= step]
        scheduled = [saved for saved in self.scheduled_steps(every) if saved <= step]
        kept = {step, *scheduled[-keep_checkpoints:], *states[-KEPT_STATES:], self.marked("best")}
        superseded = [(self.state(old), "state") for old in states[:-KEPT_STATES]]
        superseded += [(self.checkpoint(old), "model") for old in checkpoints if old not in kept]
        for directory, kind in superseded:
            with contextlib.suppress(DiskError, UsageError):  # a leftover checkpoint is no reason to stop
                remove_directory(directory, kind)

    def write_exit(self, code: int, step: int, reason: str) -> None:
        """Record in `exit.json` how the run ended; raises DiskError if the run has been moved or removed."""
        self.require_held()
        write_text(self._exit, json.dumps({"code": code, "step": step, "reason": reason}) + "\n")

    def forget_exit(self) -> None:
        """Remove `exit.json`, so that a run that is killed later has none."""
        with disk_errors(self._exit):
            self._exit.unlink(missing_ok=True)

    def is_new(self) -> bool:
        """Whether the directory holds only first models, or the leftovers of a run that failed to start."""
        with disk_errors(self.path):
            place = Path(os.path.realpath(self.path))  # new/.. exists once new has been made
            if not place.is_dir():
                return not place.exists()
            kept = _LOCK, FIRST_MODELS
            return all(path.name in kept or _is_unfinished(path) for path in place.iterdir())

    def is_run(self) -> bool:
        """Whether a run has begun here; a configuration alone does not tell, because models have one too."""
        begun = (self.path / _LOCK, self.log, self.path / "checkpoints")
        is_model = (self.path / MANIFEST).exists()
        return self.config.is_file() and not is_model and any(path.exists() for path in begun)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the run's lock, which the system releases when the process ends, even if it is killed.

        A directory that this method created is removed again if nothing was written into it.

        Raises:
            LockedError: Another process holds the lock.
            UsageError: The directory is a URL.
        """
        require_local(self.path)
        with disk_errors(self.path):
            lock, is_made_here = self._take_lock()
        with lock:
            with disk_errors(self.path):
                sign(lock, str(os.getppid()))
                # What a killed run left half-written goes, and what it was about to replace is restored.
                for path in chain.from_iterable(map(self.path.glob, ("*", "checkpoints/*", "state/*"))):
                    if _is_unfinished(path):
                        put_back(path, path.with_suffix(""))
                        shutil.rmtree(path) if path.is_dir() else path.unlink()
            self._lock = lock
            try:
                yield
            finally:
                self._lock = None
                if is_made_here and [path.name for path in self.path.glob("*")] == [_LOCK]:
                    with contextlib.suppress(OSError):
                        (self.path / _LOCK).unlink()
                        self.path.rmdir()

    def _take_lock(self, attempts: int = 10) -> tuple[BinaryIO, bool]:
        """Take the lock, which its holder may remove meanwhile; also whether the directory is new."""
        try:
            is_new = not self.path.exists()
            self.path.mkdir(parents=True, exist_ok=True)
            return take_lock(self.path / _LOCK, self.path, _WORK), is_new
        except FileNotFoundError:
            if attempts == 1:
                raise
            return self._take_lock(attempts - 1)

    def require_held(self) -> None:
        """Raise DiskError if the directory, locked by this process, has been moved or removed since."""
        if self._lock is not None and not same_file(self._lock, self.path / _LOCK):
            raise DiskError(
                f"{self.path}: was moved or removed while this process was training here; nothing more is "
                "written; if it was moved, continue at its new path with resume",
                settings=["resume"],
            )

    def clear(self, keep: Collection[str] = ()) -> None:
        """Delete everything except the lock, which the caller holds, and the names in `keep`."""
        with disk_errors(self.path):
            for path in self.path.iterdir():
                if path.name != _LOCK and path.name not in keep:
                    discard(path) if path.is_dir() else path.unlink()

    def require_unlocked(self) -> None:
        """Raise LockedError if another process is training in this run, without locking it."""
        with disk_errors(self.path):
            require_unlocked(self.path / _LOCK, self.path, _WORK)

    def is_of_launcher(self) -> bool:
        """Whether the process that last trained here has the same parent as this process."""
        lock = self.path / _LOCK
        return lock.is_file() and lock.read_bytes().split(b"\n")[1:2] == [str(os.getppid()).encode()]


def require_run(directory: RunDirectory, resume: bool) -> None:
    """Reject an existing run, unless it is to be resumed, and any folder that is not a run."""
    if directory.is_new():
        if resume or not (directory.path / FIRST_MODELS).exists():
            return
    elif not directory.is_run():
        raise UsageError(f"{directory.path}: exists and is no run; name a new folder")
    if not resume:
        raise UsageError(
            f"{directory.path}: exists; continue with resume, or name a new folder", settings=["resume"]
        )


def _is_unfinished(path: Path) -> bool:
    """Whether a killed run left this behind; steps are directories, everything else is a file."""
    if path.is_dir():
        return is_leftover(path, lambda name: step_of(name) is not None)
    return is_leftover(path, lambda name: _WRITTEN.fullmatch(name) is not None)


def step_name(step: int) -> str:
    """The folder name of a step."""
    return f"{_STEP}{step:08d}"


def step_of(name: str) -> int | None:
    """The step that a folder name stands for; None for any other name."""
    found = re.fullmatch(rf"{_STEP}([0-9]{{8,18}})", name)
    return int(found[1]) if found and name == step_name(int(found[1])) else None


def resolve_model(path: Path) -> Path:
    """The model directory that MODEL refers to: `path`, or the latest checkpoint of the run at `path`.

    Of a URL, this is a local copy. Raises ModelError if there is no model.
    """
    path = local_copy(path)
    if (path / MANIFEST).is_file():
        return path
    if not path.exists():
        raise ModelError(f"{path}: no such model; name a run, a checkpoint in it, or a model directory")
    if path.is_file():
        raise ModelError(f"{path}: is not a model but a file; name a folder, and give text as standard input")
    run = RunDirectory(path)
    latest = run.marked("latest") if path.is_dir() else None
    if latest is None and (path / "latest").exists():
        raise ModelError(
            f"{path / 'latest'}: names no checkpoint; give one from {path / 'checkpoints'} instead"
        )
    if latest is None:
        raise ModelError(
            f"{path}: is not a model: it has neither a {MANIFEST} nor a finished checkpoint; "
            "name a run, a checkpoint in it, or a model directory"
        )
    return run.checkpoint(latest)


def _steps(folder: Path) -> list[int]:
    if not folder.is_dir():
        return []
    return sorted(step for path in folder.iterdir() if (step := step_of(path.name)) is not None)
