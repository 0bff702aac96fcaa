"""`translate` on streams: slow ones, JSON, lines that are too long, pipes and disks that end, resuming."""

import io
import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from allyouneed.cli.program import main
from allyouneed.tasks.translation.translator import Translator

RunCommand = Callable[..., tuple[int, bytes, str]]
WORDS = ("sun", "moon", "star", "tree", "river", "stone", "bird", "fish", "wolf", "bear")
TEXT = "".join(f"{a} {b}\n" for a in WORDS for b in WORDS).encode()


def program(model: Path, *options: str | Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "allyouneed", "translate", model, *options]
    pipe, heed = subprocess.PIPE, lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
    # A shell's background job is started with SIGINT ignored, and so would be its children.
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, preexec_fn=heed)  # noqa: PLW1509


def test_who_waits_for_an_answer_has_it_before_the_input_ends_and_ctrl_c_ends_it(
    toy_model: Path, translator: Translator
) -> None:
    """Promise: Answers."""
    with program(toy_model) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        for word in ("sun", "moon"):
            process.stdin.write(f"{word}\n".encode())
            process.stdin.flush()
            [expected] = translator.translate([word])
            assert process.stdout.readline().decode() == f"{expected.text}\n"
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
        assert process.stderr.read() == b"allyouneed: interrupted\n"


def test_who_types_is_told_how_and_answered_line_by_line(
    toy_model: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    terminal, end = pty.openpty()
    os.write(terminal, b"sun\n\n\x04")
    with os.fdopen(end, encoding="utf-8") as keyboard:
        monkeypatch.setattr(sys, "stdin", keyboard)
        assert main(["translate", str(toy_model)]) == 0
    os.close(terminal)
    out, err = capfdbinary.readouterr()
    assert (out.count(b"\n"), out.endswith(b"\n\n")) == (2, True)
    assert err == b"allyouneed: reading from the terminal: one sentence a line, end with Ctrl-D\n"


def test_a_reader_that_has_enough_ends_it_quietly(
    toy_model: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT)))
    with os.fdopen(writing, "w", encoding="utf-8") as out:
        monkeypatch.setattr(sys, "stdout", out)
        assert main(["translate", str(toy_model)]) == 141
    assert capfdbinary.readouterr().err == b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="NOT RUN: needs /dev/full")
def test_a_full_disk_ends_it_with_one_line(
    toy_model: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Promise: Answers."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT)))
    with Path("/dev/full").open("wb") as full:
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(full))
        assert main(["translate", str(toy_model)]) == 6
    err = capfdbinary.readouterr().err
    assert err == b"allyouneed: error[E-DISK]: standard output: No space left on device\n"


def test_a_line_that_is_too_long_is_answered_with_a_notice_and_has_not_failed(
    translate: RunCommand, translator: Translator
) -> None:
    long = "sun moon. " * 600
    code, out, err = translate(f"sun\n{long}\nmoon\n".encode())
    parts = " ".join([translator.translate(["sun moon."])[0].text] * 600)
    texts = [found.text for found in translator.translate(["sun", "moon"])]
    assert (code, out.decode()) == (0, f"{texts[0]}\n{parts}\n{texts[1]}\n")
    assert err.startswith("allyouneed: standard input:2: ")
    assert err.endswith("; translated in 600 parts\n")
    assert translate(f"sun\n{long}\n".encode(), "--quiet")[2] == ""


def test_notices_of_many_long_lines_are_counted(translate: RunCommand) -> None:
    code, out, err = translate((b"sun moon. " * 140 + b"\n") * 23, "--beam-size", "1")
    assert (code, out.count(b"\n"), err.count("\n")) == (0, 23, 21)
    assert err.endswith("allyouneed: standard input: ... and 3 more notices\n")


def test_sentences_of_a_line_are_translated_one_by_one(translate: RunCommand, translator: Translator) -> None:
    code, out, err = translate(b"Sun moon. Bird!\n\nWolf.\n", "--split-sentences")
    a, b, c = (found.text for found in translator.translate(["Sun moon.", "Bird!", "Wolf."]))
    assert (code, out.decode(), err) == (0, f"{a} {b}\n\n{c}\n", "")


