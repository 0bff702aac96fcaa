"""`translate` keeps spans and terms, and names what is wrong with their files."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

RunCommand = Callable[..., tuple[int, bytes, str]]


def test_spans_are_kept_and_no_notice_says_that_they_may_be_lost(translate: RunCommand) -> None:
    code, out, err = translate(b"moon {name} sun\nsee https://a.example now\n{a}: %s\n", "--keep")
    first, second, third, _ = out.decode().split("\n")
    assert (code, err) == (0, "")
    assert (first.count("{name}"), second.count("https://a.example"), third) == (1, 1, "{a}: %s")


def test_patterns_alone_keep_nothing_else(translate: RunCommand) -> None:
    code, out, err = translate(b"moon ACME-1 {name}\n", "--keep-pattern", r"ACME-\d")
    assert (code, out.count(b"ACME-1"), out.count(b"{name}")) == (0, 1, 0)
    assert "has a placeholder (`{name}`)" in err


def test_a_notice_names_what_is_not_kept(translate: RunCommand) -> None:
    _, _, err = translate(b"moon {x}\nsun <b>bear</b> {x}\n", "--keep")
    assert "standard input:2: has markup (`<b>`)" in err


def test_terms_get_their_translations(translate: RunCommand, tmp_path: Path) -> None:
    (tmp_path / "terms.tsv").write_bytes(b"moon\tZebra|Zebras\ta note\n")
    code, out, _ = translate(b"sun moon\nbear\n", "--glossary", tmp_path / "terms.tsv")
    assert (code, len(re.findall(rb"\bZebras?\b", out))) == (0, 1)


@pytest.mark.parametrize(
    ("options", "content", "code", "message"),
    [
        (["--glossary", "F"], b"moon Zebra\n", 3, "F:1: has 1 columns; write SOURCE TAB TARGET"),
        (["--glossary", "F"], b"", 3, "F: has no terms"),
        (["--memory", "F"], b"", 2, "F: the model does not say its languages"),
        (["--keep-pattern", "("], b"", 2, "--keep-pattern: '(' is no regular expression"),
        (["--suggest-terms"], b"", 2, "--suggest-terms: belongs to --glossary"),
        (["--glossary", "F", "--suggest-terms"], b"a\tb\n", 2, "--suggest-terms: this model has not learned"),
        (["--keep", "--sampling"], b"", 2, "leave out --sampling and --mbr"),
        (["--keep", "--engine", "ray"], b"", 2, "--engine: cannot be used with --keep"),
    ],
)
def test_wrong_options_and_files_are_one_line(
    translate: RunCommand, tmp_path: Path, options: list[str], content: bytes, code: int, message: str
) -> None:
    file = tmp_path / "terms.tsv"
    file.write_bytes(content)
    found, out, err = translate(b"moon {x}\n", *(str(file) if each == "F" else each for each in options))
    assert (found, out) == (code, b"")
    assert message.replace("F:", f"{file}:") in err
    assert err.count("\n") == 1
