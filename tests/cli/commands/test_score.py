"""`score` writes a log-probability for each pair of lines, in their order, whatever they hold."""

import io
import json
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import allyouneed
from allyouneed.cli.program import main
from allyouneed.data import corpus_files
from allyouneed.data.corpus import CleaningReport, Pair
from allyouneed.data.lines import read_lines

RunCommand = Callable[..., tuple[int, bytes, str]]


@pytest.fixture
def score(run_command: RunCommand, toy_model: Path, toy_text: Path) -> RunCommand:
    files = "--source", toy_text / "valid.en", "--target", toy_text / "valid.toy"
    return lambda *options: run_command("score", toy_model, *files, *options)


@pytest.fixture
def pairs(toy_text: Path) -> tuple[list[str], list[str]]:
    return list(read_lines(toy_text / "valid.en")), list(read_lines(toy_text / "valid.toy"))


def lines_of(out: bytes) -> list[str]:
    return out.decode().split("\n")[:-1]


def test_each_line_is_the_log_probability_in_full_and_the_totals_are_told(
    score: RunCommand, toy_model: Path, pairs: tuple[list[str], list[str]]
) -> None:
    code, out, err = score()
    expected = allyouneed.load_translator(toy_model).score(*pairs)
    assert (code, lines_of(out)) == (0, [repr(pair.log_prob) for pair in expected])
    total, num_tokens = sum(p.log_prob for p in expected), sum(len(p.tokens) for p in expected)
    assert err == (
        f"allyouneed: 20 pairs, {num_tokens} target tokens with the end symbols,"
        f" log-probability {total:.2f}, perplexity {math.exp(-total / num_tokens):.4f}\n"
    )


def test_a_normalized_score_is_divided_by_the_length_penalty(
    score: RunCommand, toy_model: Path, pairs: tuple[list[str], list[str]]
) -> None:
    found = allyouneed.load_translator(toy_model).score(*pairs)
    _, out, _ = score("--normalized", "--length-penalty", "1.5")
    expected = [pair.log_prob / ((5 + len(pair.tokens)) / 6) ** 1.5 for pair in found]
    assert [float(line) for line in lines_of(out)] == pytest.approx(expected)
    _, out, _ = score("--normalized", "--length-normalization", "average")
    expected = [pair.log_prob / len(pair.tokens) for pair in found]
    assert [float(line) for line in lines_of(out)] == pytest.approx(expected)


def test_tokens_come_as_an_object_a_line(
    score: RunCommand, toy_model: Path, pairs: tuple[list[str], list[str]]
) -> None:
    code, out, _ = score("--tokens")
    objects = [json.loads(line) for line in lines_of(out)]
    assert code == 0
    assert objects == [vars(pair) for pair in allyouneed.load_translator(toy_model).score(*pairs)]
    assert all(sum(o["token_log_probs"]) == o["log_prob"] for o in objects)
    assert ["".join(o["tokens"]).replace("▁", " ")[1:] for o in objects] == [f"{t}</s>" for t in pairs[1]]


def test_what_translate_writes_is_scored_as_translate_scored_it(
    run_command: RunCommand, toy_model: Path, toy_text: Path, tmp_path: Path
) -> None:
    source = toy_text / "valid.en"
    _, out, _ = run_command("translate", toy_model, "--scores", stdin=source.read_bytes())
    rows = [line.split("\t") for line in lines_of(out)]
    (tmp_path / "out").write_bytes("".join(f"{text}\n" for _, text in rows).encode())
    files = "--source", source, "--target", tmp_path / "out"
    _, out, _ = run_command("score", toy_model, *files, "--normalized")
    assert [float(line) for line in lines_of(out)] == pytest.approx([float(s) for s, _ in rows], abs=1e-5)


def test_pairs_that_cannot_be_scored_are_empty_told_and_cost_no_other(
    run_command: RunCommand, toy_model: Path, tmp_path: Path
) -> None:
    sources = [b"sun", b"mo\xffon", b"?!" * 1_000, b"", b"sun\xe2\x80\xa8moon", b"moon\r"]
    targets = [b"nuso", b"noomo", b"nuso", b"", b"a\x00b", b"noomo"]
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"\n".join(sources))
    target.write_bytes(b"\n".join(targets) + b"\n")
    code, out, err = run_command("score", toy_model, "--source", source, "--target", target)
    assert code == 9
    expected = allyouneed.load_translator(toy_model).score(
        ["sun", "", "sun\u2028moon", "moon"], ["nuso", "", "a\0b", "noomo"]
    )
    first, *others = (repr(pair.log_prob) for pair in expected)
    assert lines_of(out) == [first, "", "", *others]
    told = err.split("\n")
    assert told[0].startswith(f"allyouneed: error[E-UTF8]: {source}:2:3: invalid byte 0xFF")
    assert told[1].startswith("allyouneed: error[E-TOO-LONG]: line 3: source: the sentence has 2,001 tokens")
    assert told[2].startswith("allyouneed: 4 pairs, ")


def test_files_of_different_lengths_are_refused_with_the_place(
    run_command: RunCommand, toy_model: Path, toy_text: Path, tmp_path: Path
) -> None:
    long, short = toy_text / "valid.en", tmp_path / "short"
    short.write_bytes(b"nuso\n" * 19)
    for source, target in ((long, short), (short, long)):
        code, _, err = run_command("score", toy_model, "--source", source, "--target", target)
        assert code == 3
        assert f"error[E-DATA]: {long} has a line 20, but {short} has 19 lines; give two" in err


