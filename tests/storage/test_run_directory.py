import json
import os
import subprocess
import sys
from pathlib import Path
from typing import BinaryIO

import pytest

from allyouneed.errors import DiskError, LockedError, ModelError, UsageError
from allyouneed.storage import run_directory
from allyouneed.storage.publish import publish_directory
from allyouneed.storage.publish.lock import take_lock
from allyouneed.storage.run_directory import (
    FIRST_MODELS,
    RunDirectory,
    require_run,
    resolve_model,
    step_name,
    step_of,
)


def save(run: Path, *steps: int) -> RunDirectory:
    directory = RunDirectory(run)
    for step in steps:
        for path, kind in ((directory.checkpoint(step), "model"), (directory.state(step), "state")):
            with publish_directory(path, kind) as aside:
                (aside / "content").write_bytes(b"%d" % step)
    return directory


def state_steps(directory: RunDirectory) -> list[int]:
    return sorted(step_of(path.name) or 0 for path in directory.state(1).parent.iterdir())


def test_the_name_of_a_step_is_read_back_and_no_other_name_is() -> None:
    for step in (0, 7, 99_999_999, 100_000_000):
        assert step_of(step_name(step)) == step
    for name in (
        "step-7",
        "step-",
        "step-0000000x",
        "00000007",
        "step-00000007.tmp-1",
        "step-００００００07",
        "best",
    ):
        assert step_of(name) is None


def test_a_run_is_resumable_where_checkpoint_and_state_are_both_there(run: Path) -> None:
    directory = RunDirectory(run)
    assert directory.resumable_steps() == directory.checkpoint_steps() == []
    save(run, 10, 9, 100)
    (directory.state(9) / "MANIFEST.json").parent.rename(run / "elsewhere")
    assert directory.checkpoint_steps() == [9, 10, 100]
    assert directory.resumable_steps() == [10, 100]


def test_latest_and_best_are_text_files_that_name_a_checkpoint(run: Path) -> None:
    directory = RunDirectory(run)
    assert directory.marked("latest") is None
    directory.mark("latest", 12)
    directory.mark("latest", 15)
    assert (run / "latest").read_bytes() == b"step-00000015\n"
    assert directory.marked("latest") == 15


def test_pruning_keeps_the_newest_checkpoints_the_best_and_those_with_a_state(run: Path) -> None:
    directory = save(run, 1, 2, 3, 4, 5, 6)
    directory.mark("best", 2)
    directory.prune(6, keep_checkpoints=3)
    assert directory.checkpoint_steps() == [2, 4, 5, 6]
    assert state_steps(directory) == [5, 6]
    directory.prune(6, keep_checkpoints=1)
    assert directory.checkpoint_steps() == [2, 5, 6]


def test_checkpoints_off_the_schedule_do_not_push_out_those_on_it(run: Path) -> None:
    directory = save(run, 10, 13, 20, 27, 30)
    directory.prune(30, keep_checkpoints=3, every=10)
    assert directory.checkpoint_steps() == [10, 20, 27, 30]  # 27 has a state
    assert directory.scheduled_steps(10) == [10, 20, 30]
    assert directory.scheduled_steps(None) == [10, 20, 27, 30]
    assert directory.scheduled_steps(7_000) == [10, 20, 27, 30]


def test_the_last_update_of_a_run_that_ended_is_on_the_schedule(run: Path) -> None:
    directory = save(run, 10, 13, 20, 27)
    directory.write_exit(143, 27, "SIGTERM")
    assert directory.scheduled_steps(10) == [10, 20]
    directory.write_exit(0, 27, "finished")
    assert directory.scheduled_steps(10) == [10, 20, 27]
    (directory.path / "exit.json").unlink()
    os.mkfifo(directory.path / "exit.json")  # which nobody writes to
    assert directory.scheduled_steps(10) == [10, 20]
    (directory.path / "exit.json").unlink()
    directory.write_exit(0, 13, "finished")
    directory.forget_exit()
    assert directory.scheduled_steps(10) == [10, 20]


@pytest.mark.parametrize("part", ["checkpoint", "state"])
def test_pruning_deletes_nothing_where_the_new_checkpoint_is_damaged(run: Path, part: str) -> None:
    directory = save(run, 1, 2, 3, 4)
    damaged = getattr(directory, part)(4) / "content"
    damaged.write_bytes(b"5")
    with pytest.raises(ModelError, match=f"{damaged}: is damaged"):
        directory.prune(4, keep_checkpoints=1)
    assert directory.resumable_steps() == [1, 2, 3, 4]


