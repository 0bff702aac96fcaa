"""`translate` writes as many lines as it reads, in their order, whatever they hold."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.kernels import require_kernels

import allyouneed
from allyouneed.data.lines import MAX_LINE_BYTES
from allyouneed.native.library import FORMS

RunCommand = Callable[..., tuple[int, bytes, str]]
LINES = ["sun moon", "", "bird sees fish", " ", "</s> <pad> <unk>", "wolf\u2028bear", "moon \U0001f31b"]
TEXT = "".join(f"{line}\n" for line in LINES).encode()
MARKUP = (
    "allyouneed: standard input:5: has markup (`</s>`), which is translated as words: it may be lost; "
    "--strict refuses it (later texts are not checked)\n"
)


def lines_of(out: bytes) -> list[str]:
    assert out == b"" or out.endswith(b"\n")
    assert b"\r" not in out
    return out.decode().split("\n")[:-1]


@pytest.fixture
def alone(toy_model: Path) -> list[str]:
    """What each line becomes that is translated by itself."""
    translator = allyouneed.load_translator(toy_model)
    return [translator.translate([line])[0].text for line in LINES]


def test_each_line_becomes_the_line_that_it_becomes_alone(translate: RunCommand, alone: list[str]) -> None:
    for options in ([], ["--batch-size", "1"], ["--batch-size", "3"], ["--batch-tokens", "1"]):
        code, out, err = translate(TEXT, *options)
        assert (code, lines_of(out), err) == (0, alone, MARKUP)
    assert [not text for text in alone] == [line.strip() == "" for line in LINES]


def test_scores_are_floats_in_full_before_the_text(translate: RunCommand, toy_model: Path) -> None:
    code, out, _ = translate(TEXT, "--scores")
    expected = allyouneed.load_translator(toy_model).translate(LINES)
    rows = [line.split("\t") for line in lines_of(out)]
    assert (code, rows) == (0, [[repr(found.score), found.text] for found in expected])


def test_alignments_are_a_last_column_of_words(translate: RunCommand, toy_model: Path) -> None:
    _, out, _ = translate(TEXT, "--alignments")
    expected = allyouneed.load_translator(toy_model).translate(LINES, alignments=True)
    links = [" ".join(f"{i}-{j}" for i, j in found.alignment or []) for found in expected]
    assert lines_of(out) == [f"{found.text}\t{of}" for found, of in zip(expected, links, strict=True)]
    assert links[0].startswith("0-0 1-")
    for line, found in zip(LINES, expected, strict=True):
        assert all(i < len(line.split()) and j < len(found.text.split()) for i, j in found.alignment or [])
    _, out, _ = translate(TEXT, "--alignments", "--n-best", "1")
    rows = [line.split("\t") for line in lines_of(out)]
    assert [row[3:] for row in rows] == [[t.text, of] for t, of in zip(expected, links, strict=True)]
    _, out, _ = translate(b'{"text": "sun moon"}\n', "--alignments", "--jsonl")
    [found] = json.loads(out)["translations"]
    assert found["alignment"] == [list(link) for link in expected[0].alignment or []]


def test_alignments_of_a_text_in_parts_count_on(translate: RunCommand, toy_model: Path) -> None:
    parts = ["sun moon.", "Bird fish."]
    first, second = allyouneed.load_translator(toy_model).translate(parts, alignments=True)
    num_words = len(first.text.split())
    assert first.alignment
    assert second.alignment
    links = [*first.alignment, *((i + 2, j + num_words) for i, j in second.alignment)]
    [row] = lines_of(translate(" ".join(parts).encode(), "--alignments", "--split-sentences")[1])
    assert row.split("\t") == [f"{first.text} {second.text}", " ".join(f"{i}-{j}" for i, j in links)]


def test_a_translation_begins_with_its_target_prefix(translate: RunCommand) -> None:
    _, out, _ = translate(TEXT, "--target-prefix", "noomo")
    assert all(line.startswith("noomo") or not line for line in lines_of(out))
    objects = [{"text": "sun", "target_prefix": "nuso"}, {"text": "sun"}, {"text": "a", "target_prefix": 1}]
    given = "".join(f"{json.dumps(each)}\n" for each in objects).encode()
    code, out, _ = translate(given, "--jsonl", "--target-prefix", "noomo")
    own, common, wrong = map(json.loads, lines_of(out))
    assert own["translations"][0]["text"].startswith("nuso")
    assert common["translations"][0]["text"].startswith("noomo")
    assert (code, wrong["error"]["label"]) == (9, "E-JSON")


def test_lengths_and_repetition_are_restricted(translate: RunCommand, toy_model: Path) -> None:
    translator = allyouneed.load_translator(toy_model)
    for options, settings in (
        (["--min-length", "12"], {"min_length": 12}),
        (["--max-length", "2"], {"max_length": 2}),
        (["--no-repeat-ngram-size", "1"], {"no_repeat_ngram_size": 1}),
        (["--repetition-penalty", "3"], {"repetition_penalty": 3.0}),
    ):
        expected = translator.translate(LINES, **settings)
        assert lines_of(translate(TEXT, *options)[1]) == [found.text for found in expected]
        for found in (found for found in expected if found.text):
            assert len(found.tokens) >= settings.get("min_length", 1) - 1
            assert len(found.tokens) <= settings.get("max_length", 99)
            assert "no_repeat_ngram_size" not in settings or len(set(found.tokens)) == len(found.tokens)


def test_search_options_reach_the_search(translate: RunCommand, toy_model: Path) -> None:
    options = ["--beam-size", "2", "--length-penalty", "1.5", "--length-normalization", "average"]
    options += ["--coverage-penalty", "0.3"]
    _, out, _ = translate(TEXT, "--scores", *options)
    expected = allyouneed.load_translator(toy_model).translate(
        LINES, beam_size=2, length_penalty=1.5, length_normalization="average", coverage_penalty=0.3
    )
    assert [line.split("\t")[0] for line in lines_of(out)] == [repr(found.score) for found in expected]


@pytest.mark.parametrize("precision", FORMS)
def test_scores_have_the_same_bits_with_any_batches_workers_and_threads(
    translate: RunCommand, precision: str
) -> None:
    require_kernels()
    choices = (), ("--batch-size", "2"), ("--workers", "3", "--batch-size", "1"), ("--threads", "2")
    found = {translate(TEXT, "--scores", "--precision", precision, *options) for options in choices}
    [(code, out, _)] = found
    assert code == 0
    assert len(lines_of(out)) == len(LINES)


def test_int8_is_refused_where_there_are_no_kernels_and_the_others_are_not(
    translate: RunCommand, monkeypatch: pytest.MonkeyPatch, alone: list[str]
) -> None:
    monkeypatch.setattr("allyouneed.inference.engine_choice.available", frozenset)
    code, out, err = translate(TEXT, "--precision", "int8")
    assert (code, out) == (2, b"")
    assert "error[E-USAGE]: --precision int8: needs " in err
    assert lines_of(translate(TEXT)[1]) == alone
    assert len(lines_of(translate(TEXT, "--precision", "bfloat16")[1])) == len(LINES)


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
        elif line < len(LINES):
            assert scores == ["0.0", *[""] * (number - 1)]
        else:
            assert scores == [""] * number


def test_lines_that_cannot_be_translated_are_empty_told_and_cost_no_other_line(
    translate: RunCommand, alone: list[str]
) -> None:
    bad = b"ab\xffc\n" + b"q!" * 1_000 + b"\n" + b"x" * (MAX_LINE_BYTES + 1) + b"\n"
    code, out, err = translate(TEXT + bad + TEXT, "--too-long", "error")
    assert code == 9
    assert lines_of(out) == [*alone, "", "", "", *alone]
    assert [line.partition(";")[0] for line in err.strip().split("\n")] == [
        MARKUP.partition(";")[0],
        "allyouneed: error[E-UTF8]: standard input:8:3: invalid byte 0xFF",
        "allyouneed: error[E-TOO-LONG]: standard input:9: the sentence has 2,001 tokens, "
        "more than the maximum of 1,024",
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
        assert (code, lines_of(out), err) == (0, alone, MARKUP)


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
        (["--beam-size", "0"], "--beam-size: must be at least 1, not 0"),
        (["--beam-size", "1025"], "--beam-size: must be at most 1024"),
        (["--beam-size", "many"], "--beam-size"),
        (["--length-penalty=-1"], "--length-penalty: must be at least"),
        (["--length-penalty", "nan"], "--length-penalty: must be a finite number"),
        (["--length-normalization", "mean"], "--length-normalization"),
        (["--n-best", "0"], '"0" for --n-best. Must be >= 1.'),
        (["--n-best", "5"], "ask for fewer (--n-best)"),
        (["--batch-size", "0"], '"0" for --batch-size. Must be >= 1.'),
        (["--batch-size=-3"], '"-3" for --batch-size. Must be >= 1.'),
        (["--batch-tokens", "0"], '"0" for --batch-tokens. Must be >= 1.'),
        (["--mbr", "0"], '"0" for --mbr. Must be >= 1.'),
        (
            ["--sampling", "--temperature", "0"],
            "--temperature: must be at least 0.001",
        ),
        (["--sampling", "--top-k", "0"], "--top-k: must be at least 1"),
        (["--sampling", "--top-p", "1.1"], "--top-p: must be at most 1"),
        (["--top-p", "0.9"], "--top-p: this is for samples only; add --sampling, or --mbr N"),
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


def test_sampling_options_reach_the_sampler(
    translate: RunCommand, toy_model: Path, same_in_company: Callable[[bytes, bytes], bool]
) -> None:
    options = ["--sampling", "--temperature", "1.5", "--top-k", "30", "--top-p", "0.99", "--seed", "7"]
    code, out, told = translate(TEXT, *options, "--n-best", "2")
    settings: dict[str, Any] = {"sampling": True, "temperature": 1.5, "top_k": 30, "top_p": 0.99, "seed": 7}
    found = allyouneed.load_translator(toy_model).stream(LINES, n_best=2, **settings)
    rows = [line.split("\t")[2:] for line in lines_of(out)]
    assert code == 0
    assert [row for row in rows if row != ["", ""]] == [
        [repr(sample.score), sample.text.replace("\t", " ")] for samples in found for sample in samples
    ]
    code, alone, err = translate(TEXT, *options, "--n-best", "2", "--batch-size", "1", "--workers", "3")
    assert (code, err) == (0, told)
    assert told.startswith(MARKUP)
    assert same_in_company(alone, out)


def test_mbr_writes_the_sample_of_least_risk_with_its_expected_utility(
    translate: RunCommand, toy_model: Path
) -> None:
    code, out, _ = translate(TEXT, "--mbr", "8", "--temperature", "1.5", "--scores")
    found = allyouneed.load_translator(toy_model).translate(LINES, mbr=8, temperature=1.5)
    texts = [best.text.replace("\t", " ") for best in found]
    expected = [f"{best.score!r}\t{text}" for best, text in zip(found, texts, strict=True)]
    assert (code, lines_of(out)) == (0, expected)


def test_several_models_translate_together(run_command: RunCommand, toy_run: Path, toy_model: Path) -> None:
    models = [toy_model, toy_run]
    code, out, err = run_command("translate", *models, "--scores", "--beam-size", "3", stdin=TEXT)
    expected = allyouneed.load_translator(*models).translate(LINES, beam_size=3)
    assert (code, err) == (0, MARKUP)
    assert lines_of(out) == [f"{found.score!r}\t{found.text}" for found in expected]
    code, out, err = run_command("translate", toy_model, toy_model / "absent", stdin=TEXT)
    assert (code, out) == (4, b"")
    assert "absent: no such model" in err


def test_something_that_is_no_model_is_refused(
    run_command: RunCommand, tmp_path: Path, toy_text: Path, toy_data: Path
) -> None:
    for path, message in (
        (tmp_path / "absent", "no such model"),
        (tmp_path, "is not a model"),
        (toy_text / "train.en", "is not a model but a file; name a folder, and give text as standard input"),
        (toy_data, "is a data directory; a model directory is needed"),
    ):
        code, out, err = run_command("translate", path, stdin=TEXT)
        assert (code, out) == (4, b"")
        assert f"{path}: {message}" in err
