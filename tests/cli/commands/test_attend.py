import json
from pathlib import Path
from typing import Any, get_args

import pytest

from allyouneed.cli.commands.attend import MeasureName
from allyouneed.explorer.page import attention_page
from allyouneed.runs.loading import load, load_translator
from allyouneed.tasks.attention_maps import Attention

SENTENCE = "sun sees moon"


@pytest.fixture(scope="module")
def attention(toy_model: Path) -> Attention:
    return load_translator(toy_model).attention(SENTENCE)


def test_the_page_is_that_of_the_models_own_translation(
    run_command: Any, toy_model: Path, tmp_path: Path, attention: Attention
) -> None:
    code, out, _ = run_command("attend", toy_model, SENTENCE, "--out", tmp_path / "page.html")
    assert (code, out) == (0, b"")
    assert (tmp_path / "page.html").read_bytes().decode() == attention_page(attention.document())


def test_all_files_at_once_for_a_target_that_is_given(
    run_command: Any, toy_model: Path, tmp_path: Path
) -> None:
    options = [f"--{form}" for form in ("out", "json", "png", "svg", "pdf")]
    files = [tmp_path / option.strip("-") for option in options]
    pairs = [argument for pair in zip(options, files, strict=True) for argument in pair]
    assert run_command("attend", toy_model, SENTENCE, "noomo", *pairs)[:2] == (0, b"")
    page, document, png, svg, pdf = (file.read_bytes() for file in files)
    assert page.startswith(b"<!doctype html>")
    assert json.loads(document)["sequences"]["target"]["text"] == "noomo"
    assert png.startswith(b"\x89PNG")
    assert b"</svg>" in svg
    assert pdf.startswith(b"%PDF")


def test_without_a_file_the_measures_of_every_head_are_printed(
    run_command: Any, toy_model: Path, attention: Attention
) -> None:
    code, out, _ = run_command("attend", toy_model, SENTENCE, "--sort", "entropy")
    header, *rows = [line.split("\t") for line in out.decode().strip("\n").split("\n")]
    assert code == 0
    assert header == [
        *(
            "kind",
            "layer",
            "head",
            "entropy",
            "distance",
            "diagonal",
            "previous",
            "next",
            "control",
            "agreement",
        )
    ]
    entropies = [float(row[3]) for row in rows]
    assert entropies == sorted(entropies, reverse=True)
    measures = attention.measures()
    assert len(rows) == 3 * 1 * 2  # kinds, layers, heads
    for kind, layer, head, *values in rows:
        assert len(values) == len(header) - 3
        for name, value in zip(header[3:], values, strict=True):
            expected = measures[kind].get(name)
            printed = None if expected is None else f"{float(expected[int(layer) - 1, int(head) - 1]):.3f}"
            assert value == (printed or "")