def test_objects_are_answered_by_objects(translate: RunCommand, translator: Translator) -> None:
    given: list[dict[str, Any]] = [
        {"text": "sun moon", "id": {"any": ["thing", None, 1.5, "ä\u2028"]}},
        {"text": ""},
        {"text": "bird\nsees", "id": None},
    ]
    code, out, err = translate(
        "".join(f"{json.dumps(g)}\n" for g in given).encode(), "--jsonl", "--n-best", "2"
    )
    answers = [json.loads(line) for line in out.decode().split("\n")[:-1]]
    found = translator.stream(["sun moon", "", "bird\nsees"], n_best=2)
    left_out = "alignment", "links", "is_from_memory", "kept"
    texts = [[{k: v for k, v in asdict(t).items() if k not in left_out} for t in best] for best in found]
    expected = [{"translations": best} for best in texts]
    assert answers == [{"id": given[0]["id"], **expected[0]}, expected[1], {"id": None, **expected[2]}]
    assert (code, err) == (0, "")
    assert "ä\u2028".encode() in out


def test_what_is_no_request_is_answered_by_an_error_on_its_line(translate: RunCommand) -> None:
    bad = [
        (b'{"id": 7, "text": 1}', "E-JSON", '"text" is missing or not a string'),
        (b'{"text": "sun", "txet": 1}', "E-JSON", "unknown key 'txet'; the keys are text, id"),
        (b'{"text": "sun", "text": "moon"}', "E-JSON", "the key 'text' occurs twice"),
        (b"", "E-JSON", "Expecting value"),
        (b"\xff", "E-UTF8", "invalid byte 0xFF"),
        (b"[" * 100_000, "E-JSON", "nested too deep"),
        (
            json.dumps({"id": "x", "text": "sun " * 1_100}).encode(),
            "E-TOO-LONG",
            "more than the maximum of 1,024",
        ),
    ]
    stdin = b"".join(line + b"\n" for line, _, _ in bad) + b'{"text": "sun"}\n'
    code, out, err = translate(stdin, "--jsonl", "--too-long", "error")
    *failed, good = [json.loads(line) for line in out.decode().split("\n")[:-1]]
    for number, (answer, (_, label, message)) in enumerate(zip(failed, bad, strict=True), start=1):
        assert answer["error"]["label"] == label
        assert message in answer["error"]["message"]
        assert f"error[{label}]: standard input:{number}:" in err
    assert [answer.get("id") for answer in failed] == [7, *[None] * 5, "x"]
    assert good["translations"][0]["text"]
    assert (code, err.count("\n")) == (9, len(bad))


@pytest.mark.parametrize("options", [(), ("--n-best", "3"), ("--scores",), ("--jsonl",)])
def test_a_run_cut_off_anywhere_goes_on_to_the_same_bytes(
    translate: RunCommand,
    tmp_path: Path,
    options: tuple[str, ...],
    same_in_company: Callable[[bytes, bytes], bool],
) -> None:
    """Promise: Resumed output."""
    texts = TEXT.replace(b"star", b"\xff").split(b"\n")[:-1]
    if "--jsonl" in options:
        texts = [
            json.dumps({"id": n, "text": t.decode(errors="ignore")}).encode() for n, t in enumerate(texts)
        ]
    stdin = b"".join(text + b"\n" for text in texts)
    _, whole, _ = translate(stdin, *options)
    ends = [i + 1 for i, byte in enumerate(whole) if byte == ord("\n")]
    file = tmp_path / "out"
    for size in (
        0,
        1,
        ends[0] - 1,
        ends[0],
        ends[0] + 1,
        ends[1],
        ends[2] + 2,
        ends[40] + 3,
        ends[-1] - 1,
        ends[-1],
    ):
        file.write_bytes(whole[:size])
        code, out, err = translate(stdin, *options, "--resume-output", file)
        assert out == b""
        assert code in (0, 9)
        assert same_in_company(file.read_bytes(), whole), size
        assert (f"{file}: continuing at line" in err) == (size > 0)