def test_one_of_the_sides_may_be_standard_input(
    run_command: RunCommand, score: RunCommand, toy_model: Path, toy_text: Path
) -> None:
    source, target = toy_text / "valid.en", toy_text / "valid.toy"
    expected = score()
    options = "--source", source, "--target", "-"
    assert run_command("score", toy_model, *options, stdin=target.read_bytes()) == expected
    code, out, err = run_command("score", toy_model, "--source", "-", "--target", "-", stdin=b"sun\n")
    assert (code, out) == (2, b"")
    assert "only one of them can be standard input" in err
    code, _, err = run_command("score", toy_model, *options, stdin=b"sun\n")
    assert (code, "but standard input has 1 lines" in err) == (3, True)


def test_several_models_score_together(
    run_command: RunCommand,
    toy_model: Path,
    toy_run: Path,
    toy_text: Path,
    pairs: tuple[list[str], list[str]],
) -> None:
    files = "--source", toy_text / "valid.en", "--target", toy_text / "valid.toy"
    code, out, _ = run_command("score", toy_model, toy_run, *files)
    expected = allyouneed.load_translator(toy_model, toy_run).score(*pairs)
    assert (code, lines_of(out)) == (0, [repr(pair.log_prob) for pair in expected])


def test_no_pairs_and_quiet(
    run_command: RunCommand, score: RunCommand, toy_model: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty").write_bytes(b"")
    files = "--source", tmp_path / "empty", "--target", tmp_path / "empty"
    assert run_command("score", toy_model, *files) == (0, b"", "allyouneed: 0 pairs\n")
    assert score("--quiet")[2] == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--tokens", "--normalized"], "--tokens writes the normalized score too"),
        (["--normalized", "--length-penalty", "11"], "--length-penalty: must be at most 10"),
        (["--length-penalty", "1"], "change normalized scores; add --normalized or --tokens"),
        (["--length-normalization", "none"], "change normalized scores; add --normalized or --tokens"),
        (["--workers", "0"], "--workers"),
    ],
)
def test_options_that_cannot_be_are_told_in_one_line(
    score: RunCommand, options: list[str], message: str
) -> None:
    code, out, err = score(*options)
    assert (code, out) == (2, b"")
    assert message in err
    assert err.count("\n") == 1


def test_pairs_may_stand_in_one_file(
    run_command: RunCommand,
    score: RunCommand,
    toy_model: Path,
    pairs: tuple[list[str], list[str]],
    tmp_path: Path,
) -> None:
    rows = [f"{source}\t{target}\tignored\n" for source, target in zip(*pairs, strict=True)]
    (tmp_path / "pairs.tsv").write_bytes("".join(rows).encode())
    assert run_command("score", toy_model, "--pairs", tmp_path / "pairs.tsv") == score()
    assert run_command("score", toy_model, "--pairs", "-", stdin="".join(rows).encode()) == score()


def test_pairs_may_have_any_of_the_formats(
    run_command: RunCommand,
    score: RunCommand,
    toy_model: Path,
    pairs: tuple[list[str], list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def read(file: Path, report: CleaningReport, files: corpus_files.CorpusFiles) -> Iterator[Pair]:
        for number, line in enumerate(read_lines(file), start=1):
            source, target = json.loads(line)
            yield Pair(source, target, number, str(file))

    is_json = (lambda file: file.suffix == ".jsonl"), read
    monkeypatch.setattr(corpus_files, "FORMATS", (is_json, *corpus_files.FORMATS))
    file = tmp_path / "pairs.jsonl"
    file.write_bytes("".join(f"{json.dumps(pair)}\n" for pair in zip(*pairs, strict=True)).encode())
    assert run_command("score", toy_model, "--pairs", file) == score()


def test_a_line_without_a_tab_is_no_pair_and_costs_no_other(
    run_command: RunCommand, toy_model: Path, tmp_path: Path
) -> None:
    file = tmp_path / "pairs.tsv"
    file.write_bytes(b"sun\tnuso\nsun\n\xff\tx\nmoon\tnoomo\n")
    code, out, err = run_command("score", toy_model, "--pairs", file)
    assert (code, [bool(line) for line in lines_of(out)]) == (9, [True, False, False, True])
    assert f"error[E-DATA]: {file}:2: no tab; write source TAB target on each line" in err
    assert f"error[E-UTF8]: {file}:3:1: invalid byte" in err


def test_either_two_files_or_one_is_wanted(
    score: RunCommand, run_command: RunCommand, toy_model: Path
) -> None:
    for code, out, err in (score("--pairs", "x"), run_command("score", toy_model, "--source", "x")):
        assert (code, out) == (2, b"")
        assert "give --source and --target, two line-aligned files, or --pairs, one file of both" in err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="NOT RUN: needs /dev/full")
def test_a_full_disk_ends_it_with_one_line(
    toy_model: Path,
    toy_text: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    files = "--source", str(toy_text / "valid.en"), "--target", str(toy_text / "valid.toy")
    with Path("/dev/full").open("wb") as full:
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(full))
        assert main(["score", str(toy_model), *files]) == 6
    err = capfdbinary.readouterr().err
    assert err == b"allyouneed: error[E-DISK]: standard output: No space left on device\n"
