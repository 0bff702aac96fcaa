"""`translate --document` writes a line for each line, and says how many documents it had to repair."""

from collections.abc import Callable
from pathlib import Path

import pytest

RunCommand = Callable[..., tuple[int, bytes, str]]
TEXT = b"sun moon\nstar\n\ntree\nriver stone\nbird\nfish\n\xff\nwolf\n"


def test_a_model_that_knows_no_documents_translates_their_lines(
    run_command: RunCommand, toy_model: Path
) -> None:
    _, alone, _ = run_command("translate", toy_model, stdin=TEXT)
    code, out, err = run_command("translate", toy_model, "--document", 3, stdin=TEXT)
    assert code == 9, "one line is not UTF-8"
    assert out == alone
    assert err.split("\n")[-2] == (
        "allyouneed: standard input: 2 of 2 documents came back with another number of lines, or cut, and "
        "were translated line by line"
    )


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (["--n-best", 2], "--n-best: is for single lines, not for --document; leave it out"),
        (["--resume-output", "out"], "--resume-output: is for single lines, not for --document"),
        (["--keep"], "--document: cannot be used with --keep, --glossary, --memory or --engine ray"),
        (["--markup", "html"], "--document: is for lines, not for a file or --markup; leave it out"),
    ],
)
def test_an_option_of_single_lines_is_refused(
    options: list[str], fault: str, run_command: RunCommand, toy_model: Path
) -> None:
    code, out, err = run_command("translate", toy_model, "--document", 3, *options, stdin=TEXT)
    assert (code, out) == (2, b"")
    assert fault in err
