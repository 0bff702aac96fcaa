"""`reproduce` runs rows, goes on where it was, and prints the paper's figures beside its own."""

from pathlib import Path
from typing import get_args

import pytest

from allyouneed.cli.commands.reproduce import reproduce
from allyouneed.cli.program import main
from allyouneed.lab.paper.reproduction import EXPERIMENTS
from allyouneed.lab.paper.scales import SCALES, Scale


def test_it_wants_data_for_rows_that_train(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "table4", "--scale", "small", "--out", str(tmp_path / "out")]) == 2
    assert "--scale small: table4 has these: tiny, paper" in capsys.readouterr().err
    assert main(["reproduce", "table3", "--out", str(tmp_path / "out")]) == 2
    assert "name prepared folders with --data" in capsys.readouterr().err


def test_rows_are_trained_and_printed_and_the_second_time_only_printed(
    toy_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = {"batch_tokens": 400, "num_steps": 4, "warmup_steps": 4, "precision": "float32"}
    monkeypatch.setitem(SCALES, "tiny", Scale("tiny", 8, 2, steps))
    command = ["reproduce", "table3", "--data", str(toy_data), "--rows", "layers_2", "--seeds", "1"]
    command += ["--out", str(tmp_path / "out")]
    assert main(["reproduce", "table3", "--data", str(toy_data), "--rows", "heads_33"]) == 2
    assert "has these: base, heads_4" in capsys.readouterr().err
    assert main(command) == 0
    out, err = capsys.readouterr()
    assert out.split("\n")[0].split()[:2] == ["row", "what"]
    assert [line.split()[0] for line in out.split("\n")[1:3]] == ["base", "layers_2"]
    assert "row 2 of 2: layers_2, seed 1" in err
    assert (tmp_path / "out" / "results.html").is_file()
    assert main(command) == 0
    again, err = capsys.readouterr()
    assert again == out
    assert "row 2" not in err
    assert out.endswith("None of 1 row is decided: 1 not tested. Details: results.html\n")
    assert "p < 0.05" not in out
    markdown = (tmp_path / "out" / "results.md").read_bytes().decode()
    assert "Settings: d_model, d_ff, n_p and" in markdown
    assert "for each figure and kind of test by itself; p < 0.05 is significant" in markdown


def test_rows_that_were_kept_are_printed_again_elsewhere_without_data(
    toy_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = {"batch_tokens": 400, "num_steps": 4, "warmup_steps": 4, "precision": "float32"}
    monkeypatch.setitem(SCALES, "tiny", Scale("tiny", 8, 2, {**steps, "validate_every_steps": 2}))
    rows, first, second = (str(tmp_path / name) for name in ("rows", "one/table", "two/other"))
    asked = ["--rows", "layers_2", "--seeds", "2"]
    command = ["reproduce", "table3", "--data", str(toy_data), *asked, "--out", first, "--keep", rows]
    assert main(command) == 0
    out, _ = capsys.readouterr()
    for averaged in ("perplexity, averaged", "BLEU, averaged"):
        assert averaged in out.split("\n")[0]
    kept = sorted(str(file.relative_to(tmp_path)) for file in (tmp_path / "rows").rglob("result.json"))
    assert kept == [
        f"rows/table/{row}/seed-{seed}/result.json" for row in ("base", "layers_2") for seed in (1, 2)
    ]
    assert main(["reproduce", "table3", "--from", rows, "--out", second]) == 0
    again, err = capsys.readouterr()
    assert again == out
    assert "seed" not in err, "no row is computed"
    pages = [(Path(folder) / "results.html").read_bytes() for folder in (first, second)]
    assert pages[0] == pages[1]
    assert b"validation perplexity" in pages[0]
    assert main(["reproduce", "table3", "--from", rows, "--out", second, *asked]) == 2
    assert "--rows --seeds: no row is computed without --data; leave it out, or give --data" in (
        capsys.readouterr().err
    )
    assert main(["reproduce", "table3", "--from", str(tmp_path / "nothing"), "--out", second]) == 2
    assert (
        "nothing: has no kept rows of table3 tiny; name another folder with --from" in capsys.readouterr().err
    )


def test_a_row_that_fails_ends_in_an_exit_code_of_its_own(
    toy_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = {"batch_tokens": 400, "num_steps": 4, "warmup_steps": 1, "learning_rate_factor": 1e30}
    monkeypatch.setitem(SCALES, "tiny", Scale("tiny", 8, 2, {**steps, "precision": "float32"}))
    command = ["reproduce", "table3", "--data", str(toy_data), "--rows", "base", "--seeds", "1"]
    command += ["--out", str(tmp_path / "out")]
    for _ in range(2):
        assert main(command) == 9
        out, _ = capsys.readouterr()
        assert "base  - (failed)" in out
        assert "finite" in out
        assert f"to continue it, delete {tmp_path / 'out' / 'base' / 'seed-1' / 'result.json'}" in out


def test_every_experiment_is_in_the_help_and_in_the_message_for_an_unknown_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["reproduce", "table5"]) == 2
    assert f"reproduce table5: name one of {', '.join(EXPERIMENTS)}, or index" in capsys.readouterr().err
    assert all(f"`{name}`" in str(reproduce.__doc__) for name in (*EXPERIMENTS, "index"))


def test_every_scale_can_be_named() -> None:
    assert get_args(reproduce.__annotations__["scale"]) == tuple(SCALES)
