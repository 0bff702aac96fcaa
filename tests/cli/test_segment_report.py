"""`--report` says of each text what became of its spans, terms and tags; a loss gives the exit code 9."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import RunCommand

from allyouneed.cli.segment_report import SegmentReport
from allyouneed.errors import SOME_FAILED_EXIT_CODE
from allyouneed.tasks.translation.outputs import KeptPart, Translation


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_a_lost_term_makes_the_exit_code_that_of_failed_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = [KeptPart("{x}", "span", "inserted"), KeptPart("moon", "term", "suggested")]
    with SegmentReport.appended_to(tmp_path / "report", []) as report:
        report.record("sun {x} moon", Translation("Sonne {x}", -1.0, kept=parts), 1)
        assert report.exit_code() == 0
        report.record("moon", Translation("x", -1.0, kept=[KeptPart("moon", "term", "lost")]), 2)
        assert report.exit_code() == SOME_FAILED_EXIT_CODE
    assert "1 term was lost" in capsys.readouterr().err
    first, second = read(tmp_path / "report")
    assert first["kept"] == [
        {"text": "{x}", "kind": "span", "fate": "inserted"},
        {"text": "moon", "kind": "term", "fate": "suggested"},
    ]
    assert (second["line"], second["source"], second["target"]) == (2, "moon", "x")


def test_a_line_is_reported_with_its_spans_and_terms(
    run_command: RunCommand, toy_model: Path, tmp_path: Path
) -> None:
    (tmp_path / "terms").write_bytes(b"moon\tZebra\n")
    options = "--keep", "--glossary", tmp_path / "terms", "--report", tmp_path / "report"
    code, out, _ = run_command("translate", toy_model, *options, stdin=b"sun {x} moon\n\xff\nbird\n")
    assert code == SOME_FAILED_EXIT_CODE
    first, last = read(tmp_path / "report")
    assert [first["line"], last["line"]] == [1, 3]
    assert (first["source"], first["target"]) == ("sun {x} moon", out.decode().split("\n")[0])
    assert [(part["text"], part["kind"]) for part in first["kept"]] == [("{x}", "span"), ("moon", "term")]
    assert {part["fate"] for part in first["kept"]} <= {"kept", "repaired", "inserted"}
    assert last["kept"] == []
    run_command("translate", toy_model, *options, stdin=b"bird\n")
    assert len(read(tmp_path / "report")) == 3


def test_tags_that_were_moved_or_are_empty_now_are_named(
    run_command: RunCommand, toy_model: Path, tmp_path: Path
) -> None:
    options = "--markup", "html", "--report", tmp_path / "report"
    page = b"<p>sun <b>moon</b> <i>bird</i> <u>wolf bear</u></p><p>fish</p>"
    code, out, _ = run_command("translate", toy_model, *options, stdin=page)
    assert code == 0
    first, second = read(tmp_path / "report")
    assert "tags" not in second
    tags = first["tags"]
    assert tags["num"] == 3
    written = out.decode()
    places = {tag: written.index(tag) for tag in ("<b>", "<i>", "<u>")}
    by_place = sorted(places, key=lambda tag: places[tag])
    assert tags["moved"] == [tag for tag, other in zip(places, by_place, strict=True) if tag != other]
    empty = [tag for tag in places if f"{tag}</{tag[1:]}" in written]
    assert sorted(tags["emptied"]) == empty


def test_no_other_file_is_the_report(run_command: RunCommand, toy_model: Path, tmp_path: Path) -> None:
    (tmp_path / "in.json").write_bytes(content := b'{"a": "sun"}')
    (tmp_path / "terms").write_bytes(b"moon\tZebra\n")
    files = tmp_path / "in.json", tmp_path / "out.json"
    for words, same in [
        (["--resume-output", tmp_path / "out"], "out"),
        (["--glossary", tmp_path / "terms"], "terms"),
        (files, "in.json"),
        (files, "out.json"),
    ]:
        code, _, err = run_command(
            "translate", toy_model, *words, "--report", tmp_path / same, stdin=b"sun\n"
        )
        assert (code, err.count("\n")) == (2, 1)
        assert f"--report: {tmp_path / same} is read or written as another file" in err
    assert (tmp_path / "in.json").read_bytes() == content
    assert {each.name for each in tmp_path.iterdir()} == {"in.json", "terms"}


def test_the_texts_of_a_file_are_reported(run_command: RunCommand, toy_model: Path, tmp_path: Path) -> None:
    (tmp_path / "in.json").write_bytes(b'{"a": "sun {x}", "b": "moon"}')
    code, _, _ = run_command(
        "translate", toy_model, tmp_path / "in.json", tmp_path / "out.json", "--report", tmp_path / "report"
    )
    assert code == 0
    assert sorted(str(each["source"]) for each in read(tmp_path / "report")) == ["moon", "sun {x}"]


def test_a_report_that_cannot_be_written_is_one_line(
    run_command: RunCommand, toy_model: Path, tmp_path: Path
) -> None:
    code, _, err = run_command(
        "translate", toy_model, "--report", tmp_path / "absent" / "report", stdin=b"sun\n"
    )
    assert code != 0
    assert err.count("\n") == 1
    assert "absent" in err
