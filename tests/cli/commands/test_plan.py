"""`plan` tells what a run costs, for people and for programs, and beside it what the paper prints."""

import json
from pathlib import Path
from typing import Any

import pytest

from allyouneed.cli.program import main
from allyouneed.config.presets import PRESETS, base
from allyouneed.cost.estimate import cost

Capture = pytest.CaptureFixture[str]


def told(capsys: Capture, *options: str) -> str:
    assert main(["plan", *options]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def object_told(capsys: Capture, *options: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(told(capsys, "--json", *options))
    return found


def test_the_json_is_one_object_with_the_sums_of_the_run(capsys: Capture) -> None:
    found = object_told(capsys, "--preset", "big")
    expected = cost(PRESETS["big"](), 25)
    assert found["parameters"] == sum(found["parameters_by_part"].values()) == expected.parameters
    assert found["flops_per_target_token"] == expected.flops_per_target_token
    assert found["training_flops"] == found["flops_per_target_token"] * 25_000 * 300_000
    assert found["paper"]["parameters_millions"] == 213
    assert found["paper"]["training_flops"] == pytest.approx(2.3e19, rel=0.01)
    assert found["training_seconds"] is None


def test_the_vocabulary_is_set_by_an_option(capsys: Capture) -> None:
    large, small = (object_told(capsys, "--vocab-size", size)["parameters"] for size in ("40960", "960"))
    assert large - small == 40_000 * 512


def test_attention_costs_more_in_longer_sentences(capsys: Capture) -> None:
    short, long = (object_told(capsys, "--length", n)["flops_per_target_token"] for n in ("25", "26"))
    assert long - short == 3 * 2 * 18 * 2 * 512  # scores and mixtures of one more key, in 18 sub-layers


def test_time_follows_from_what_the_hardware_sustains(capsys: Capture) -> None:
    found = object_told(capsys, "--tflops", "76")
    assert found["training_seconds"] == pytest.approx(found["training_flops"] / 76e12)
    assert "3.5 hours  at 76 TFLOPS sustained" in told(capsys, "--tflops", "76")


def test_base_is_planned_where_nothing_is_asked_and_the_papers_count_is_explained(capsys: Capture) -> None:
    lines = told(capsys).split("\n")
    assert lines[0].split() == ["parameters", "63,082,496"]
    assert "  The paper prints 65 million (Table 3)." in lines
    explanation = "vocabulary of 40,960 entries, fixed in its code; here it has 37,000."
    assert f"  That comes out with a {explanation}" in lines
    assert "  The count is 29% of the paper's estimate." in lines
    assert any(line.split()[:2] == ["activations,", "about"] and "an estimate" in line for line in lines)


def test_nothing_is_explained_where_the_count_is_the_papers(capsys: Capture) -> None:
    shown = told(capsys, "--vocab-size", "40960")
    assert "The paper prints 65 million" in shown
    assert "comes out" not in shown


def test_what_departs_from_the_paper_is_named_with_both_values(capsys: Capture) -> None:
    lines = told(capsys, "--fidelity", "released-later").split("\n")
    assert "what departs from the paper's base" in lines
    assert any(
        line.startswith("  model.norm = pre, there post  (3.1 normalises after the sum") for line in lines
    )
    found = object_told(capsys, "--set", "training.warmup_steps=8000")["deviations"]
    assert {d["setting"]: d["value"] for d in found} == {
        "model.attention_bias": True,
        "training.warmup_steps": 8_000,
    }


def test_the_paper_has_no_figures_for_a_model_it_does_not_have(capsys: Capture) -> None:
    assert "paper prints" not in told(capsys, "--preset", "multi30k_tiny")
    assert object_told(capsys, "--preset", "multi30k_tiny")["paper"] is None


def test_a_file_goes_over_the_preset_and_settings_over_both(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(b"[model]\nd_model = 64\nnum_layers = 3\n")
    found = object_told(
        capsys,
        *("--preset", "multi30k_tiny", "--config", str(path)),
        *("--set", "model.num_layers=1", "training.num_steps=7"),
    )
    config = PRESETS["multi30k_tiny"]().replace(
        model={"d_model": 64, "num_layers": 1}, training={"num_steps": 7}
    )
    assert found["parameters"] == cost(config, 25).parameters
    assert found["training_flops"] == cost(config, 25).training_flops


def test_the_configuration_of_a_run_can_be_planned_again(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "config.toml"
    config = base().replace(model={"num_layers": 2}, training={"micro_batch_tokens": 999})
    path.write_bytes(config.to_toml().encode())
    found = object_told(capsys, "--config", str(path))
    assert found["micro_batch_tokens"] == 999
    assert found["paper"]["parameters_millions"] == 36


def test_all_shows_every_preset_in_a_row(capsys: Capture) -> None:
    header, *rows = told(capsys, "--all", "--vocab-size", "40960").strip("\n").split("\n")
    purposes = {name: PRESETS[name].__doc__ or "" for name in PRESETS}
    assert all(row.split("  ")[-1] == purposes[row.split()[0]].partition("\n")[0] for row in rows[:4])
    num_columns = len(header.split()) - 2
    cells = {name: values for name, *values in (row.split()[: num_columns + 1] for row in rows)}
    assert list(cells) == list(PRESETS)
    assert {len(values) for values in cells.values()} == {num_columns}
    assert cells["table3_dk_16"] == "6 512 2048 8 16 64 0.1 0.1 100000 40960 58.0 58 8.7e+17".split()  # noqa: SIM905
    assert cells["table3_learned_positions"][-2] == "-"
    assert list(object_told(capsys, "--all")) == list(PRESETS)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--preset", "bse"], "--preset bse: unknown; did you mean base?"),
        (["--set", "model.d_modl=8"], "setting model.d_modl: is unknown; did you mean"),
        (["--config", "absent.toml"], "absent.toml: No such file or directory; name a TOML file"),
        (["--vocab-size", "1000001"], "for --vocab-size. Must be <= 1000000."),
        (["--vocab-size", "0"], 'Invalid value "0" for --vocab-size. Must be >= 1.'),
        (["--length", "-1"], "--length"),
        (["--tflops", "0"], "--tflops"),
        (["--all", "--preset", "base"], "--all shows every preset as it is; leave out --preset"),
        (["--all", "--fidelity", "paper"], "leave out --preset, --fidelity, --config and --set"),
    ],
)
def test_what_cannot_be_planned_is_told_in_one_line(
    options: list[str], message: str, capsys: Capture
) -> None:
    assert main(["plan", *options]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("allyouneed: error[E-USAGE]: ")
    assert err.count("\n") == 1
    assert message in err