def test_pruning_leaves_what_a_run_resumed_before_it_will_write_again(run: Path) -> None:
    directory = save(run, 1, 2, 3, 9)
    (directory.state(9) / "content").write_bytes(b"damaged")
    directory.prune(3, keep_checkpoints=1)
    assert directory.checkpoint_steps() == [2, 3, 9]
    assert state_steps(directory) == [2, 3, 9]


def test_what_cannot_be_deleted_stays_and_does_not_stop_training(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = save(run, 1, 2, 3)

    def fail(path: Path, target: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "rename", fail)
    directory.prune(3, keep_checkpoints=1)
    assert directory.resumable_steps() == [1, 2, 3]


def test_a_run_needs_room_for_three_saves_less_those_that_are_there(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("allyouneed.storage.publish.disk._free_bytes", lambda path: 250)
    for num_saved, sufficient in enumerate((83, 125, 250, 250)):
        directory = save(run, *[num_saved][:num_saved])
        assert len(directory.resumable_steps()) == num_saved
        directory.require_space(sufficient)
        with pytest.raises(DiskError, match=f"^{run}: needs "):
            directory.require_space(sufficient + 1)


def test_the_end_of_a_run_is_told_in_json(run: Path) -> None:
    directory = RunDirectory(run)
    directory.write_exit(143, 7, "SIGTERM")
    assert json.loads((run / "exit.json").read_bytes()) == {"code": 143, "step": 7, "reason": "SIGTERM"}
    directory.forget_exit()
    directory.forget_exit()
    assert not (run / "exit.json").exists()


def test_a_second_lock_is_refused_with_the_process_that_holds_the_first(run: Path) -> None:
    with RunDirectory(run).locked():
        holder = f"process {os.getpid()} on {os.uname().nodename} is training here"
        with pytest.raises(LockedError, match=holder), RunDirectory(run).locked():
            pass
    with RunDirectory(run).locked():
        pass


def test_a_directory_that_its_holder_removes_meanwhile_is_made_again(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[Path] = []

    def take(path: Path, place: Path, work: str) -> BinaryIO:
        taken.append(path)
        if len(taken) == 1:
            path.parent.rmdir()
        return take_lock(path, place, work)

    monkeypatch.setattr(run_directory, "take_lock", take)
    with RunDirectory(run / "new").locked():
        assert (run / "new" / "lock").is_file()
    assert len(taken) == 2


def test_the_lock_of_a_killed_process_is_free(run: Path) -> None:
    program = (
        "import os, pathlib, sys; from allyouneed.storage.run_directory import RunDirectory\n"
        "with RunDirectory(pathlib.Path(sys.argv[1])).locked(): os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", program, run], check=False).returncode == -9
    assert (run / "lock").read_bytes() != b""
    with RunDirectory(run).locked():
        assert (run / "lock").read_bytes().startswith(b"%d on " % os.getpid())


def test_what_a_killed_run_has_not_finished_is_removed_at_the_next_start(run: Path) -> None:
    directory = save(run, 1)
    leftovers = [
        run / "latest.tmp-77",
        directory.checkpoint(2).with_name("step-00000002.tmp-77"),
        directory.state(2).with_name("step-00000002.tmp-78"),
        directory.state(2).with_name("step-00000002.tmp-unfinished"),
        run / ("results.md.tmp-" + "0123456789abcdef" * 2),
    ]
    for leftover in (leftovers[0], leftovers.pop()):
        leftover.write_bytes(b"step-0000")
    for leftover in leftovers[1:]:
        leftover.mkdir()
        (leftover / "model.safetensors").write_bytes(b"half")
    foreign = [run / "notes" / "a.tmp-1", run / "notes.tmp-1", run / "checkpoints" / "step-00000001.tmp-mine"]
    for folder in foreign:
        folder.mkdir(parents=True)
    (run / "page.html.tmp-77").write_bytes(b"precious")
    with directory.locked():
        assert not any(leftover.exists() for leftover in leftovers)
        assert directory.resumable_steps() == [1]
        assert all(folder.exists() for folder in [*foreign, run / "page.html.tmp-77"])


def test_what_a_killed_run_was_about_to_replace_is_put_back_at_the_next_start(run: Path) -> None:
    directory = save(run, 1, 2)
    for place in (directory.checkpoint(2), directory.state(2)):
        workplace = place.with_name(f"{place.name}.tmp-unfinished")
        (workplace / "content").mkdir(parents=True)
        place.rename(workplace / "old")
    with directory.locked():
        assert directory.resumable_steps() == [1, 2]
        assert (directory.checkpoint(2) / "content").read_bytes() == b"2"
    assert [path.name for path in run.rglob("*.tmp-*")] == []


def test_a_folder_is_new_while_it_holds_nothing_but_what_an_end_before_the_beginning_leaves(
    tmp_path: Path,
) -> None:
    directory = RunDirectory(tmp_path / "run")
    assert directory.is_new()
    with directory.locked():
        (directory.path / "config.toml.tmp-77").write_bytes(b"")
    assert directory.is_new()
    require_run(directory, resume=False)
    (directory.path / FIRST_MODELS).mkdir()
    assert directory.is_new()
    require_run(directory, resume=True)
    with pytest.raises(UsageError, match="run: exists; continue with resume, or name a new folder"):
        require_run(directory, resume=False)
    directory.config.write_bytes(b"")
    assert not directory.is_new()
    assert not RunDirectory(directory.config).is_new()


def test_a_model_is_a_model_directory_or_the_latest_checkpoint_of_a_run(run: Path) -> None:
    directory = save(run, 1, 2)
    directory.mark("latest", 1)
    assert resolve_model(run) == directory.checkpoint(1)
    assert resolve_model(directory.checkpoint(2)) == directory.checkpoint(2)


def test_a_folder_without_a_checkpoint_is_no_model(run: Path) -> None:
    with pytest.raises(ModelError, match=f"{run}: is not a model: .*; name a run, a checkpoint in it"):
        resolve_model(run)
    with pytest.raises(ModelError, match="absent: no such model"):
        resolve_model(run / "absent")


@pytest.mark.parametrize(
    "latest",
    [b"", b"step-x\n", b"../../etc\n", b"step-" + b"7" * 5_000, b"step-" * 200_000, bytes(range(256))],
)
def test_a_mark_that_names_no_checkpoint_is_told(run: Path, latest: bytes) -> None:
    (run / "latest").write_bytes(latest)
    with pytest.raises(
        ModelError, match=f"{run}/latest: names no checkpoint; give one from {run}/checkpoints"
    ):
        resolve_model(run)


def test_a_folder_of_the_name_latest_names_no_checkpoint(run: Path) -> None:
    (run / "latest").mkdir()
    with pytest.raises(ModelError, match=f"{run}/latest: names no checkpoint"):
        resolve_model(run)


def test_a_checkpoint_with_a_file_of_somebody_else_is_not_pruned(run: Path) -> None:
    directory = save(run, 1, 2, 3, 4)
    (directory.checkpoint(1) / "notes.txt").write_bytes(b"precious")
    directory.prune(4, keep_checkpoints=1)
    assert directory.checkpoint_steps() == [1, 3, 4]
    assert (directory.checkpoint(1) / "content").read_bytes() == b"1"


def test_of_a_checkpoint_that_was_moved_and_linked_only_the_link_is_pruned(run: Path, tmp_path: Path) -> None:
    directory = save(run, 1, 2, 3, 4)
    moved = directory.checkpoint(1).rename(tmp_path / "moved")
    directory.checkpoint(1).symlink_to(moved)
    directory.prune(4, keep_checkpoints=1)
    assert sorted(path.name for path in (run / "checkpoints").iterdir()) == [step_name(3), step_name(4)]
    assert (moved / "content").read_bytes() == b"1"


def test_a_run_that_is_moved_or_replaced_while_its_lock_is_held_is_noticed(run: Path) -> None:
    directory = RunDirectory(run)
    directory.require_held()  # nobody has locked it
    with directory.locked():
        directory.require_held()
        run.rename(run.with_name("elsewhere"))
        with pytest.raises(DiskError, match=f"^{run}: was moved or removed while this process"):
            directory.require_held()
        with pytest.raises(DiskError, match=f"^{run}: was moved or removed while this process"):
            directory.write_exit(0, 1, "finished")
        with RunDirectory(run).locked(), pytest.raises(DiskError):
            directory.require_held()


@pytest.mark.parametrize(
    ("names", "is_run"),
    [
        (["config.toml", "lock"], True),
        (["config.toml", "log.jsonl"], True),
        (["config.toml", "checkpoints"], True),
        (["config.toml"], False),
        (["lock", "log.jsonl"], False),
        (["config.toml", "lock", "MANIFEST.json"], False),
    ],
)
def test_a_run_has_a_configuration_and_has_begun_and_a_model_is_none(
    run: Path, names: list[str], is_run: bool
) -> None:
    for name in names:
        (run / name).write_bytes(b"")
    assert RunDirectory(run).is_run() is is_run