def test_a_killed_program_goes_on_to_the_same_bytes(
    toy_model: Path, translate: RunCommand, tmp_path: Path
) -> None:
    """Promise: Resumed output."""
    stdin, file = TEXT * 3, tmp_path / "out"
    _, whole, _ = translate(stdin)
    with program(toy_model, "--resume-output", file) as process:
        assert process.stdin
        process.stdin.write(stdin[: len(stdin) // 2])
        process.stdin.flush()
        while not (file.exists() and file.read_bytes().count(b"\n") >= 100):
            assert process.poll() is None
            time.sleep(0.01)
        assert translate(stdin, "--resume-output", file)[0] == 8
        process.kill()
    assert translate(stdin, "--resume-output", file)[0] == 0
    assert file.read_bytes() == whole


def test_a_file_of_anything_else_is_refused_and_left_alone(
    translate: RunCommand, tmp_path: Path, toy_run: Path, run_command: RunCommand
) -> None:
    """Promise: Resumed output."""
    file = tmp_path / "out"
    _, whole, _ = translate(TEXT)
    lines = whole.split(b"\n")
    other = b"\n".join([*lines[:39], b"something else", *lines[40:50]]) + b"\nhalf"
    cases = [(TEXT, b"no line feed"), (TEXT, other), (TEXT[:30], whole), (b"", whole[:3]), (TEXT[10:], whole)]
    for stdin, content in cases:
        file.write_bytes(content)
        code, out, err = translate(stdin, "--resume-output", file)
        assert (code, out, file.read_bytes()) == (2, b"", content)
        assert f"{file}: was not written with this model, input and options" in err
    file.write_bytes(whole)
    beginner = min((toy_run / "checkpoints").glob("step-*"))
    assert run_command("translate", beginner, "--resume-output", file, stdin=TEXT)[0] == 2
    assert translate(TEXT, "--resume-output", file, "--scores")[0] == 2
    code, _, err = translate(TEXT, "--resume-output", tmp_path)
    assert (code, "Is a directory" in err) == (6, True)


def test_what_failed_is_an_empty_row_of_a_table(translate: RunCommand) -> None:
    code, out, _ = translate(b"sun\n\xff\n", "--scores")
    assert (code, out.split(b"\n")[1:]) == (9, [b"", b""])
    code, out, _ = translate(b"sun\n\xff\n", "--n-best", "2")
    assert (code, out.split(b"\n")[2:]) == (9, [b"2\t1\t\t", b"2\t2\t\t", b""])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--jsonl", "--scores"], "--scores: --jsonl always writes scores"),
        (["--sampling", "--beam-size", "3"], "--beam-size: this is for search only"),
        (["--mbr", "2", "--n-best", "5"], "--n-best 5: --mbr draws only 2 samples"),
        (["--min-length", "9", "--max-length", "5"], "min_length = 9 exceeds max_length = 5"),
    ],
)
def test_options_that_exclude_each_other_are_refused(
    translate: RunCommand, options: list[str], message: str
) -> None:
    code, out, err = translate(b"sun\n", *options)
    assert (code, out) == (2, b"")
    assert message in err


