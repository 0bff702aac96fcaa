"""Rows are told apart by what seeds and the choice of sentences make, and from noise with care."""

import functools
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from sacrebleu import corpus_bleu

from allyouneed.evaluation.significance import paired_bootstrap_of_runs
from allyouneed.interfaces.reports.reproduction import as_terminal_table, conclusions, write_report
from allyouneed.paper import verdicts as comparison
from allyouneed.paper.catalogue import EXPERIMENTS
from allyouneed.paper.experiment import HYPOTHESES, REFERENCES, Experiment, Results, Row
from allyouneed.paper.scales import SCALES
from allyouneed.paper.verdicts import T_QUANTILES, compare

TINY = SCALES["tiny"]
TEXT = [f"sentence {n} has the words {n * 7} and {n * 13}" for n in range(120)]


def results_of(
    directory: Path,
    figure: str,
    values: Mapping[str, Sequence[float]],
    paper: Mapping[str, float],
    beside: Mapping[str, Sequence[str]],
) -> Results:
    """What is known when each row has a figure for seeds 1, 2, ..."""
    rows = [
        Row(
            name,
            name,
            lambda work: {},
            {figure: paper[name]} if name in paper else {},
            baselines=beside.get(name),
        )
        for name in values
    ]
    experiment = Experiment("toy", "A toy", lambda scale: rows, {figure: True})
    outcomes = {
        name: {seed: {figure: value} for seed, value in enumerate(of_row, 1)}
        for name, of_row in values.items()
    }
    return Results(experiment, TINY, rows, outcomes, directory)


def perplexities(directory: Path, *, paper: Mapping[str, float], **values: Sequence[float]) -> Results:
    return results_of(directory, "perplexity", values, paper, {})


def verdict(results: Results, row: str) -> str:
    (found,) = compare(results, next(r for r in results.rows if r.name == row))
    return found.verdicts["perplexity"]


def translate(directory: Path, shares: Mapping[str, Sequence[float]]) -> None:
    """Write for each row and seed translations of which a share is right."""
    for number, (name, of_row) in enumerate(shares.items()):
        for seed, share in enumerate(of_row, 1):
            folder = directory / name / f"seed-{seed}"
            folder.mkdir(parents=True, exist_ok=True)
            right = np.random.default_rng([number, seed]).random(len(TEXT)) < share
            found = [text if kept else "something else" for text, kept in zip(TEXT, right, strict=True)]
            for file, lines in ((HYPOTHESES, found), (REFERENCES, TEXT)):
                (folder / file).write_bytes("".join(f"{line}\n" for line in lines).encode())


def test_the_quantiles_are_students() -> None:
    for freedom, quantile in enumerate(T_QUANTILES, start=1):
        # x = tan(a) sqrt(freedom) makes of its density, up to a factor, cos(a)^(freedom - 1).
        angles = np.linspace(-np.pi / 2, np.pi / 2, 200_001)
        density = np.cos(angles) ** (freedom - 1)
        inside = np.abs(angles) <= np.arctan(quantile / np.sqrt(freedom))
        assert density[inside].sum() / density.sum() == pytest.approx(0.95, abs=2e-4)


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        # Deviations of 1 and 1, so that of a difference of means over two seeds: 1; of t: 4.30.
        ((9 - np.sqrt(0.5), 9 + np.sqrt(0.5)), "noise"),
        ((9.4 - np.sqrt(0.5), 9.4 + np.sqrt(0.5)), "differs"),
        # Its own deviation is not known; 1 from the other, with one degree of freedom: 1.22 * 12.7.
        ((20.0,), "noise"),
        ((21.0,), "differs"),
    ],
)
def test_a_difference_is_told_from_that_of_seeds_by_students_t(
    others: Sequence[float], expected: str, tmp_path: Path
) -> None:
    base = (5 - np.sqrt(0.5), 5 + np.sqrt(0.5))
    assert verdict(perplexities(tmp_path, paper={}, base=base, other=others), "other") == expected


def test_where_the_paper_has_no_difference_noise_is_what_holds(tmp_path: Path) -> None:
    results = perplexities(
        tmp_path,
        paper={"base": 4.92, "like": 4.92, "worse": 4.92, "once": 4.92},
        base=(5.0, 5.1, 5.2),
        like=(5.05, 5.1, 5.2),
        worse=(7.0, 7.1, 7.2),
    )
    assert verdict(results, "like") == "as the paper"
    assert verdict(results, "worse") == "not as the paper"
    once = perplexities(tmp_path, paper={"base": 4.92, "other": 4.92}, base=(5.0,), other=(9.0,))
    assert verdict(once, "other") == "noise", "one seed each tells nothing, not even that nothing differs"


def test_seeds_that_translate_alike_are_no_more_evidence_than_one(tmp_path: Path) -> None:
    def p_value(num_seeds: int) -> float:
        directory = tmp_path / str(num_seeds)
        values = {"base": [50.0] * num_seeds, "other": [65.0] * num_seeds}
        translate(directory, {"base": [0.5], "other": [0.65]})
        for name in values:
            for seed in range(2, num_seeds + 1):
                shutil.copytree(directory / name / "seed-1", directory / name / f"seed-{seed}")
        results = results_of(directory, "bleu", values, {}, {})
        (found,) = compare(results, results.rows[1])
        assert found.p_value is not None
        return found.p_value

    assert 0.01 < p_value(1) < 0.5
    assert p_value(3) == p_value(1)


