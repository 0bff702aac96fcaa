"""How often equal rows of a table are called different, by rules for how much seeds vary.

    python benchmarks/false_differences.py [TABLES]

Tables of normal scores, of 19 rows with two or three seeds; the first row is compared with all others by
Student's t and Holm's correction, as `allyouneed.lab.statistics.seeds` does, but without sentences. Rules for
the variance of a row: pooled over all rows, or the row's own if that is larger. Results in
benchmarks/results/false_differences.json.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parent / "results" / "false_differences.json"
NUM_TABLES = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
NUM_ROWS = 19
SIGNIFICANT = 0.05
DEVIATIONS: Mapping[str, Mapping[int, float]] = {
    "all rows vary alike": {},
    "two rows vary three times as much": {9: 3.0, 18: 3.0},
    "the first row varies twice as much": {0: 2.0},
    "the first row varies three times as much": {0: 3.0},
}
"""Case -> row -> its standard deviation over seeds; 1 for all others."""
EFFECTS = 3.0, 4.0
"""Differences, in deviations of a row, of which the power is measured."""


def critical_t(generator: np.random.Generator, degrees_of_freedom: int) -> float:
    """The |t| that the smallest p-value of a table needs."""
    drawn = np.abs(generator.standard_t(degrees_of_freedom, 4_000_000))
    return float(np.quantile(drawn, 1 - SIGNIFICANT / (NUM_ROWS - 1)))


def shares(num_seeds: int, deviations: Mapping[int, float]) -> dict[str, dict[str, float]]:
    """Rule -> share of tables with a difference where there is none, and power."""
    generator = np.random.default_rng(num_seeds)
    of_rows = np.ones((NUM_ROWS, 1))
    for row, deviation in deviations.items():
        of_rows[row] = deviation
    scores = of_rows * generator.normal(size=(NUM_TABLES, NUM_ROWS, num_seeds))
    means = scores.mean(axis=2)
    residuals = (
        scores - means[..., None] - scores.mean(axis=1, keepdims=True) + means.mean(axis=1)[:, None, None]
    )
    degrees_of_freedom = (NUM_ROWS - 1) * (num_seeds - 1)
    of_each = (residuals**2).sum(axis=2)
    pooled = np.broadcast_to(of_each.sum(axis=1, keepdims=True) / degrees_of_freedom, of_each.shape)
    own = of_each / (degrees_of_freedom / NUM_ROWS)
    least = critical_t(generator, degrees_of_freedom)
    found = {}
    for rule, variance in {"pooled": pooled, "pooled or own": np.maximum(pooled, own)}.items():
        error = np.sqrt((variance[:, 1:] + variance[:, :1]) / num_seeds)
        differences = means[:, 1:] - means[:, :1]
        found[rule] = {"false": float((np.abs(differences) > least * error).any(axis=1).mean())}
        for effect in EFFECTS:
            shifted = np.abs(differences[:, 0] + effect) > least * error[:, 0]
            found[rule][f"power, {effect:g} deviations"] = float(shifted.mean())
    return found


def main() -> None:
    """Print and record the shares of every case."""
    results = {
        f"{case}, {num_seeds} seeds": shares(num_seeds, deviations)
        for case, deviations in DEVIATIONS.items()
        for num_seeds in (2, 3)
    }
    for case, of_rules in results.items():
        told = (
            f"{rule}: " + ", ".join(f"{name} {share:.1%}" for name, share in of_rule.items())
            for rule, of_rule in of_rules.items()
        )
        print(f"{case}\n  " + "\n  ".join(told))
    RESULTS.write_text(json.dumps({"tables": NUM_TABLES, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
