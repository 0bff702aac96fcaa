"""Files that version 0.1 has written, before the package was rearranged: every later version reads them.

The folder `version_0_1` was made by the commands `prepare`, `train` (600 updates), `average` and `shortlist`
on 120 pairs of made-up words; `expected.json` holds what that version computed from it: the losses after 640
updates, and translations with their scores. `parser` learned 400 trees of a toy grammar in 500 updates.
"""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

import allyouneed
from allyouneed.inference.vocabulary_shortlist import Shortlist
from allyouneed.preparation.prepared_data import PreparedData
from allyouneed.runs.loading import load_parser, load_translator
from allyouneed.training import update

FILES = Path(__file__).parent / "version_0_1"
EXPECTED = json.loads((FILES / "expected.json").read_bytes())
SENTENCES = ["sun sees moon", "fish", "wolf bear tree stone"]
PARSED = ["the sun sees the moon .", "the bear near A likes the fish ."]
SAME = 1e-4
"""The largest difference between losses or scores of two processors."""


def require_translations(model: Path, scores: Sequence[float], shortlist: Path | None = None) -> None:
    found = load_translator(model, shortlist=shortlist).translate(SENTENCES)
    assert [translation.text for translation in found] == EXPECTED["translations"]
    assert [translation.score for translation in found] == pytest.approx(scores, abs=SAME)


def test_a_model_translates_as_it_did() -> None:
    require_translations(FILES / "model", EXPECTED["scores"])


def test_a_run_translates_as_it_did() -> None:
    require_translations(FILES / "run", EXPECTED["scores"])


def test_a_shortlist_fits_its_model_and_gives_the_same_translations() -> None:
    require_translations(FILES / "model", EXPECTED["scores_with_shortlist"], FILES / "shortlist")


def test_a_parser_parses_as_it_did() -> None:
    found = load_parser(FILES / "parser").parse(PARSED)
    assert [str(parse) for parse in found] == EXPECTED["trees"]
    assert [parse.score for parse in found] == pytest.approx(EXPECTED["tree_scores"], abs=SAME)


def test_prepared_data_is_read_with_its_settings_and_all_of_its_pairs() -> None:
    prepared = PreparedData(FILES / "data")
    assert prepared.config.vocab_size == 280
    assert prepared.valid is not None
    assert (prepared.train.num_pairs, prepared.valid.num_pairs) == (120, 8)
    assert len(prepared.lines("train", "source")) == 120


def test_a_run_resumes_on_its_data_to_the_same_losses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Version 0.1 had no kernel for residual connections, which draws other numbers for dropout."""
    monkeypatch.setattr(update, "library", lambda: None)
    run = shutil.copytree(FILES / "run", tmp_path / "run")
    config = allyouneed.RunConfig.from_toml(run / "config.toml").replace(training={"num_steps": 640})
    allyouneed.train(run, FILES / "data", config, resume=True)
    events = [json.loads(line) for line in (run / "log.jsonl").read_bytes().splitlines()]
    losses = {
        event["event"]: event["loss"] for event in events if event.get("step") == 640 and "loss" in event
    }
    assert losses == pytest.approx(EXPECTED["losses"], abs=SAME)


def test_the_shortlist_knows_the_model_that_it_was_made_for() -> None:
    assert Shortlist.load(FILES / "shortlist", FILES / "model", (280, 280)) is not None
