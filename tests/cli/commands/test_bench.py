"""`bench train` measures, prints a table and keeps the results."""

import contextlib
import io
import json
import sys
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, get_args

import pytest
from tests.lab.bench.conftest import loaded_processes  # noqa: F401 - for all tests here

from allyouneed.cli.commands.bench import Peer, ShapeName
from allyouneed.cli.program import main
from allyouneed.config.model import ModelConfig
from allyouneed.lab.bench import training_speed as bench_training
from allyouneed.lab.bench.contenders import OURS
from allyouneed.lab.bench.training_contenders import CONTENDERS
from allyouneed.lab.bench.training_workloads import SHAPES, Shape, equal_lengths, multi30k_lengths

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

Capture = pytest.CaptureFixture[str]
MODEL = ModelConfig(
    source_vocab_size=297, target_vocab_size=297, d_model=16, d_ff=24, num_layers=1, num_heads=2
)


def make_tiny(patch: pytest.MonkeyPatch) -> None:
    """Give the shapes a model that takes milliseconds, and a limit from matrices that do."""
    patch.setattr(bench_training, "_LIMIT_SIZE", 128)
    patch.setitem(SHAPES, "small", Shape(MODEL, 300, 100, 1, {"short": multi30k_lengths}))
    patch.setitem(SHAPES, "base", Shape(MODEL, 100, 100, 1, {"a": partial(equal_lengths, 5)}))


class Measured(NamedTuple):
    """What one call of the program has printed, and left in a file that held results of other shapes."""

    printed: str
    results: dict[str, Any]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    out, printed = tmp_path_factory.mktemp("bench") / "speed.json", io.StringIO()
    out.write_bytes(b'{"length": {"rows": []}, "small": {"rows": []}}')
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        make_tiny(patch)
        patch.setenv("MALLOC_TRIM_THRESHOLD_", "17179869184")
        assert main(["bench", "train", "--against", "tutorial", "--rounds", "1", "--out", str(out)]) == 0
    return Measured(printed.getvalue(), json.loads(out.read_bytes()))


def test_a_table_is_printed_and_the_results_are_kept(measured: Measured) -> None:
    shown = measured.printed.split("\n")
    start = next(number for number, line in enumerate(shown) if line.startswith("contender"))
    table = [line.split() for line in shown[start + 1 : start + 5]]
    names = ("allyouneed", "tutorial")
    assert [row[:2] for row in table] == [[n, p] for n in names for p in ("float32", "bfloat16")]
    result = measured.results["small"]
    assert result["model"]["d_model"] == 16
    assert result["rounds"] == 1
    ours, *_, tutorial = result["rows"]
    assert table[0][2] == f"{ours['target_tokens_per_second']['median']:,.0f}"
    assert table[0][6] == f"{ours['times_as_fast_as']['tutorial float32']['median']:.2f}"
    assert tutorial["times_as_fast_as"]["tutorial bfloat16"]["median"] == 1
    assert set(ours["times_as_fast_as"]) == {f"{n} {p}" for n in names for p in ("float32", "bfloat16")}


def test_shapes_that_are_not_measured_keep_their_results(measured: Measured) -> None:
    assert measured.results["length"] == {"rows": []}


def test_settings_of_the_environment_on_which_speed_depends_are_told_and_kept(measured: Measured) -> None:
    assert "MALLOC_TRIM_THRESHOLD_=17179869184" in measured.printed
    assert measured.results["small"]["settings"]["MALLOC_TRIM_THRESHOLD_"] == "17179869184"


def test_a_place_where_nothing_can_be_written_is_found_out_before_anything_is_measured(
    tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "file").touch()
    assert main(["bench", "train", "--out", str(tmp_path / "file" / "speed.json")]) == 6
    assert "error[E-DISK]" in capsys.readouterr().err


def test_a_peer_that_is_not_installed_is_left_out_and_lengths_are_taken_from_prepared_data(
    toy_data: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_tiny(monkeypatch)
    monkeypatch.setitem(sys.modules, "transformers", None)
    out = tmp_path / "speed.json"
    options = ["--precision", "float32", "--rounds", "1", "--out", str(out)]
    assert main(["bench", "train", "--data", str(toy_data), *options]) == 0
    told = capsys.readouterr()
    expected = "marian is left out because it is not installed: pip install 'allyouneed[bench]'"
    lines = [line for line in told.err.splitlines() if "measuring: " not in line]  # which slow ones tell
    assert lines == [f"allyouneed: {expected}"]
    assert "marian  " not in told.out
    rows = json.loads(out.read_bytes())["small"]["rows"]
    assert [row["contender"] for row in rows] == [OURS, "tutorial"]
    assert {row["workload"] for row in rows} == {f"lengths of {toy_data}"}


def test_the_options_name_all_shapes_and_peers() -> None:
    assert set(get_args(ShapeName)) == set(SHAPES)
    assert {OURS, *get_args(Peer)} == set(CONTENDERS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["train", "--shape", "huge"],
            'Invalid value "huge" for --shape. Choose from: "small", "base", "length".',
        ),
        (["train", "--against", "fairseq"], 'Invalid value "fairseq" for --against.'),
        (["train", "--rounds", "0"], 'Invalid value "0" for --rounds. Must be >= 1.'),
        (["train", "--precision", "float8"], 'Invalid value "float8" for --precision.'),
        (["cook"], 'Unknown command "cook". Available commands: train, translate.'),
        (["train", "--out", "{tmp}/notes.json"], "notes.json: is not a result file of bench"),
    ],
)
def test_what_cannot_be_measured_is_told_in_one_line(
    arguments: list[str], message: str, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "notes.json").write_bytes(b"some notes")
    assert main(["bench", *(argument.format(tmp=tmp_path) for argument in arguments)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("allyouneed: error[E-USAGE]: ")
    assert message in err
