"""`bench translate` measures, prints a table and keeps the results."""

import json
from pathlib import Path
from typing import get_args

import pytest
from tests.lab.bench.conftest import loaded_processes  # noqa: F401 - for all tests here
from tests.packages import require_packages

from allyouneed.cli.commands.bench_translate import Peer, ShapeName
from allyouneed.cli.program import main
from allyouneed.config.model import ModelConfig
from allyouneed.interop.export_limits import OF_PIECES
from allyouneed.interop.exporting import FORMATS
from allyouneed.lab.bench.contenders import NEEDED, OURS
from allyouneed.lab.bench.decoding_contenders import CONTENDERS
from allyouneed.lab.bench.decoding_speed import LENGTHS
from allyouneed.lab.bench.decoding_workloads import MODELS
from allyouneed.native.library import instructions, library

Capture = pytest.CaptureFixture[str]
QUICK = ("--precision", "float32", "--rounds", "1", "--threads", "1")


def test_a_table_is_printed_and_the_results_are_kept(
    toy_model: Path, toy_text: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One peer is not installed, and left out with one line."""
    requirement = NEEDED["huggingface"][1]
    monkeypatch.setitem(NEEDED, "huggingface", ("no_such_package", requirement))
    require_packages("ctranslate2")
    out = tmp_path / "deep" / "speed.json"
    text = ["--source", str(toy_text / "valid.en"), "--reference", str(toy_text / "valid.toy")]
    options = ["--beam-size", "2", "--out", str(out)]
    assert main(["bench", "translate", str(toy_model), *text, *options, *QUICK]) == 0
    told = capsys.readouterr()
    expected = "huggingface is left out because it is not installed: pip install 'allyouneed[huggingface]'"
    assert told.err.startswith(f"allyouneed: {expected}\n")
    lines = told.out.split("\n")
    start = next(number for number, line in enumerate(lines) if line.startswith("contender"))
    assert [line.split()[:2] for line in lines[start + 1 : start + 3]] == [
        [OURS, "float32"],
        ["ctranslate2", "float32"],
    ]
    result = json.loads(out.read_bytes())["model"]
    ours, peer = result["rows"]
    assert f"{ours['sentences_per_second']['median']:,.1f}" in lines[start + 1].split()
    assert f"{ours['times_as_fast_as']['ctranslate2 float32']['median']:.2f}" in lines[start + 1].split()
    assert peer["times_as_fast_as"]["ctranslate2 float32"]["median"] == 1
    assert (result["search"]["beam_size"], result["sentences"], result["rounds"]) == (2, 20, 1)
    assert "ctranslate2" in result["environment"]
    assert result["environment"].get("instructions") == (instructions() if library() else None)


def test_a_shape_is_measured_by_length_and_other_results_stay(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ModelConfig(
        source_vocab_size=300, target_vocab_size=300, d_model=16, d_ff=24, num_layers=1, num_heads=2
    )
    monkeypatch.setitem(MODELS, "base", model)
    out = tmp_path / "speed.json"
    out.write_bytes(b'{"small": {"rows": []}}')
    assert main(["bench", "translate", "--shape", "base", "--lengths", "--out", str(out), *QUICK]) == 0
    results = json.loads(out.read_bytes())
    assert results["small"] == {"rows": []}
    assert [row["length"] for row in results["base, by length"]["rows"]] == list(LENGTHS)
    assert "x the shortest" in capsys.readouterr().out


@pytest.mark.parametrize("options", [["--lengths"], ["--against", "huggingface"]])
def test_a_precision_that_nobody_has_is_told(
    options: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr("allyouneed.lab.bench.decoding_contenders.available", lambda: ())
    given = ["--shape", "small", "--precision", "int8", *options, "--out", str(tmp_path / "x.json")]
    assert main(["bench", "translate", *given]) == 2
    assert "--precision: no contender has int8 here; name another" in capsys.readouterr().err


def test_the_options_name_shapes_and_all_peers() -> None:
    assert set(get_args(ShapeName)) == set(MODELS)
    assert {OURS, *get_args(Peer)} == set(CONTENDERS)
    assert set(get_args(Peer)) == set(FORMATS) - OF_PIECES  # models of the bench have none


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "no model; name one"),
        (["model"], 2, "name a file with --source"),
        (["--shape", "base", "--source", "{tmp}/notes"], 2, "--source: read for models, without --lengths,"),
        (["{tmp}/m", "--lengths", "--reference", "{tmp}/notes"], 2, "--reference: read for models, without"),
        (
            ["--shape", "huge"],
            2,
            'Invalid value "huge" for --shape. Choose from: "small", "base", "opus", "nllb".',
        ),
        (["--shape", "base", "--against", "fairseq"], 2, 'Invalid value "fairseq" for --against.'),
        (["--shape", "base", "--rounds", "0"], 2, 'Invalid value "0" for --rounds. Must be >= 1.'),
        (["--shape", "base", "--out", "{tmp}/notes"], 2, "notes: is not a result file of bench"),
        (["--shape", "base", "--out", "{tmp}/notes/speed.json"], 6, "error[E-DISK]"),
        (["{tmp}/a/one", "{tmp}/b/one", "--source", "{tmp}/notes"], 2, "two are named one; measure one at"),
        (["{tmp}/base", "--shape", "base", "--source", "{tmp}/notes"], 2, "two are named base; measure one"),
        (["{tmp}/nothing", "--source", "{tmp}/notes", "--out", "{tmp}/x.json"], 4, "error[E-MODEL]"),
    ],
)
def test_what_cannot_be_measured_is_told_in_one_line(
    arguments: list[str], code: int, message: str, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "notes").write_bytes(b"some notes")
    given = [argument.format(tmp=tmp_path) for argument in arguments]
    assert main(["bench", "translate", *given]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert message in err
