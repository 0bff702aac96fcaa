"""Table 2: every system until its budget is used, an ensemble, and the paper's figures beside ours."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from allyouneed.config.presets import PRESETS
from allyouneed.config.run import RunConfig
from allyouneed.cost.estimate import cost
from allyouneed.errors import DataError, DivergedError, UsageError
from allyouneed.lab.paper import table2
from allyouneed.lab.paper.experiment import Experiment, Inputs, Results, Work
from allyouneed.lab.paper.identity import read_json
from allyouneed.lab.paper.pages.results_page import table_cells, write_report
from allyouneed.lab.paper.pages.results_table import results_table
from allyouneed.lab.paper.reproduction import EXPERIMENTS, reproduce
from allyouneed.lab.paper.scales import SCALES, Scale
from allyouneed.lab.paper.table2 import SYSTEMS, TABLE2, TABLE2_EN_FR, System, at_scale, folder_of, rates
from allyouneed.lab.statistics.verdicts import judge
from allyouneed.runs.loading import load_translator
from allyouneed.storage.publish import read_manifest
from allyouneed.training.flops import training_flops
from allyouneed.training.optimizer import learning_rate

MINUTE = Scale(
    "minute",
    25,
    8,
    {
        "batch_tokens": 400,
        "micro_batch_tokens": 200,
        "num_steps": 20,
        "warmup_steps": 4,
        "average_last": 2,
        "precision": "float32",
    },
    budget_flops=2e8,
)


@pytest.fixture(scope="module")
def results(toy_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Results:
    out = tmp_path_factory.mktemp("table2")
    *_, last = reproduce(TABLE2, out, MINUTE, torch.device("cpu"), inputs=Inputs(toy_data))
    return last


def test_every_system_uses_its_budget_and_little_more_with_every_rate(results: Results) -> None:
    assert not results.failures()
    for name in SYSTEMS:
        [flops] = results.values(name, "matmul_flops")
        assert 2e8 <= flops < 4e8, "an update of the largest is less than a budget"
        for rate in rates(MINUTE):
            assert b"out of budget" in (run_of(results, name, rate) / "exit.json").read_bytes()


def run_of(results: Results, name: str, rate: float) -> Path:
    return results.directory / name / "seed-1" / folder_of(rate) / "run"


def test_every_system_warms_up_for_the_same_share_of_what_its_flops_buy(results: Results) -> None:
    for name in SYSTEMS:
        for rate in rates(MINUTE):
            run = run_of(results, name, rate)
            updates = read_json(run / "exit.json")["step"]
            config = RunConfig.from_toml(run / "config.toml")
            training, d_model = config.training, config.model.d_model
            assert training.warmup_steps == max(1, round(updates * 4 / 20))
            highest = learning_rate(training.warmup_steps, config)
            assert highest == pytest.approx(rate / math.sqrt(d_model * 4))


def test_a_row_is_its_run_with_the_lowest_perplexity(results: Results) -> None:
    for name in SYSTEMS:
        outcome = results.outcomes[name][1]
        found = {float(rate): of_rate["perplexity"] for rate, of_rate in outcome["rates"].items()}
        assert list(found) == sorted(found)
        assert set(found) >= set(rates(MINUTE))
        assert not rates(MINUTE, found), "no further rate is due"
        assert outcome["perplexity"] == pytest.approx(min(found.values()), rel=1e-4)
        assert outcome["rate"] == min(found, key=lambda rate: found[rate])
        for rate in rates(MINUTE):
            of_rate = run_of(results, name, rate).parent
            assert not (of_rate / "hypotheses.txt").exists(), "only the best run translates"
        for curve in (outcome["curve"], *(of_rate["curve"] for of_rate in outcome["rates"].values())):
            assert curve["matmul_flops"] == sorted(curve["matmul_flops"])
            assert curve["seconds"] == sorted(curve["seconds"])
            assert len(curve["step"]) == len(curve["perplexity"]) >= (2 if name == "transformer" else 1)


def trained(monkeypatch: pytest.MonkeyPatch, found: Mapping[str, float | Exception]) -> None:
    """Let runs have these perplexities, by folder, or end with these errors, in place of training."""

    def run(work: Work, config: RunConfig) -> dict[str, Any]:
        of_run = found[work.directory.name]
        if isinstance(of_run, Exception):
            raise of_run
        return {"perplexity": of_run, "curve": {}}

    monkeypatch.setattr(table2, "_run", run)
    monkeypatch.setattr(table2, "_scores", lambda work, folder: {"scored": folder.name})


@pytest.mark.parametrize(
    ("best", "tried"),
    [
        (0.125, [0.125, 0.25, 0.5, 1, 2]),
        (0.25, [0.125, 0.25, 0.5, 1, 2]),
        (0.5, [0.25, 0.5, 1, 2]),
        (1.0, [0.5, 1, 2]),
        (2.0, [0.5, 1, 2, 4]),
        (8.0, [0.5, 1, 2, 4, 8]),
    ],
)
def test_rates_are_tried_until_the_best_lies_between_others_and_it_alone_is_scored(
    best: float, tried: list[float], toy_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    every_rate = [2.0**power for power in range(-5, 6)]
    trained(monkeypatch, {folder_of(rate): 5 + abs(math.log2(rate / best)) for rate in every_rate})
    only = ["transformer"]
    *_, found = reproduce(TABLE2, tmp_path, MINUTE, torch.device("cpu"), Inputs(toy_data), only=only)
    outcome = found.outcomes["transformer"][1]
    assert outcome["scored"] == folder_of(best)
    assert [float(rate) for rate in outcome["rates"]] == tried


def test_a_rate_that_diverges_is_named_and_the_best_of_the_others_taken(
    toy_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    diverged = DivergedError("the loss is not finite")
    trained(monkeypatch, {"rate-0.5": 7.0, "rate-1": 6.0, "rate-2": diverged})
    inputs, only = Inputs(toy_data), ["transformer"]
    *_, found = reproduce(TABLE2, tmp_path / "one", MINUTE, torch.device("cpu"), inputs, only=only)
    outcome = found.outcomes["transformer"][1]
    assert outcome["rate"] == 1
    assert "the loss is not finite" in outcome["rates"]["2"]["failed"]
    trained(monkeypatch, dict.fromkeys(("rate-0.5", "rate-1", "rate-2"), diverged))
    *_, found = reproduce(TABLE2, tmp_path / "all", MINUTE, torch.device("cpu"), inputs, only=only)
    assert "diverged with every learning rate" in found.outcomes["transformer"][1]["failed"]


def test_at_the_papers_size_there_is_one_rate() -> None:
    assert rates(SCALES["paper"]) == (1.0,)
    assert rates(SCALES["tiny"]) == (0.5, 1.0, 2.0)


def test_what_is_scored_is_the_mean_of_the_last_checkpoints(results: Results) -> None:
    for name in SYSTEMS:
        model = run_of(results, name, 1.0).with_name("model")
        parents = read_manifest(model, "model")["parents"]
        assert len(parents) == 2
        assert load_translator(model).config.training.average_last == 2


def test_the_page_shows_the_curves_of_all_systems_against_both_costs(results: Results) -> None:
    page, *_ = [file.read_bytes().decode() for file in write_report(results) if file.suffix == ".html"]
    assert "validation perplexity against FLOPs and against seconds" in page
    assert "validation BLEU (greedy) against FLOPs and against seconds" in page
    assert "Thin lines are the runs with other learning rates." in page


def test_the_page_names_budgets_and_what_differs_between_systems(results: Results) -> None:
    settings = TABLE2.settings(SCALES["quick"])
    assert settings[:3] == [
        "runs end when 3.3e+13 counted FLOPs are used",
        "warm-up is 6% of the updates that so many FLOPs buy",
        "32 experts in place of 2,048, 4 of them for a token",
    ]
    assert "layers divided by 2" in settings
    assert "widths of bytenet divided by 2 besides" in settings
    widths = "128 (transformer), 128 (recurrent), 128 (convolutional), 200 (bytenet), 128 (experts)"
    assert f"model.d_model = {widths}" in settings
    assert not [told for told in settings if "_steps" in told], "rows end by their budgets"
    assert {"model.dropout = 0.1", "training.learning_rate_factor = 0.5"} < set(settings)
    of_paper = TABLE2.settings(SCALES["paper"])
    assert not [told for told in of_paper if "besides" in told]
    factors = "1 (transformer), 0.4 (recurrent), 0.7 (convolutional), 0.75 (bytenet), 0.4 (experts)"
    assert f"training.learning_rate_factor = {factors}" in of_paper
    beams = "4 (transformer), 4 (recurrent), 5 (convolutional), 12 (bytenet), 4 (experts)"
    assert f"search.beam_size = {beams}" in of_paper
    page, *_ = write_report(results)
    assert "8 experts in place of 2,048" in page.read_bytes().decode()


@pytest.mark.parametrize("scale", ["tiny", "small"])
def test_small_systems_share_one_recipe_and_at_the_papers_size_each_has_its_own(scale: str) -> None:
    base = PRESETS["base"]()
    for system in SYSTEMS.values():
        preset = PRESETS[system.preset]()
        small, large = (at_scale(SCALES[name], system) for name in (scale, "paper"))
        for config, expected in ((small, base), (large, preset)):
            assert config.model.dropout == expected.model.dropout
            assert config.training.label_smoothing == expected.training.label_smoothing
            factor = SCALES[scale].training["learning_rate_factor"] if config is small else 1.0
            assert config.training.learning_rate_factor == factor * expected.training.learning_rate_factor
            assert config.search == expected.search


def test_at_the_papers_scale_every_system_fits_a_gpu_of_80_gigabytes() -> None:
    for system in SYSTEMS.values():
        needed = cost(at_scale(SCALES["paper"], system), length=30).memory
        assert needed.weights + needed.gradients + needed.moments < 60e9, "and leaves room for the rest"


def test_systems_are_trained_with_as_many_seeds_as_are_asked_for_and_by_default_with_one(
    results: Results,
) -> None:
    assert {row.name for row in results.rows if row.every_seed} == {row.name for row in results.rows}
    assert all(list(of_row) == [1] for of_row in results.outcomes.values())


def test_the_ensemble_is_scored_and_compared_with_its_members(results: Results) -> None:
    assert len(results.values("ensemble", "bleu")) == 1
    row = next(row for row in results.rows if row.name == "ensemble")
    assert row.baselines == list(SYSTEMS)
    assert len(results.outcomes) == len(SYSTEMS) + 1
    members = [results.values(name, "parameters_millions") for name in SYSTEMS]
    assert results.values("ensemble", "parameters_millions") == [pytest.approx(sum(map(sum, members)))]


def test_the_papers_bleu_and_costs_stand_beside_ours(results: Results) -> None:
    titles, *lines = table_cells(results_table(results))
    cells = {line[0]: dict(zip(titles, line, strict=True)) for line in lines}
    paper = {name: cells[name]["BLEU, paper"] for name in SYSTEMS}
    assert paper == {
        "transformer": "27.3",
        "recurrent": "24.6",
        "convolutional": "25.16",
        "bytenet": "23.75",
        "experts": "26.03",
    }
    costs = [cells[name]["FLOPs by formula, paper"] for name in SYSTEMS]
    assert costs == ["3.3e+18", "2.3e+19", "9.6e+18", "", "2e+19"]
    french = {row.name: row.paper for row in TABLE2_EN_FR.rows(MINUTE)}
    assert [french[name].get("bleu") for name in SYSTEMS] == [38.1, 39.92, 40.46, None, 40.56]
    rows_of_paper = [row for of in (TABLE2, TABLE2_EN_FR) for row in of.rows(SCALES["paper"])]
    bigs = [row for row in rows_of_paper if row.name == "big"]
    assert [row.paper["bleu"] for row in bigs] == [28.4, 41.8]
    assert [row.compute.keywords for row in bigs] == [{"preset": "big"}, {"preset": "big_en_fr"}]  # type: ignore[attr-defined]


def test_ours_are_written_as_the_papers_are_and_stand_once(results: Results) -> None:
    titles, *lines = table_cells(results_table(results))
    ours = titles.index("FLOPs by formula, paper") + 1
    [flops] = results.values(lines[0][0], "formula_flops")
    assert lines[0][ours] == f"{flops:.1e}"
    assert "by formula" not in titles


@pytest.mark.parametrize("scale", ["tiny", "paper"])
def test_the_verdict_says_why_the_order_is_not_the_papers(scale: str, tmp_path: Path) -> None:
    rows = TABLE2.rows(SCALES[scale])
    bleu = {"transformer": 30.0, "convolutional": 29.0, "recurrent": 28.0, "bytenet": 27.0}
    outcomes = {row: {1: {"bleu": value}} for row, value in bleu.items()}
    results = Results(TABLE2, SCALES[scale], rows, outcomes, tmp_path)
    alike = results_table(results).verdict
    assert alike == (
        "The order by BLEU is the paper's: transformer > convolutional > recurrent > bytenet. "
        "None of 3 rows is decided: 3 not tested."
    )
    outcomes["recurrent"][2] = {"bleu": 33.0}
    differs = results_table(results).verdict
    assert "recurrent > transformer > convolutional > bytenet, there transformer > conv" in differs
    assert ("as 3.3e+13 FLOPs for each system show which learns fastest" in differs) == (scale == "tiny")


def test_a_system_is_compared_with_the_transformer(results: Results) -> None:
    beside = {row.name: {j.baseline for j in judge(results) if j.row == row.name} for row in results.rows}
    assert beside == {
        "transformer": set(),
        **{name: {"transformer"} for name in [*SYSTEMS][1:]},
        "ensemble": {*SYSTEMS},
    }


@pytest.mark.parametrize("scale", SCALES)
def test_every_system_fits_every_scale(scale: str) -> None:
    for system in SYSTEMS.values():
        config, narrower = at_scale(SCALES[scale], system), SCALES[scale].narrower
        besides = 1 if narrower == 1 else system.narrower
        assert config.model.d_model * narrower * besides == PRESETS[system.preset]().model.d_model


@pytest.mark.parametrize("scale", ["tiny", "small"])
def test_an_update_costs_all_systems_about_the_same_where_they_are_small(scale: str) -> None:
    def flops(system: System) -> int:
        config = at_scale(SCALES[scale], system).model
        vocabularies = {"source_vocab_size": 4_000, "target_vocab_size": 4_000}
        return training_flops(config.replace(**vocabularies), 64, 15, 16, 64 * 16)

    of_transformer = flops(SYSTEMS["transformer"])
    for system in SYSTEMS.values():
        assert 0.75 < flops(system) / of_transformer < 1.33


def test_the_big_model_is_a_row_at_the_papers_scale_only() -> None:
    rows = {scale: {row.name: row for row in TABLE2.rows(SCALES[scale])} for scale in ("tiny", "paper")}
    assert set(rows["paper"]) - set(rows["tiny"]) == {"big"}
    assert rows["paper"]["big"].paper == {"bleu": 28.4, "parameters_millions": 213, "formula_flops": 2.3e19}


def test_an_unknown_row_is_refused_with_those_that_there_are(toy_data: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has these: transformer, recurrent, convolutional"):
        list(reproduce(TABLE2, tmp_path, MINUTE, torch.device("cpu"), inputs=Inputs(toy_data), only=["gnmt"]))


def test_a_test_set_is_scored_beside_the_validation_text(
    toy_data: Path, toy_text: Path, tmp_path: Path
) -> None:
    files = {"test_source": toy_text / "valid.en", "test_reference": toy_text / "valid.toy"}
    inputs = Inputs(toy_data, test=files)
    only = ["transformer"]
    *_, results = reproduce(TABLE2, tmp_path, MINUTE, torch.device("cpu"), inputs, only=only)
    folder = tmp_path / "transformer" / "seed-1"
    assert (folder / "references.txt").read_bytes() == files["test_reference"].read_bytes()
    assert len((folder / "hypotheses_valid.txt").read_text().splitlines()) > 0
    for figure in ("bleu", "perplexity"):
        assert results.values("transformer", f"{figure}_valid")
    [of_valid] = results.values("transformer", "perplexity_valid")
    rates_found = results.outcomes["transformer"][1]["rates"].values()
    assert of_valid == pytest.approx(min(of_rate["perplexity"] for of_rate in rates_found), rel=1e-4)
    assert "Scored on a test set" in "\n".join(results_table(results).remarks)
    with pytest.raises(UsageError, match="began with another test set"):
        next(reproduce(TABLE2, tmp_path, MINUTE, torch.device("cpu"), Inputs(toy_data), only=only))


@pytest.mark.parametrize(
    ("experiment", "given", "told"),
    [
        (TABLE2, ["test_source"], "give test_source and test_reference, not test_source"),
        (TABLE2, ["test_trees"], "give test_source and test_reference, not test_trees"),
        (EXPERIMENTS["table3"], ["test_source", "test_reference"], "has no use for a test set; leave it out"),
    ],
)
def test_a_test_set_that_does_not_suit_is_refused_before_any_row(
    experiment: Experiment, given: Sequence[str], told: str, toy_data: Path, toy_text: Path, tmp_path: Path
) -> None:
    inputs = Inputs(toy_data, test=dict.fromkeys(given, toy_text / "valid.en"))
    with pytest.raises(UsageError, match=told):
        next(reproduce(experiment, tmp_path / "out", MINUTE, torch.device("cpu"), inputs))
    assert not (tmp_path / "out").exists()


def test_a_test_set_of_different_lengths_is_refused_before_any_row(toy_data: Path, tmp_path: Path) -> None:
    for name, text in (("a", "one\n"), ("b", "one\ntwo\n")):
        (tmp_path / name).write_text(text)
    inputs = Inputs(toy_data, test={"test_source": tmp_path / "a", "test_reference": tmp_path / "b"})
    with pytest.raises(DataError, match="has 1 lines, but"):
        next(reproduce(TABLE2, tmp_path / "out", MINUTE, torch.device("cpu"), inputs))
