"""`student` is one command, also after a kill; it shows a plan, a table, and one line for what is wrong."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.runs.test_student import STEPS

from allyouneed import PreparedData, evaluate, load_translator
from allyouneed.native.library import available
from allyouneed.runs import budgeting

RunCommand = Callable[..., tuple[int, bytes, str]]


@pytest.fixture
def student(
    run_command: RunCommand, tmp_path: Path, toy_run: Path, toy_data: Path, monkeypatch: pytest.MonkeyPatch
) -> RunCommand:
    """`allyouneed student` of a few updates, with the toy run as its teacher."""
    monkeypatch.setattr(budgeting, "_MEASURED_SHARE", 1e-9)
    given = toy_run, "--data", toy_data, "--out", tmp_path / "small", "--shape", "micro", "--set", *STEPS
    return lambda *options: run_command("student", *given, *options)


def test_the_student_is_made_and_measured_beside_its_teacher(
    student: RunCommand, tmp_path: Path, toy_run: Path, toy_data: Path, run_command: RunCommand
) -> None:
    code, out, err = student()
    assert code == 0
    lines = out.decode().splitlines()
    assert lines[0].split() == ["model", "bleu_13a", "chrf", "weights", "sentences/s", "alone"]
    assert [line.split()[0] for line in lines[1:3]] == ["teacher", "student"]
    assert lines[3].endswith("% of the translations are the same")
    assert "400 of 400 lines of " in err
    assert f"translate with `allyouneed translate {tmp_path}/small --precision int8`" in err
    report = json.loads((tmp_path / "small.stages" / "report.json").read_bytes())
    assert report["student"]["bytes"] < report["teacher"]["bytes"]
    valid = PreparedData(toy_data)
    texts = valid.lines("valid", "source"), valid.lines("valid", "target")
    for name, model in (("teacher", toy_run), ("student", tmp_path / "small")):
        scores = evaluate(load_translator(model, precision="int8" if available() else "float32"), *texts)
        found = {each.name: each.value for each in scores}
        assert {metric: each["score"] for metric, each in report[name]["scores"].items()} == {
            metric: pytest.approx(found[metric]) for metric in ("bleu_13a", "chrf")
        }
    assert run_command("verify", tmp_path / "small")[0] == 0
    again = student()
    assert again[0] == 0
    assert again[1].splitlines()[0] == out.splitlines()[0]


def test_the_models_are_measured_on_given_text(student: RunCommand, tmp_path: Path) -> None:
    (tmp_path / "test.en").write_bytes(b"10:30\n---\n")  # which no model changes
    (tmp_path / "test.toy").write_bytes(b"10:30\n---\n")
    code, out, _ = student("--test-source", tmp_path / "test.en", "--test-reference", tmp_path / "test.toy")
    assert code == 0
    assert out.decode().splitlines()[3] == "100.0% of the translations are the same"


def test_a_dry_run_prints_the_steps_and_writes_nothing(student: RunCommand, tmp_path: Path) -> None:
    code, out, _ = student("--dry-run", "--budget", "1h")
    assert code == 0
    rows = [line.split() for line in out.decode().splitlines()]
    assert [row[0] for row in rows] == ["step", "translations", "data", "run", "model"]
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (["--budget", "soon"], "'soon' is no time; write 90s, 60m, 8h, 2d or 1w"),
        (["--budget", "10s"], "--budget: give 40 seconds or more"),
        (["--for", "marian"], "reads SentencePiece's sub-words, and "),
        (["--test-source", "x"], "give both --test-source and --test-reference, or neither"),
        (["--monolingual", "none.en"], "none.en: no such file; check the path"),
        (["--test-source", "/dev/null", "--test-reference", "/dev/null"], "/dev/null: is empty; give one"),
        (["--set", "model.d_modl=3"], "d_modl"),
    ],
)
def test_what_is_wrong_is_one_line(
    student: RunCommand, tmp_path: Path, options: list[str], fault: str
) -> None:
    code, out, err = student(*options)
    assert code in (2, 3)
    assert (out, err.count("\n")) == (b"", 1)
    assert fault in err
    assert not any(tmp_path.iterdir())


def test_a_teacher_is_needed(run_command: RunCommand, tmp_path: Path, toy_data: Path) -> None:
    code, _, err = run_command("student", "--data", toy_data, "--out", tmp_path / "small")
    assert code == 2
    assert "teachers: name one or more" in err
