"""Locks are refused while another process holds them, and by nobody who only looks at them."""

import fcntl
import os
from pathlib import Path

import pytest

from allyouneed.errors import LockedError
from allyouneed.storage.publish import sign
from allyouneed.storage.publish.lock import lock_holder, require_unlocked, take_lock


def test_a_lock_that_is_held_is_refused_to_who_takes_it_and_to_who_looks(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with take_lock(path, tmp_path, "training here") as lock:
        sign(lock)
        for refused in (take_lock, require_unlocked):
            with pytest.raises(LockedError, match=f"^{tmp_path}: process {os.getpid()} on .* is training"):
                refused(path, tmp_path, "training here")
    require_unlocked(path, tmp_path, "training here")


def test_a_new_signature_takes_the_place_of_a_longer_one(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.write_bytes(b"123456789 on a host with a long name\nand more\n")
    with take_lock(path, tmp_path, "working") as lock:
        sign(lock)
        assert lock_holder(lock) == f"{os.getpid()} on {os.uname().nodename}"
    assert path.read_bytes() == f"{os.getpid()} on {os.uname().nodename}\n\n".encode()


def test_who_only_looks_at_a_lock_does_not_keep_another_from_taking_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lock"
    path.touch()
    with path.open("rb") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        monkeypatch.setattr("allyouneed.storage.publish.lock.time.sleep", lambda seconds: looking.close())
        take_lock(path, tmp_path, "training here").close()
