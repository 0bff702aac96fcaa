"""A card says what a model and its run have recorded, in a form that the hub's own library reads."""

import json
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import EvalResult
from huggingface_hub import ModelCard as HubCard

import allyouneed
from allyouneed.errors import DataError, ModelError, UsageError
from allyouneed.interop.model_card import read_card
from allyouneed.storage.checkpoint import load_checkpoint
from allyouneed.storage.publish import MANIFEST, sha256_of

EARLIER = Path(__file__).parents[1] / "compatibility" / "version_0_1"
SCORES = {
    "bleu_13a": {"score": 40.33, "signature": "nrefs:1|case:mixed"},
    "chrf": {"score": 64.28, "signature": "nc:6"},
}


@pytest.fixture
def scores(tmp_path: Path) -> Path:
    """Scores as `evaluate` writes them."""
    path = tmp_path / "scores.json"
    path.write_bytes(json.dumps(SCORES).encode())
    return path


def test_the_library_of_the_hub_reads_every_fact(toy_model: Path, scores: Path) -> None:
    card = read_card(toy_model, name='a "b": c', scores=scores, test_set="Test: 1 # 2", licence="cc-by-4.0")
    read: Any = HubCard(card.text()).data
    assert (read.license, read.pipeline_tag, read.library_name) == ("cc-by-4.0", "translation", "allyouneed")
    assert read.model_name == 'a "b": c'
    results = read.eval_results
    assert results is not None
    assert all(isinstance(each, EvalResult) and each.dataset_name == "Test: 1 # 2" for each in results)
    found = {
        each.metric_name: {"score": each.metric_value, "signature": each.metric_args["signature"]}
        for each in results
    }
    assert found == SCORES


def test_sections_tell_size_pairs_cost_scores_and_origin(
    toy_run: Path, toy_data: Path, toy_model: Path, scores: Path
) -> None:
    text = read_card(toy_model, run=toy_run, data=toy_data, scores=scores).text()
    parameters = sum(weights.size for weights in load_checkpoint(toy_model).arrays.values())
    pairs = allyouneed.PreparedData(toy_data).train.num_pairs
    sha256 = sha256_of(toy_model / "model.safetensors")
    for told in (
        f"{parameters:,} parameters",
        f"{pairs:,} pairs, of {pairs:,} that were read",
        "- 120 updates made in",
        "`model.d_model` = 64 (paper: 512)",
        "| bleu_13a | 40.33 | nrefs:1\\|case:mixed |",
        f"`{sha256}`",
        "Made from step-00000120",
        "No licence has been given",
    ):
        assert told in text


def test_a_run_knows_its_own_cost_and_what_it_does_not_know_is_said(toy_run: Path) -> None:
    text = read_card(toy_run).text()
    assert "- 120 updates made in" in text
    assert "No score is recorded for this model." in text
    assert "The corpus is not recorded in the model." in text
    assert "license:" not in text


def test_another_models_run_or_data_is_refused(toy_run: Path, toy_model: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has another architecture than .*; name its own"):
        read_card(toy_model, run=EARLIER / "run")
    with pytest.raises(UsageError, match=r"is not what .* was trained on; name that"):
        read_card(toy_run, data=EARLIER / "data")
    with pytest.raises(ModelError, match=MANIFEST):
        read_card(tmp_path)


@pytest.mark.parametrize("content", ["[1]", "{", '{"bleu": 3}', '{"bleu": {"score": "much"}}'])
def test_a_file_without_scores_is_named(toy_model: Path, scores: Path, content: str) -> None:
    scores.write_bytes(content.encode())
    with pytest.raises(DataError, match=r"scores\.json: is no file of scores; write one with"):
        read_card(toy_model, scores=scores)


def test_a_parser_has_a_card_too() -> None:
    text = read_card(EARLIER / "parser").text()
    assert "A model for parsing: transformer" in text
    assert "allyouneed parse . < input.txt" in text
    assert "pipeline_tag" not in text
