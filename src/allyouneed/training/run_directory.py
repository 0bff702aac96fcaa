"""A run on disk: its checkpoints, its states, which is the latest and which the best, and who may write."""

import contextlib
import fcntl
import json
import os
import shutil
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import BinaryIO

from allyouneed.errors import DiskError, LockedError, ModelError
from allyouneed.publish import (
    MANIFEST,
    disk_errors,
    read_manifest,
    remove_directory,
    require_space,
    write_text,
)

KEPT_STATES = 2
_STEP = "step-"
_LOCK = "lock"
_UNFINISHED = ".tmp-"
_SECONDS_TO_SIGN = 0.2


class RunDirectory:
    """The layout of RUN; see "Files of a run" in docs/files.md."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.toml"
        self.log = path / "log.jsonl"
        self._exit = path / "exit.json"

    def checkpoint(self, step: int) -> Path:
        """Where the model of `step` is."""
        return self.path / "checkpoints" / step_name(step)

    def state(self, step: int) -> Path:
        """Where the training state of `step` is."""
        return self.path / "state" / step_name(step)

    def checkpoint_steps(self) -> list[int]:
        """Steps of the checkpoints that are there, ascending."""
        return _steps(self.path / "checkpoints")

    def scheduled_steps(self, every: int | None) -> list[int]:
        """Steps of the checkpoints that every run of these settings makes, ascending; all, where none is.

        A run that is stopped makes one more, and so does one that finds its best between two of them.

        Args:
            every: `training.checkpoint_every_steps`.
        """
        steps = self.checkpoint_steps()
        return [step for step in steps if every is None or step % every == 0] or steps

    def resumable_steps(self) -> list[int]:
        """Steps whose checkpoint and state are both there, ascending."""
        return sorted(set(self.checkpoint_steps()) & set(_steps(self.path / "state")))

    def require_space(self, save_bytes: int) -> None:
        """Refuse to train where the disk has no room for the states that are kept and one that is written.

        Args:
            save_bytes: Of a checkpoint and its state together.

        Raises:
            DiskError: There is too little room.
        """
        missing = KEPT_STATES + 1 - len(self.resumable_steps())
        require_space(self.path, max(1, missing) * save_bytes)

    def mark(self, name: str, step: int) -> None:
        """Let the text file `latest` or `best` name the checkpoint of `step`."""
        write_text(self.path / name, f"{step_name(step)}\n")

    def marked(self, name: str) -> int | None:
        """The step that `latest` or `best` names."""
        path = self.path / name
        return step_of(path.read_bytes().decode(errors="replace").strip()) if path.is_file() else None

    def prune(self, step: int, keep_checkpoints: int, every: int | None = None) -> None:
        """Delete all but the newest scheduled checkpoints and the newest states.

        Those of `step` are read back and checked first. The best checkpoint stays, every one that a state
        belongs to, and whatever is of a later step: of that, damaged as it may be, a run resumed before it
        knows nothing until it has come there again.

        Raises:
            ModelError: What was written of `step` is damaged; nothing is deleted.
        """
        read_manifest(self.checkpoint(step), "model")
        read_manifest(self.state(step), "state")
        checkpoints = [saved for saved in self.checkpoint_steps() if saved <= step]
        states = [saved for saved in _steps(self.path / "state") if saved <= step]
        scheduled = [saved for saved in self.scheduled_steps(every) if saved <= step]
        kept = {step, *scheduled[-keep_checkpoints:], *states[-KEPT_STATES:], self.marked("best")}
        superseded = [self.state(old) for old in states[:-KEPT_STATES]]
        superseded += [self.checkpoint(old) for old in checkpoints if old not in kept]
        for directory in superseded:
            with contextlib.suppress(DiskError):  # one too many is no reason to stop
                remove_directory(directory)

    def write_exit(self, code: int, step: int, reason: str) -> None:
        """Say in `exit.json` how the run ended."""
        write_text(self._exit, json.dumps({"code": code, "step": step, "reason": reason}) + "\n")

    def forget_exit(self) -> None:
        """Remove `exit.json`: a run that is killed has none."""
        with disk_errors(self._exit):
            self._exit.unlink(missing_ok=True)

    def is_new(self) -> bool:
        """Whether nothing is there but what a run leaves that ended before it began."""
        if not self.path.is_dir():
            return not self.path.exists()
        with disk_errors(self.path):
            return all(path.name == _LOCK or _UNFINISHED in path.name for path in self.path.iterdir())

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the run's lock, which the system gives back when the process ends, however it ends.

        Raises:
            LockedError: Another process holds it.
        """
        with disk_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            lock = (self.path / _LOCK).open("a+b", buffering=0)
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise self._in_use(lock) from None
            with disk_errors(self.path):
                lock.truncate(0)
                lock.write(f"{os.getpid()} on {os.uname().nodename}\n{os.getppid()}\n".encode())
                self._remove_unfinished()
            yield

    def clear(self, keep: Collection[str] = ()) -> None:
        """Take away all but the lock, which the caller holds, and what is to be kept, by its name."""
        with disk_errors(self.path):
            for path in self.path.iterdir():
                if path.name != _LOCK and path.name not in keep:
                    remove_directory(path) if path.is_dir() else path.unlink()

    def require_unlocked(self) -> None:
        """Refuse a run in which another process trains, without locking it.

        Raises:
            LockedError: There is one.
        """
        if not (self.path / _LOCK).is_file():
            return
        with disk_errors(self.path), (self.path / _LOCK).open("rb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                raise self._in_use(lock) from None

    def _in_use(self, lock: BinaryIO) -> LockedError:
        """What to tell of a lock that another process holds."""
        time.sleep(_SECONDS_TO_SIGN)  # it may have taken it just now
        lock.seek(0)
        holder = lock.readline().decode(errors="replace").strip() or "unknown"
        return LockedError(
            f"{self.path}: process {holder} is training here; wait for it, or name another folder"
        )

    def is_of_launcher(self) -> bool:
        """Whether the last to train here was started by the process that has started this one."""
        lock = self.path / _LOCK
        return lock.is_file() and lock.read_bytes().split(b"\n")[1:2] == [str(os.getppid()).encode()]

    def _remove_unfinished(self) -> None:
        """Remove what a killed run had begun to write; nothing of it was ever published."""
        for folder in (".", "checkpoints", "state"):
            for path in self.path.glob(f"{folder}/*{_UNFINISHED}*"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def step_name(step: int) -> str:
    """The folder's name of a step."""
    return f"{_STEP}{step:08d}"


def step_of(name: str) -> int | None:
    """The step that a folder's name stands for; None for any other name."""
    digits = name.removeprefix(_STEP)
    return int(digits) if digits.isdecimal() and name == step_name(int(digits)) else None


def resolve_model(path: Path) -> Path:
    """The model directory that MODEL means: `path` itself, or the latest checkpoint of the run at `path`.

    Raises:
        ModelError: There is none.
    """
    if (path / MANIFEST).is_file():
        return path
    if not path.exists():
        raise ModelError(f"{path}: no such model; name a run, a checkpoint in it, or a model directory")
    run = RunDirectory(path)
    latest = run.marked("latest") if path.is_dir() else None
    if latest is None:
        raise ModelError(f"{path}: is no model: it has neither a {MANIFEST} nor a finished checkpoint")
    return run.checkpoint(latest)


def _steps(folder: Path) -> list[int]:
    if not folder.is_dir():
        return []
    return sorted(step for path in folder.iterdir() if (step := step_of(path.name)) is not None)
