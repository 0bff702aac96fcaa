"""A model of other software goes on learning where it left off, with its own sub-words."""

import shutil
from pathlib import Path

import pytest
from tests.packages import require_packages

from allyouneed.data.corpus_files import CorpusFiles
from allyouneed.interop.importing import import_model
from allyouneed.preparation.preparing import prepare
from allyouneed.runs.initial_model import continue_from
from allyouneed.runs.loading import model_of
from allyouneed.runs.starting import train
from allyouneed.storage.checkpoint import load_checkpoint
from allyouneed.storage.run_directory import resolve_model
from allyouneed.training.meters import validation_loss

FIXTURES = Path(__file__).parent / "fixtures" / "marian"


@pytest.mark.parametrize("kind", ["swish", "ssru"])
def test_an_imported_model_is_continued_from_its_own_loss(tmp_path: Path, toy_text: Path, kind: str) -> None:
    require_packages("sentencepiece")
    (tmp_path / "marian").mkdir()
    shutil.copy(FIXTURES / f"{kind}.npz", tmp_path / "marian" / "model.npz")
    shutil.copy(FIXTURES / "vocab.spm", tmp_path / "marian" / "vocab.spm")
    model, run = tmp_path / "model", tmp_path / "run"
    import_model(tmp_path / "marian", model, None)
    files, valid = (
        CorpusFiles(toy_text / f"{part}.en", toy_text / f"{part}.toy") for part in ("train", "valid")
    )
    prepared = prepare(tmp_path / "data", files, valid, tokenizer_from=model)
    assert prepared.config.tokenizer == "sentencepiece"
    settings = {
        "batch_tokens": 800,
        "num_steps": 15,
        "warmup_steps": 5,
        "learning_rate_factor": 0.2,
        "precision": "float32",
        "frozen": ["encoder.0.*"],
    }
    train(run, tmp_path / "data", continue_from(model).replace(training=settings))
    before, after = (load_checkpoint(resolve_model(path)) for path in (model, run))
    frozen = [name for name in before.weights if name.startswith("encoder.0.")]
    assert frozen
    assert all(before.weights[name].equal(after.weights[name]) for name in frozen)
    assert prepared.valid is not None
    own, learned = (validation_loss(model_of(checkpoint), prepared.valid) for checkpoint in (before, after))
    assert learned < 0.8 * own
