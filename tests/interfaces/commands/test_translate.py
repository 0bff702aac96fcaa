"""`translate` writes as many lines as it reads, in their order, whatever they hold."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest

import allyouneed
from allyouneed.data.lines import MAX_LINE_BYTES

RunCommand = Callable[..., tuple[int, bytes, str]]
LINES = ["sun moon", "", "bird sees fish", " ", "</s> <pad> <unk>", "wolf\u2028bear", "moon \U0001f31b"]
TEXT = "".join(f"{line}\n" for line in LINES).encode()


@pytest.fixture
def translate(run_command: RunCommand, toy_model: Path) -> RunCommand:
    return lambda stdin, *options: run_command("translate", toy_model, *options, stdin=stdin)


def lines_of(out: bytes) -> list[str]:
    assert out == b"" or out.endswith(b"\n")
    assert b"\r" not in out
    return out.decode().split("\n")[:-1]


@pytest.fixture
def alone(toy_model: Path) -> list[str]:
    """What each line becomes that is translated by itself."""
    translator = allyouneed.load(toy_model)
    return [translator.translate([line])[0].text for line in LINES]


def test_each_line_becomes_the_line_that_it_becomes_alone(translate: RunCommand, alone: list[str]) -> None:
    for options in ([], ["--batch-size", "1"], ["--batch-size", "3"], ["--batch-tokens", "1"]):
        code, out, err = translate(TEXT, *options)
        assert (code, lines_of(out), err) == (0, alone, "")
    assert [not text for text in alone] == [line.strip() == "" for line in LINES]


def test_scores_are_floats_in_full_before_the_text(translate: RunCommand, toy_model: Path) -> None:
    code, out, _ = translate(TEXT, "--scores")
    expected = allyouneed.load(toy_model).translate(LINES)
    rows = [line.split("\t") for line in lines_of(out)]
    assert (code, rows) == (0, [[repr(found.score), found.text] for found in expected])


def test_search_options_reach_the_search(translate: RunCommand, toy_model: Path) -> None:
    options = ["--beam-size", "2", "--length-penalty", "1.5", "--length-normalization", "average"]
    _, out, _ = translate(TEXT, "--scores", *options)
    expected = allyouneed.load(toy_model).translate(
        LINES, beam_size=2, length_penalty=1.5, length_normalization="average"
    )
    assert [line.split("\t")[0] for line in lines_of(out)] == [repr(found.score) for found in expected]


@pytest.mark.parametrize("number", [1, 3])
def test_the_n_best_are_always_n_rows_a_line(translate: RunCommand, alone: list[str], number: int) -> None:
    code, out, err = translate(TEXT + b"\xff\n", "--n-best", str(number))
    rows = [line.split("\t") for line in lines_of(out)]
    assert code == 9
    assert "standard input:8:1: invalid byte 0xFF" in err
    assert [row[:2] for row in rows] == [
        [str(line), str(rank)] for line in range(1, len(LINES) + 2) for rank in range(1, number + 1)
    ]
    assert [row[3] for row in rows[::number]] == [*alone, ""]
    for line, text in enumerate([*LINES, ""]):
        scores = [row[2] for row in rows[line * number : (line + 1) * number]]
        if text.strip():
            assert sorted(map(float, scores), reverse=True) == list(map(float, scores))
        else:
            assert scores == ["0.0", *[""] * (number - 1)]


def test_lines_that_cannot_be_translated_are_empty_told_and_cost_no_other_line(
    translate: RunCommand, alone: list[str]
) -> None:
    bad = b"ab\xffc\n" + b"?!" * 1_000 + b"\n" + b"x" * (MAX_LINE_BYTES + 1) + b"\n"
    code, out, err = translate(TEXT + bad + TEXT)
    assert code == 9
    assert lines_of(out) == [*alone, "", "", "", *alone]
    assert [line.partition(";")[0] for line in err.strip().split("\n")] == [
        "allyouneed: error[E-UTF8]: standard input:8:3: invalid byte 0xFF",
        "allyouneed: error[E-TOO-LONG]: standard input:9: the sentence has 2,001 tokens, 1,024 are the most",
        "allyouneed: error[E-LINE-LENGTH]: standard input:10: more than 1,048,576 bytes",
    ]


def test_no_input_gives_no_lines(translate: RunCommand) -> None:
    assert translate(b"") == (0, b"", "")
    assert translate(b"\n") == (0, b"\n", "")


def test_a_missing_last_line_feed_and_carriage_returns_change_nothing(
    translate: RunCommand, alone: list[str]
) -> None:
    for text in (TEXT[:-1], TEXT.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + TEXT):
        code, out, err = translate(text)
        assert (code, lines_of(out), err) == (0, alone, "")


def test_runs_and_checkpoints_are_models_too(
    run_command: RunCommand, toy_run: Path, translate: RunCommand
) -> None:
    of_run = run_command("translate", toy_run, "--scores", stdin=TEXT)
    checkpoint = toy_run / "checkpoints" / (toy_run / "latest").read_bytes().decode().strip()
    assert run_command("translate", checkpoint, "--scores", stdin=TEXT) == of_run
    assert of_run[0] == 0
    assert translate(TEXT, "--scores") != of_run
    assert all(math.isfinite(float(line.split("\t")[0])) for line in lines_of(of_run[1]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--beam-size", "0"], "--beam-size: beam_size: Input should be greater than or equal to 1, not 0"),
        (["--beam-size", "1025"], "--beam-size: beam_size: Input should be less than or equal to 1024"),
        (["--beam-size", "many"], "--beam-size"),
        (["--length-penalty=-1"], "--length-penalty: length_penalty: Input should be greater than or equal"),
        (["--length-penalty", "nan"], "--length-penalty: length_penalty: Input should be a finite number"),
        (["--length-normalization", "mean"], "--length-normalization"),
        (["--n-best", "0"], "--n-best 0: give 1 or more"),
        (["--n-best", "5"], "ask for fewer (--n-best)"),
        (["--batch-size", "0"], "--batch-size 0: give 1 or more"),
        (["--batch-size=-3"], "--batch-size -3: give 1 or more"),
        (["--batch-tokens", "0"], "--batch-tokens 0: give 1 or more"),
        (["--beam", "4"], "Unknown option: --beam. Did you mean --beam-size?"),
    ],
)
def test_an_option_out_of_range_is_one_line_that_names_it(
    translate: RunCommand, options: list[str], message: str
) -> None:
    code, out, err = translate(TEXT, *options)
    assert (code, out) == (2, b"")
    assert message in err
    assert err.count("\n") == 1


def test_something_that_is_no_model_is_refused(
    run_command: RunCommand, tmp_path: Path, toy_text: Path, toy_data: Path
) -> None:
    for path, message in (
        (tmp_path / "absent", "no such model"),
        (tmp_path, "is no model"),
        (toy_text / "train.en", "is no model"),
        (toy_data, "is a data directory; a model directory is wanted"),
    ):
        code, out, err = run_command("translate", path, stdin=TEXT)
        assert (code, out) == (4, b"")
        assert f"{path}: {message}" in err
