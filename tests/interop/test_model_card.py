"""A card says what a model and its run have recorded, in a form that the hub's own library reads."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import EvalResult
from huggingface_hub import ModelCard as HubCard

import allyouneed
from allyouneed.config.run import RunConfig
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
    assert "Name and size of the corpus are not recorded in the model." in text
    assert "The sha256 of the prepared text is `" in text
    assert "The corpus is not recorded" not in text
    assert "of at most 3,200 tokens per side, padding included" in text
    assert "license:" not in text


def test_another_models_run_or_data_is_refused(toy_run: Path, toy_model: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has another architecture than .*; name its own"):
        read_card(toy_model, run=EARLIER / "run")
    with pytest.raises(UsageError, match=r"is not what .* was trained on; name that"):
        read_card(toy_run, data=EARLIER / "data")
    with pytest.raises(ModelError, match=MANIFEST):
        read_card(tmp_path)


@pytest.fixture
def run_with(toy_run: Path, tmp_path: Path) -> Callable[..., Path]:
    """A copy of the toy run's log and settings, with some of them changed."""

    def changed(**sections: dict[str, Any]) -> Path:
        config = RunConfig.from_toml(toy_run / "config.toml").replace(**sections)
        (tmp_path / "config.toml").write_bytes(config.to_toml().encode())
        (tmp_path / "log.jsonl").write_bytes((toy_run / "log.jsonl").read_bytes())
        return tmp_path

    return changed


@pytest.mark.parametrize(
    ("sections", "told"),
    [
        ({"training": {"seed": 2}}, "training"),
        ({"training": {"label_smoothing": 0.2}}, "training"),
        ({"data": {"target_language": "fr"}}, "data"),
    ],
)
def test_another_run_of_the_same_architecture_is_refused(
    toy_model: Path, run_with: Callable[..., Path], sections: dict[str, Any], told: str
) -> None:
    with pytest.raises(UsageError, match=rf"has other settings of {told} than .*; name its own"):
        read_card(toy_model, run=run_with(**sections))


def test_a_run_that_went_on_is_still_that_of_the_model(
    toy_model: Path, run_with: Callable[..., Path]
) -> None:
    run = run_with(training={"num_steps": 500, "keep_checkpoints": 9})
    assert "- 120 updates made in" in read_card(toy_model, run=run).text()


def test_a_run_that_is_none_is_named(toy_model: Path) -> None:
    with pytest.raises(UsageError, match=r"^run nowhere: is no run; give the run that"):
        read_card(toy_model, run=Path("nowhere"))


def test_where_a_model_was_continued_from_is_told_by_its_weights_not_by_a_path(toy_model: Path) -> None:
    card = read_card(toy_model)
    config = card.config.replace(
        model={"num_decoder_layers": 2},
        training={
            **{"schedule": "linear_decay", "planned_seconds": 60.0, "moved_end": (60, 200)},
            **{"init_from": "/home/me/model", "init_sha256": "a" * 64},
        },
    )
    text = replace(card, model=replace(card.model, config=config)).text()
    assert f"- started from a model with the weights `{'a' * 64}`" in text
    assert "1 encoder and 2 decoder layers" in text
    assert not [name for name in ("init_from", "planned_seconds", "moved_end", "/home/me") if name in text]


@pytest.mark.parametrize(
    "content",
    ["[1]", "{", "{}", '{"bleu": 3}', '{"bleu": {"score": "much"}}']
    + [f'{{"bleu": {{"score": {score}, "signature": ""}}}}' for score in ("NaN", "Infinity", '"inf"')],
)
def test_a_file_without_scores_is_named(toy_model: Path, scores: Path, content: str) -> None:
    scores.write_bytes(content.encode())
    with pytest.raises(DataError, match=r"scores\.json: is no file of scores; write one with"):
        read_card(toy_model, scores=scores)


def test_a_parser_has_a_card_too() -> None:
    text = read_card(EARLIER / "parser").text()
    assert "A model for parsing: transformer" in text
    assert "allyouneed parse . < input.txt" in text
    assert "pipeline_tag" not in text
