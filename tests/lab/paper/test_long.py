"""Documents are made of consecutive lines, and the cost of training on them is measured."""

from pathlib import Path
from typing import Any

import pytest
import torch

from allyouneed.config.presets import base
from allyouneed.lab.paper import long, reproduction
from allyouneed.lab.paper.experiment import Inputs, Results
from allyouneed.lab.paper.pages.results_page import write_report
from allyouneed.lab.paper.scales import Scale
from allyouneed.tasks.translation.line_documents import parted

CPU = torch.device("cpu")
SMALL = {"d_model": 16, "d_ff": 32, "num_heads": 2, "num_layers": 1, "source_vocab_size": 40}
FEW_UPDATES = {
    **{"batch_tokens": 400, "num_steps": 2, "warmup_steps": 4, "checkpoint_every_steps": 2},
    **{"keep_checkpoints": 1, "average_last": 1, "validate_every_steps": 2, "precision": "float32"},
}


def test_documents_are_consecutive_lines_as_many_on_both_sides() -> None:
    source, target = ([*long.documents(f"{side}{n}" for n in range(5_000))] for side in "st")
    assert [line for document in source for line in parted(document)] == [f"s{n}" for n in range(5_000)]
    assert [document.replace("s", "t") for document in source] == target
    assert {len(parted(document)) for document in source} == {*range(1, 17)}


@pytest.mark.parametrize(
    ("document", "lines"),
    [("a ¶ b ¶ c", ["a", "b", "c"]), ("a", ["a", "", ""]), ("a ¶ b ¶ c ¶ d", ["a", "b", "c d"])],
)
def test_lines_that_are_missing_are_empty_and_those_too_many_belong_to_the_last(
    document: str, lines: list[str]
) -> None:
    assert long.as_lines(document, 3) == lines


def test_the_memory_of_training_is_linear_with_a_neighbourhood_on_both_sides_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(long, "LENGTHS", (256, 512, 1_024))
    monkeypatch.setattr(long, "_NUM_ROUNDS", 1)
    small = base().replace(model={**SMALL, "target_vocab_size": 40})

    def growth(**model: Any) -> float:
        return float(long.training_cost(small.replace(model=model), CPU)["memory_n"])

    assert growth(neighbourhood=16) < 1.05
    assert growth(neighbourhood=16, neighbourhood_in="encoder") > 1.1  # the decoder's mask is of all pairs


def results_of(growth: float, difference: float, verdict: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The verdict on results of these figures."""

    class Judged:
        row, figure = "both_128", "bleu_16"

    Judged.difference, Judged.verdict = difference, verdict  # type: ignore[attr-defined]
    monkeypatch.setattr(long, "judge", lambda results: [Judged])
    outcomes = {"base_128": {1: {"time_n": growth, "memory_n": 1.0}}}
    results = Results(long.LONG, long.LONG.scale("quick"), [], outcomes, Path())
    return long.LONG.verdict(results, "None.")


@pytest.mark.parametrize(
    ("growth", "difference", "verdict", "answer"),
    [
        (1.1, -0.2, "not told apart", "not decided"),
        (1.1, 1.5, "differs", "yes"),
        (1.1, -1.5, "differs", "no"),
        (1.7, -0.2, "not told apart", "no"),
        (1.7, -0.2, "not tested", "no"),
        (1.1, -0.2, "not tested", "not decided"),
    ],
)
def test_the_papers_sentence_holds_if_cost_is_linear_and_quality_is_not_worse(
    growth: float, difference: float, verdict: str, answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = results_of(growth, difference, verdict, monkeypatch)
    assert told.startswith(
        f"Local, restricted attention handles large inputs and outputs efficiently: {answer}."
    )
    assert f"n^{growth:.2f}" in told


@pytest.mark.slow
def test_rows_are_trained_on_documents_and_scored_line_by_line(
    toy_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long, "LENGTHS", (16, 32))
    monkeypatch.setattr(long, "_MOST_TOKENS", 300)
    scale = Scale("minute", 16, 6, FEW_UPDATES, search={"max_extra_tokens": 5})
    *_, results = reproduction.reproduce(
        long.LONG, tmp_path, scale, CPU, inputs=Inputs(toy_data), num_seeds=1, only=["both_8"]
    )
    for row in ("all", "both_8"):
        figures = results.outcomes[row][1]
        assert figures["perplexity_16"] > 1
        assert 0 <= figures["unrepaired_16"] <= 100
        assert figures["wrong_16"] == 100  # two updates teach no separator
        assert figures["bleu_16"] == figures["bleu_1"]  # each document was repaired
        hypotheses = (tmp_path / row / "seed-1" / "hypotheses_16.txt").read_bytes()
        assert hypotheses.count(b"\n") == 20
    _, _, page = (path.read_bytes().decode() for path in write_report(results))
    assert "Quality against the size of documents" in page