def test_of_many_sentences_the_mean_measures_are_printed(
    run_command: Any, toy_model: Path, tmp_path: Path
) -> None:
    sources, targets = ["sun sees moon", "", "wolf", "bear"], ["nuso", "sun", "flowo seeso", " "]
    for name, lines in (("sources", sources), ("targets", targets)):
        (tmp_path / name).write_bytes("".join(f"{line}\n" for line in lines).encode())
    files = ["--sources", tmp_path / "sources", "--targets", tmp_path / "targets"]
    code, out, _ = run_command("attend", toy_model, *files)
    translator = load_translator(toy_model)
    first, second = (translator.attention(sources[i], targets[i]).measures()["cross"] for i in (0, 2))
    printed = [line.split("\t") for line in out.decode().split("\n") if line.startswith("cross\t1\t2")]
    expected = [f"{float(first[name][0, 1] + second[name][0, 1]) / 2:.3f}" for name in first]
    assert code == 0
    assert printed == [["cross", "1", "2", *expected]]
    (tmp_path / "targets").write_bytes(b"nuso\n")
    assert "has 1 lines, but" in run_command("attend", toy_model, *files)[2]
    (tmp_path / "sources").write_bytes(b" \n")
    assert "has no sentence" in run_command("attend", toy_model, *files)[2]
    assert "no sentence; give one" in run_command("attend", toy_model)[2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--png", "x.png", "--layer", "2"], "--layer 2: the model has 1"),
        (["--png", "x.png", "--head", "1", "--head", "3"], "--head 3: the model has 2"),
        (["--png", "x.png", "--word", "wolf"], "--word wolf: is not one of the words that attend"),
        (["--png", "x.jpg"], "--png x.jpg: writes PNG; name it x.png"),
        (["--layer", "2"], "--layer 2: the model has 1"),
        (["--out", "x.html", "--png", "x.png", "--layer", "9"], "--layer 9: the model has 1"),
        (["--out", "x.html", "--png", "x.png", "--word", "wolf"], "--word wolf: is not one of the words"),
        (["--sort", "beauty"], "beauty"),
        (["--out", "x.html", "--png", "no/such/folder/x.png"], "no/such/folder/x.png"),
    ],
)
def test_what_is_not_there_is_told_in_a_line(
    run_command: Any, toy_model: Path, tmp_path: Path, options: list[str], message: str, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run_command("attend", toy_model, SENTENCE, *options)
    assert code in (2, 6)
    assert out == b""
    assert message in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([SENTENCE, "--sources", "s"], "--sources: there is a sentence on the command line"),
        (["--sources", "s", "--out", "x.html", "--json", "x"], "--out and --json: shows one sentence"),
        ([SENTENCE, "--targets", "t"], "--targets: belongs to --sources"),
        ([SENTENCE, "--word", "sun"], "--word: is for figures"),
        ([SENTENCE, "--out", "x.html", "--kind", "encoder"], "--head: --out always has all heads"),
        ([SENTENCE, "--out", "x.html", "--sort", "entropy"], "--sort: is for the list of heads"),
        ([SENTENCE, "--sort", "agreement", "--kind", "encoder"], "only cross-attention has an agreement"),
        (["--sources", "missing", "--sort", "beauty"], "beauty"),
        ([SENTENCE, "--out", "no/such/x.html"], "no/such/x.html: there is no folder no/such"),
        ([], "no sentence; give one"),
    ],
)
def test_options_that_nothing_would_heed_are_refused_before_the_model_is_read(
    run_command: Any, tmp_path: Path, options: list[str], message: str, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run_command("attend", tmp_path / "no-model", *options)
    assert code in (2, 6)
    assert out == b""
    assert message in err
    assert "no-model" not in err
    assert err.count("\n") == 1


def test_a_list_is_of_the_kind_layer_and_heads_that_are_named(run_command: Any, toy_model: Path) -> None:
    _, every, _ = run_command("attend", toy_model, SENTENCE)
    selected = ["--kind", "decoder", "--layer", "1", "--head", "2"]
    _, some, _ = run_command("attend", toy_model, SENTENCE, *selected)
    rows = every.split(b"\n")
    assert some.strip(b"\n").split(b"\n") == [
        rows[0],
        *(row for row in rows if row.startswith(b"decoder\t1\t2\t")),
    ]
    assert len(rows) == 1 + 3 * 2 + 1


def test_heads_are_sorted_by_every_measure_there_is(attention: Attention) -> None:
    assert set(get_args(MeasureName)) == {
        name for of_kind in attention.measures().values() for name in of_kind
    }


def test_a_parser_is_looked_into(run_command: Any, toy_parser: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    sentence = "the sun sees the moon ."
    assert run_command("attend", toy_parser, sentence, "--out", page)[:2] == (0, b"")
    assert page.read_bytes().decode() == attention_page(load(toy_parser).attention(sentence).document())
    tree = "(S (NP (DT the) (NN sun)) (VP (VBZ sees)))"
    assert run_command("attend", toy_parser, "the sun sees", tree, "--json", tmp_path / "json")[0] == 0
    document = json.loads((tmp_path / "json").read_bytes())
    assert document["sequences"]["written"]["pieces"][-1] == "</s>"
    code, _, err = run_command("attend", toy_parser, "the moon sees", tree)
    assert (code, "of other words (the sun sees)" in err) == (3, True)


def test_figures_are_the_same_whenever_they_are_drawn(
    run_command: Any, toy_model: Path, tmp_path: Path
) -> None:
    for form in ("svg", "pdf"):
        for name in ("first", "second"):
            run_command("attend", toy_model, SENTENCE, f"--{form}", tmp_path / name, "--kind", "encoder")
        assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()
