"""A task that is one folder, `reversal/`, and one line of `TASKS` goes through the ordinary commands."""

import json
import random
from pathlib import Path

import pytest
from tests.tasks.reversal.task import REVERSAL, Reverser

import allyouneed
from allyouneed.cli import program as cli
from allyouneed.preparation.prepared_data import PreparedData
from allyouneed.tasks.catalogue import TASKS

WORDS = ("sun", "moon", "star", "tree", "river", "stone")
SMALL = {
    "model": {"d_model": 32, "d_ff": 64, "num_layers": 1, "num_heads": 2, "dropout": 0.0},
    "training": {
        "batch_tokens": 400,
        "warmup_steps": 40,
        "learning_rate_factor": 1.0,
        "checkpoint_every_steps": 50,
        "validate_every_steps": 50,
        "keep_checkpoints": 2,
        "average_last": 2,
        "precision": "float32",
    },
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Pairs to train and to validate on, in the working directory."""
    draw = random.Random(1)
    for name, number in (("train", 300), ("valid", 20)):
        sentences = [draw.choices(WORDS, k=draw.randint(1, 3)) for _ in range(number)]
        lines = (f"{' '.join(words)}\t{' '.join(reversed(words))}\n" for words in sentences)
        (tmp_path / f"{name}.tsv").write_bytes("".join(lines).encode())
        for side, place in (("source", 1), ("target", -1)):
            text = "".join(" ".join(words[::place]) + "\n" for words in sentences)
            (tmp_path / f"{name}.{side}").write_bytes(text.encode())
    monkeypatch.setitem(TASKS, REVERSAL.name, REVERSAL)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> None:
    assert cli.main([*arguments]) == 0


def test_a_third_task_is_prepared_trained_resumed_averaged_loaded_and_evaluated(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = allyouneed.presets.multi30k_tiny().replace(**SMALL)
    (folder / "small.toml").write_bytes(config.to_toml().encode())
    run(
        *("prepare", "data", "--task", "reversal", "--pairs", "train.tsv", "--valid-pairs", "valid.tsv"),
        *("--vocab-size", "270"),
    )
    assert PreparedData("data").task is REVERSAL
    training = ("train", "run", "--data", "data", "--config", "small.toml", "--device", "cpu")
    run(*training, "--steps", "50")
    run(*training, "--steps", "250", "--resume")
    events = [json.loads(line) for line in (folder / "run" / "log.jsonl").read_bytes().splitlines()]
    scores = {event["step"]: event["right"] for event in events if event["event"] == "validate"}
    assert sorted(scores) == [50, 100, 150, 200, 250]
    told = capsys.readouterr().err
    assert all(f", Sentences that are right (%) {score:.2f} (greedy)\n" in told for score in scores.values())
    best = (folder / "run" / "best").read_bytes().decode().strip()
    assert scores[int(best.removeprefix("step-"))] == max(scores.values())
    assert (folder / "run" / "right.png").is_file()
    run("average", "run", "--out", "model")
    reverser = allyouneed.load("model")
    assert isinstance(reverser, Reverser)
    evaluation = "evaluate", "model", "--source", "valid.source", "--reference", "valid.target"
    capsys.readouterr()
    run(*evaluation, "--json")
    (score,) = json.loads(capsys.readouterr().out).values()
    run(*evaluation)
    assert capsys.readouterr().out.startswith(f"right {score['score']:.1f}\n")
    references = (folder / "valid.target").read_bytes().decode().splitlines()
    found = reverser.reverse((folder / "valid.source").read_bytes().decode().splitlines())
    assert score["score"] == 100 * sum(map(str.__eq__, found, references)) / len(references) > 50


def test_a_task_that_is_unknown_is_refused_with_those_there_are(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["prepare", "data", "--task", "reversl", "--pairs", "train.tsv"]) == 2
    assert (
        "did you mean reversal? There are: translation, parsing, frames, reversal" in capsys.readouterr().err
    )