def test_a_pipe_and_standard_output_cannot_be_gone_on_with(translate: RunCommand, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for place in tmp_path / "pipe", "-":
        code, _, err = translate(b"sun\n", "--resume-output", place)
        assert code == 2
        assert "is not a regular file" in err


SEVERAL = b"sun moon.\nsun. bird sees fish. wolf. moon.\nbird. fish. wolf.\n"
LOST = (
    "allyouneed: standard input:2: has 4 sentences, its translation 1; "
    "--split-sentences translates each of them separately (later texts are not checked)\n"
)


@pytest.mark.parametrize("options", [[], ["--scores"], ["--n-best", "2"], ["--resume-output", "out"]])
def test_the_first_line_that_loses_sentences_is_told_once(
    translate: RunCommand, options: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise: Messages."""
    monkeypatch.chdir(tmp_path)
    code, out, err = translate(SEVERAL, *options)
    rows = out + (tmp_path / "out").read_bytes() if "--resume-output" in options else out
    assert (code, rows.count(b"\n"), err) == (0, 6 if "--n-best" in options else 3, LOST)


def test_a_json_text_that_loses_sentences_is_told_by_its_line(translate: RunCommand) -> None:
    """Promise: Messages."""
    texts = "".join(json.dumps({"text": line}) + "\n" for line in SEVERAL.decode().split("\n")[:-1])
    code, out, err = translate(texts.encode(), "--jsonl")
    assert (code, out.count(b"\n"), err) == (0, 3, LOST)


@pytest.mark.parametrize("options", [["--split-sentences"], ["--quiet"]])
def test_lost_sentences_are_not_told_where_none_can_be_lost_or_nobody_listens(
    translate: RunCommand, options: list[str]
) -> None:
    code, out, err = translate(SEVERAL, *options)
    assert (code, out.count(b"\n"), err) == (0, 3, "")


def test_the_first_translation_that_was_cut_is_told_once(translate: RunCommand) -> None:
    told = (
        "allyouneed: standard input:1: its translation did not end within the maximum length and was cut "
        "(later texts are not checked)\n"
    )
    limits = ["--max-extra-tokens", "0", "--beam-size", "1"]
    code, out, err = translate(b"sun\nmoon\n", *limits)
    assert (code, out.count(b"\n"), err) == (0, 2, told)
    assert translate(b"sun\nmoon\n", *limits, "--max-length", "4") == (0, out, "")


def test_python_can_ask_whether_sentences_are_lost(translator: Translator) -> None:
    texts = SEVERAL.decode().split("\n")[:-1]
    found = translator.translate(texts)
    lost = [translator.lost_sentences(text, t.text) for text, t in zip(texts, found, strict=True)]
    assert lost[0] is None
    assert lost[1] == (
        "has 4 sentences, its translation 1; split_sentences translates each of them separately"
    )
    assert translator.lost_sentences(texts[1] * 400, found[1].text) is None  # translated in parts


MIXED = b"sun\nmoon %1$s star\n<b>bird</b>\nfish\n"
FOUND = (
    "allyouneed: standard input:2: has a placeholder (`%1$s`), which is translated as words: it may be lost; "
)


@pytest.mark.parametrize("options", [[], ["--n-best", "2"], ["--resume-output", "out"], ["--parts", "parts"]])
def test_the_first_line_that_is_not_plain_is_told_once(
    translate: RunCommand, options: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = translate(MIXED, *options)
    assert (code, err) == (0, FOUND + "--strict refuses it (later texts are not checked)\n")
    assert translate(MIXED, "--quiet", *options)[::2] == (0, "")


def test_a_strict_run_writes_the_lines_before_one_that_is_not_plain_and_ends(
    translate: RunCommand, tmp_path: Path
) -> None:
    refused = (
        "allyouneed: error[E-DATA]: standard input:2: has a placeholder (`%1$s`), which is not prose; "
        "take it out, or leave out --strict\n"
    )
    _, plain, _ = translate(MIXED, "--quiet")
    first = plain[: plain.index(b"\n") + 1]
    assert translate(MIXED, "--strict") == (3, first, refused)
    file = tmp_path / "out"
    assert translate(MIXED, "--strict", "--resume-output", file) == (3, b"", refused)
    assert file.read_bytes() == first
    assert translate(MIXED, "--quiet", "--resume-output", file)[0] == 0
    assert file.read_bytes() == plain
    parts = tmp_path / "parts"
    assert translate(MIXED, "--strict", "--parts", parts)[0] == 3
    assert translate(MIXED, "--quiet", "--parts", parts)[0] == 0
    assert translate(b"sun <3 moon\n5 < 6\n100 % star\n10:30\n", "--strict")[::2] == (0, "")


def test_the_text_in_json_is_checked_and_not_the_json(translate: RunCommand) -> None:
    code, out, err = translate(b'{"id": "{0}", "text": "sun"}\n{"text": "sun\\n<b>moon</b>"}\n', "--jsonl")
    assert (code, out.count(b"\n")) == (0, 2)
    assert err.startswith("allyouneed: standard input:2: has markup (`<b>`), ")
    code, out, err = translate(b'{"text": "sun"}\n{"text": "{{moon}}"}\n', "--jsonl", "--strict")
    assert (code, out.count(b"\n")) == (3, 1)
    assert err.startswith("allyouneed: error[E-DATA]: standard input:2: has a placeholder (`{{moon}}`), ")
