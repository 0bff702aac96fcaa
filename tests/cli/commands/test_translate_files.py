"""`translate MODEL IN OUT`: a file is translated into another."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

RunCommand = Callable[..., tuple[int, bytes, str]]


def test_the_command_translates_a_file(run_command: RunCommand, toy_model: Path, tmp_path: Path) -> None:
    page, subtitles = tmp_path / "a.md", tmp_path / "a.srt"
    page.write_bytes(b"# sun\n\nbird **sees** fish {x}\n")
    code, out, err = run_command("translate", toy_model, page, tmp_path / "b.md", "--keep")
    assert (code, out) == (0, b"")
    assert re.search(r"b\.md: written; different texts: 2", err)
    assert (tmp_path / "b.md").read_bytes().count(b"**") == 2
    assert (tmp_path / "b.md").read_bytes().count(b"{x}") == 1
    subtitles.write_bytes(b"1\n00:00:01,000 --> 00:00:02,000\nsun\n")
    assert run_command("translate", toy_model, subtitles, tmp_path / "b.srt")[0] == 0
    assert b"00:00:01,000 --> 00:00:02,000\n" in (tmp_path / "b.srt").read_bytes()


@pytest.mark.parametrize(
    ("files", "options", "message"),
    [
        (["a.md"], [], "a.md: name a model first, then the file to translate and the one to write"),
        (["a.md", "b.md"], ["--scores"], "--scores: is for lines, not for a file or --markup; leave it out"),
        (["a.md", "b.md"], ["--markup", "html"], "--markup: the ending of a file tells its format"),
        (["a.md", "b.docx"], [], "b.docx: is not of the format of a.md"),
        (["a.md", "b"], [], "b: is not of the format of a.md"),
        (["a.doc", "b.doc"], [], "files of .doc are not translated"),
    ],
)
def test_wrong_commands_are_refused(
    run_command: RunCommand,
    toy_model: Path,
    tmp_path: Path,
    files: list[str],
    options: list[str],
    message: str,
) -> None:
    for name in ("a.md", "a.doc"):
        (tmp_path / name).write_bytes(b"sun\n")
    code, out, err = run_command("translate", toy_model, *(tmp_path / each for each in files), *options)
    assert (code, out) == (2, b"")
    assert message in err
