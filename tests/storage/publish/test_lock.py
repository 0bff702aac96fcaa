"""Locks are refused while another process holds them, and by nobody who only looks at them."""

import fcntl
import os
from pathlib import Path

import pytest

from allyouneed.errors import LockedError
from allyouneed.storage.publish import require_unlocked, sign, take_lock


def test_a_lock_that_is_held_is_refused_to_who_takes_it_and_to_who_looks(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with take_lock(path, tmp_path, "training here") as lock:
        sign(lock)
        for refused in (take_lock, require_unlocked):
            with pytest.raises(LockedError, match=f"^{tmp_path}: process {os.getpid()} on .* is training"):
                refused(path, tmp_path, "training here")
    require_unlocked(path, tmp_path, "training here")


def test_who_only_looks_at_a_lock_does_not_keep_another_from_taking_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lock"
    path.touch()
    with path.open("rb") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        monkeypatch.setattr("allyouneed.storage.publish.lock.time.sleep", lambda seconds: looking.close())
        take_lock(path, tmp_path, "training here").close()
