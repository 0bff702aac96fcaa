"""Table 2: every system until its budget is used, an ensemble, and the paper's figures beside ours."""

from pathlib import Path

import pytest
import torch

from allyouneed.errors import UsageError
from allyouneed.experiments.experiment import Inputs, Results
from allyouneed.experiments.reproduction import reproduce
from allyouneed.experiments.scales import SCALES, Scale
from allyouneed.experiments.table2 import SYSTEMS, TABLE2, at_scale, row_name
from allyouneed.interfaces.reproduction_report import table_of
from allyouneed.presets import PRESETS

MINUTE = Scale(
    "minute",
    32,
    8,
    {
        "batch_tokens": 400,
        "micro_batch_tokens": 200,
        "warmup_steps": 4,
        "checkpoint_every_steps": 2,
        "keep_checkpoints": 1,
        "average_last": 1,
        "precision": "float32",
    },
    budget_seconds=0.5,
    budget_flops=2e8,
)


@pytest.fixture(scope="module")
def results(toy_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Results:
    out = tmp_path_factory.mktemp("table2")
    *_, last = reproduce(TABLE2, out, MINUTE, torch.device("cpu"), inputs=Inputs(toy_data), num_seeds=1)
    return last


def test_every_system_uses_its_budget_and_little_more(results: Results) -> None:
    assert not results.failures()
    for name in SYSTEMS:
        [flops] = results.values(row_name(name, "flops"), "matmul_flops")
        assert 2e8 <= flops < 4e8, "an update of the largest is less than a budget"
        for budget in ("seconds", "flops"):
            ended = results.directory / row_name(name, budget) / "seed-1" / "run" / "exit.json"
            assert b"out of budget" in ended.read_bytes()


def test_the_ensemble_is_scored_and_compared_with_its_members(results: Results) -> None:
    assert len(results.values("ensemble", "bleu")) == 1
    row = next(row for row in results.rows if row.name == "ensemble")
    assert list(row.beside) == [row_name(name, "seconds") for name in SYSTEMS]
    assert len(results.outcomes) == 2 * len(SYSTEMS) + 1


def test_the_papers_bleu_and_costs_stand_beside_ours(results: Results) -> None:
    titles, *lines = table_of(results)
    cells = {line[0]: dict(zip(titles, line, strict=True)) for line in lines}
    paper = {name: cells[row_name(name, "flops")]["BLEU, paper"] for name in SYSTEMS}
    assert paper == {
        "transformer": "27.3",
        "recurrent": "24.6",
        "convolutional": "25.16",
        "bytenet": "23.75",
        "experts": "26.03",
    }
    costs = [cells[row_name(name, "flops")]["formula flops, paper"] for name in SYSTEMS]
    assert costs == ["3.3e+18", "2.3e+19", "9.6e+18", "", "2e+19"]


@pytest.mark.parametrize("scale", SCALES)
def test_every_system_fits_every_scale(scale: str) -> None:
    for system in SYSTEMS.values():
        preset = PRESETS[system.preset]()
        config = at_scale(SCALES[scale], preset)
        assert config.model.d_model * SCALES[scale].narrower == preset.model.d_model
        given = SCALES[scale].training.get("learning_rate_factor", 1.0)
        expected = given * preset.training.learning_rate_factor
        assert config.training.learning_rate_factor == pytest.approx(expected)


def test_the_big_model_is_a_row_at_the_papers_scale_only() -> None:
    rows = {scale: {row.name: row for row in TABLE2.rows(SCALES[scale])} for scale in ("tiny", "paper")}
    assert set(rows["paper"]) - set(rows["tiny"]) == {"big"}
    assert rows["paper"]["big"].paper == {"bleu": 28.4, "parameters_millions": 213, "formula_flops": 2.3e19}


def test_an_unknown_row_is_refused_with_those_that_there_are(toy_data: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has the rows transformer_seconds, recurrent_seconds"):
        list(reproduce(TABLE2, tmp_path, MINUTE, torch.device("cpu"), inputs=Inputs(toy_data), only=["gnmt"]))
