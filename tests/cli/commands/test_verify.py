"""`verify` says `ok` of what is whole, and names every file that is not."""

from pathlib import Path
from typing import Any

import pytest

from allyouneed.cli.program import main
from allyouneed.errors import DiskError
from allyouneed.storage.publish import publish_directory, read_manifest

OF_MODEL = ("config.toml", "model.safetensors", "source_tokenizer.json", "target_tokenizer.json")
OF_STATE = ("state.json", "state.safetensors")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    for folder, kind, names in (("checkpoints", "model", OF_MODEL), ("state", "state", OF_STATE)):
        for step in (1, 2):
            with publish_directory(tmp_path / "run" / folder / f"step-{step}", kind) as published:
                for name in names:
                    (published / name).write_bytes(b"12345")
    return tmp_path / "run"


def test_each_whole_directory_of_a_run_is_told_with_its_files_and_bytes(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run / "checkpoints" / "step-3.tmp-123").mkdir()
    assert main(["verify", str(run)]) == 0
    assert capsys.readouterr().out.split("\n") == [
        f"ok\t{run}/checkpoints/step-1\tmodel\t4 files\t20 bytes",
        f"ok\t{run}/checkpoints/step-2\tmodel\t4 files\t20 bytes",
        f"ok\t{run}/state/step-1\tstate\t2 files\t10 bytes",
        f"ok\t{run}/state/step-2\tstate\t2 files\t10 bytes",
        "",
    ]


def test_every_fault_is_named_and_what_is_whole_is_still_told(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run / "checkpoints" / "step-1" / "config.toml").write_bytes(b"12344")
    (run / "state" / "step-2" / "MANIFEST.json").unlink()
    assert main(["verify", str(run)]) == 4
    out, err = capsys.readouterr()
    assert out.count("ok\t") == 2
    assert f"error[E-MODEL]: {run}/checkpoints/step-1/config.toml: is damaged" in err
    assert f"error[E-MODEL]: {run}/state/step-2: has no MANIFEST.json" in err


def test_a_file_that_cannot_be_read_hides_no_other_fault(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (run / "checkpoints" / "step-1" / "config.toml").write_bytes(b"12344")

    def read(directory: Path) -> dict[str, Any]:
        if directory.name == "step-2" and directory.parent.name == "checkpoints":
            raise DiskError(f"{directory}: Input/output error")
        return read_manifest(directory)

    monkeypatch.setattr("allyouneed.cli.commands.verify.read_manifest", read)
    assert main(["verify", str(run)]) == 4
    out, err = capsys.readouterr()
    assert out.count("ok\t") == 2
    assert "step-1/config.toml: is damaged" in err
    assert "step-2: Input/output error" in err


def test_several_directories_can_be_given(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps = [str(run / "checkpoints" / f"step-{step}") for step in (1, 2)]
    assert main(["verify", *steps]) == 0
    assert capsys.readouterr().out.count("ok\t") == 2


def test_a_file_beside_the_manifest_is_noticed(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = run / "checkpoints" / "step-1"
    (directory / "stray").write_bytes(b"")
    assert main(["verify", str(directory)]) == 0
    assert (
        capsys.readouterr().err == f"allyouneed: {directory}/stray: is not in the manifest, and is not used\n"
    )


def test_what_was_never_published_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(tmp_path)]) == 4
    assert main(["verify", str(tmp_path / "absent")]) == 4
    assert "absent: no such directory" in capsys.readouterr().err


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_run_with_a_manifest_of_its_own_is_told_first_and_is_a_fault(
    run: Path, capsys: pytest.CaptureFixture[str], is_whole: bool
) -> None:
    with publish_directory(run.parent / "model", "model") as model:
        for name in OF_MODEL:
            (model / name).write_bytes(b"")
    for name in ("MANIFEST.json", *OF_MODEL):
        (run.parent / "model" / name).rename(run / name)
    if not is_whole:
        (run / "config.toml").write_bytes(b"changed")
    assert main(["verify", str(run)]) == 4
    out, err = capsys.readouterr()
    assert out.startswith(f"ok\t{run}\tmodel\t4 files") is is_whole
    assert out.count("ok\t") == 4 + is_whole
    assert f"error[E-MODEL]: {run}: is a run, but has a MANIFEST.json of its own" in err
    assert (f"{run}/config.toml: has 7 bytes, 0 expected" in err) is not is_whole