def test_what_is_computed_anew_is_compared_anew(tmp_path: Path) -> None:
    results = results_of(tmp_path, "bleu", {"base": [50.0], "other": [65.0]}, {}, {})
    found: list[float] = []
    for share in (0.9, 0.5):
        translate(tmp_path, {"base": [0.5], "other": [share]})
        p_value = compare(results, results.rows[1])[0].p_value
        assert p_value is not None
        found.append(p_value)
    assert found[0] < 0.05 < found[1]


def test_the_bleu_of_several_runs_is_that_of_all_their_translations(tmp_path: Path) -> None:
    runs = [[TEXT[0], "no", *TEXT[2:]], ["nothing", *TEXT[1:]]]
    found = paired_bootstrap_of_runs(runs, [TEXT, TEXT], TEXT, 50)
    assert found.baseline == pytest.approx(corpus_bleu([*runs[0], *runs[1]], [TEXT * 2]).score)
    assert found.system == pytest.approx(100)


def test_parsers_are_bootstrapped_on_their_brackets(tmp_path: Path) -> None:
    gold = [f"(TOP (S (NP (NN a{n})) (VP (VB b) (NP (NN c)))))" for n in range(60)]
    flat = [f"(TOP (S (NN a{n}) (VP (VB b) (NN c))))" for n in range(60)]
    wrong = {"base": 30, "better": 10, "like": 29}
    for name, number in wrong.items():
        folder = tmp_path / name / "seed-1"
        folder.mkdir(parents=True)
        for file, trees in ((HYPOTHESES, [*flat[:number], *gold[number:]]), (REFERENCES, gold)):
            (folder / file).write_bytes("".join(f"{tree}\n" for tree in trees).encode())
    # Of four constituents, a flat tree has two: all of them right.
    f1 = {name: [200 * (4 * 60 - 2 * n) / (8 * 60 - 2 * n)] for name, n in wrong.items()}
    results = results_of(tmp_path, "bracket_f1", f1, {}, {})
    better, like = (compare(results, row)[0] for row in results.rows[1:])
    assert better.verdicts == {"bracket_f1": "differs"}
    assert better.p_value is not None
    assert better.p_value < 0.01
    assert like.verdicts == {"bracket_f1": "noise"}
    runs = [[*flat[:30], *gold[30:]]], [[*flat[:10], *gold[10:]]]
    found = paired_bootstrap_of_runs(*runs, gold, 50, comparison.METRICS["bracket_f1"])
    assert [found.baseline, found.system] == pytest.approx([*f1["base"], *f1["better"]])


def test_each_row_is_bootstrapped_once_for_all_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = {"base": (50.0, 50.0), "other": (60.0, 60.0), "third": (70.0,)}
    translate(tmp_path, {name: [share / 100 for share in row] for name, row in shares.items()})
    counted: list[int] = []

    @functools.wraps(paired_bootstrap_of_runs)
    def count(baselines: Sequence[Sequence[str]], *texts: Sequence[str], **options: object) -> object:
        counted.append(len(baselines))
        return paired_bootstrap_of_runs(baselines, *texts, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(comparison, "paired_bootstrap_of_runs", count)
    for values in ({name: row[:1] for name, row in shares.items()}, shares):
        results = results_of(tmp_path, "bleu", values, {}, {})
        write_report(results)
        list(as_terminal_table(results))
    assert counted == [1, 1, 2], "other and third with one seed, then other with both"


def test_a_row_is_compared_with_those_that_it_names(tmp_path: Path) -> None:
    values = {"base": (5.0, 5.1), "small": (8.0, 8.1), "smaller": (6.0, 6.1)}
    results = results_of(tmp_path, "perplexity", values, {}, {"smaller": ["small"]})
    smaller = next(row for row in results.rows if row.name == "smaller")
    (found,) = compare(results, smaller)
    assert found.baseline == "small"
    assert found.differences["perplexity"] == pytest.approx(-2)
    (told,) = conclusions(results).values()
    assert told == ["small, perplexity +3.00", "smaller, perplexity -2.00 beside small"]


def test_attention_of_wide_keys_is_compared_at_the_same_width() -> None:
    rows = {row.name: row for row in EXPERIMENTS["scaling"].rows(TINY)}
    assert next(iter(rows)) == "scaled_16"
    assert [rows[f"{name}_256"].baselines for name in ("scaled", "unscaled", "additive")] == [
        None,
        ["scaled_256"],
        ["scaled_256", "unscaled_256"],
    ]
    assert not any(rows[f"{name}_16"].baselines for name in ("scaled", "unscaled", "additive"))


def test_attention_over_parameters_has_the_ratio_of_step_times_beside_the_papers() -> None:
    aop = EXPERIMENTS["aop"]
    assert [row.paper["step_time_ratio"] for row in aop.rows(TINY)] == [1.0, 1.3, 1.3]
    assert aop.derive({"tokens_per_second": 200.0}, {"tokens_per_second": 300.0}) == {"step_time_ratio": 1.5}
    assert aop.derive({"failed": "no"}, {"tokens_per_second": 300.0}) == {}
    assert aop.derive({"tokens_per_second": None}, {}) == {}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_rows_are_compared_with_rows_that_there_are(name: str) -> None:
    rows = EXPERIMENTS[name].rows(SCALES["paper"])
    assert {other for row in rows for other in row.baselines or ()} <= {row.name for row in rows}
