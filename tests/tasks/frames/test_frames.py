"""Frames go through all commands: prepared, trained, resumed bit for bit, averaged, transcribed, scored."""

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import torch
from tests.patience import PATIENCE_SECONDS
from tests.serve.conftest import DECODING, SETTINGS, running

import allyouneed
from allyouneed.cli import program as cli
from allyouneed.config.run import RunConfig
from allyouneed.data.vectors import Vectors
from allyouneed.errors import DataError, UsageError
from allyouneed.preparation import journal
from allyouneed.preparation.prepared_data import PreparedData
from allyouneed.runs.run_configuration import completed
from allyouneed.serve.application import create_app
from allyouneed.serve.models import ModelSource, load_models
from allyouneed.serve.process import serving
from allyouneed.tasks.frames import task

pytest.importorskip("jiwer")
LETTERS = "abcd"


def frame_files(pairs: str) -> allyouneed.CorpusFiles:
    """The files of a manifest."""
    return allyouneed.CorpusFiles(pairs=pairs, sides_are_alike=False)


CONFIG = allyouneed.presets.frames_tiny().replace(
    model={"d_model": 32, "d_ff": 64, "num_layers": 1, "num_heads": 2, "dropout": 0.0},
    training={
        **{"batch_tokens": 1_000, "warmup_steps": 30, "learning_rate_factor": 0.3, "precision": "float32"},
        **{"checkpoint_every_steps": 10, "validate_every_steps": 120, "num_steps": 120, "average_last": 2},
        "keep_checkpoints": 20,
    },
    search={"max_extra_tokens": 0},
)


def write_part(folder: Path, part: str, number: int, draw: np.random.Generator) -> None:
    """One or two letters a line, of which each is a vector of its own, repeated 7 to 9 times."""
    vectors, rows = np.random.default_rng(7).normal(size=(len(LETTERS), 6)), []
    for line in range(number):
        letters = draw.integers(0, len(LETTERS), draw.integers(1, 3))
        frames = np.repeat(vectors[letters], draw.integers(7, 10, len(letters)), axis=0)
        np.save(folder / f"{part}{line}.npy", frames + draw.normal(0, 0.1, frames.shape))
        rows.append(f"{part}{line}.npy\t{''.join(LETTERS[each] for each in letters)}\n")
    (folder / f"{part}.tsv").write_bytes("".join(rows).encode())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A corpus, prepared data and an averaged model, in the working directory."""
    made, before, draw = tmp_path_factory.mktemp("frames"), Path.cwd(), np.random.default_rng(1)
    os.chdir(made)
    for part, number in (("train", 600), ("valid", 10)):
        write_part(made, part, number, draw)
    (made / "small.toml").write_bytes(CONFIG.to_toml().encode())
    run("prepare", "data", "--task", "frames", "--pairs", "train.tsv", "--valid-pairs", "valid.tsv")
    run("train", "run", "--data", "data", "--config", "small.toml", "--device", "cpu")
    run("average", "run", "--out", "model")
    yield made
    os.chdir(before)


def run(*arguments: str) -> None:
    assert cli.main([*arguments]) == 0


def manifest(part: str) -> tuple[list[str], list[str]]:
    rows = [line.split("\t") for line in Path(f"{part}.tsv").read_text().splitlines()]
    return [row[0] for row in rows], [row[1] for row in rows]


def test_a_model_of_frames_learns_and_is_the_same_by_command_and_in_python(
    folder: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    events = [json.loads(line) for line in (folder / "run" / "log.jsonl").read_bytes().splitlines()]
    [*_, last] = [event for event in events if event["event"] == "validate"]
    assert last["accuracy"] == 100 - last["cer"] > 80
    sources, texts = manifest("valid")
    transcriber = allyouneed.load_transcriber("model")
    loaded: object = allyouneed.load("model")
    assert isinstance(loaded, allyouneed.Transcriber)
    found = transcriber.transcribe(sources)
    right = sum(each.text == text for each, text in zip(found, texts, strict=True))
    assert right >= 8
    arrays = [np.load(source) for source in sources]
    assert [each.text for each in transcriber.transcribe(arrays)] == [each.text for each in found]
    capfdbinary.readouterr()
    run("evaluate", "model", "--pairs", "valid.tsv", "--json")
    scores = json.loads(capfdbinary.readouterr().out)
    assert scores["exact"]["score"] == 10 * right
    run("score", "model", "--pairs", "valid.tsv")
    log_probs = [float(line) for line in capfdbinary.readouterr().out.split()]
    assert log_probs == pytest.approx([each.log_prob for each in transcriber.score(sources, texts)])
    with pytest.raises(UsageError, match="workers"):
        transcriber.answer_pairs([], workers=-1)
    total, tokens = sum(log_probs), sum(len(text) + 1 for text in texts)
    assert scores["perplexity"]["score"] == pytest.approx(np.exp(-total / tokens))


def test_the_command_answers_bad_files_with_empty_lines_and_one_message_each(folder: Path) -> None:
    np.save(folder / "nan.npy", np.full((8, 6), np.nan))
    sources, _ = manifest("valid")
    lines = "\n".join([sources[0], "nan.npy", "none.npy", sources[1]])
    command = sys.executable, "-m", "allyouneed", "transcribe", "model", "--scores", "--device", "cpu"
    ended = subprocess.run(command, input=lines.encode(), capture_output=True, check=False)
    found = allyouneed.load_transcriber("model").transcribe(sources[:2])
    rows = [f"{each.score!r}\t{each.text}" for each in found]
    assert ended.returncode == 9
    got = ended.stdout.decode().split("\n")
    assert [row.partition("\t")[2] for row in got] == [found[0].text, "", "", found[1].text, ""]
    assert float(got[0].partition("\t")[0]) == pytest.approx(float(rows[0].partition("\t")[0]), rel=1e-5)
    errors = ended.stderr.decode().splitlines()
    assert [error.partition("standard input:")[2] for error in errors] == [
        "2: nan.npy: holds numbers that are not finite; correct it",
        "3: none.npy: no such file; check the path",
    ]


def test_a_run_that_is_resumed_is_the_same_to_the_bit(folder: Path) -> None:
    short = "train", "resumed", "--data", "data", "--config", "small.toml", "--device", "cpu"
    run(*short, "--steps", "10")
    run(*short, "--steps", "20", "--resume")
    weights = [
        folder / name / "checkpoints" / "step-00000020" / "model.safetensors" for name in ("run", "resumed")
    ]
    assert weights[0].read_bytes() == weights[1].read_bytes()


def test_prepared_data_need_the_files_no_more_and_are_the_same_by_workers(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from allyouneed.preparation import encoding

    monkeypatch.setattr(encoding, "_ALONE_CHUNKS", 0)
    files = frame_files("train.tsv"), frame_files("valid.tsv")
    by_workers = allyouneed.prepare(tmp_path / "data", *files, CONFIG.data, num_workers=1)
    expected = PreparedData("data")
    assert by_workers.facts == expected.facts
    for index in range(expected.train.num_pairs):
        np.testing.assert_array_equal(
            by_workers.train.source.sentence(index), expected.train.source.sentence(index)
        )
    sources, targets = expected.held_out()
    assert isinstance(sources[0], Vectors)
    found = allyouneed.load_transcriber("model").transcribe(
        [each for each in sources if isinstance(each, Vectors)]
    )
    given = allyouneed.load_transcriber("model").transcribe(manifest("valid")[0])
    assert [each.text for each in found] == [each.text for each in given]
    assert [*targets] == manifest("valid")[1]


def test_an_interrupted_preparation_goes_on(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from allyouneed.preparation import preparing

    monkeypatch.setattr(preparing, "FIRST_CHUNKS", 1)
    files, record = frame_files("train.tsv"), journal.Journal.record

    def killed(self: journal.Journal, milestone: journal.Milestone) -> None:
        record(self, milestone)
        raise KeyboardInterrupt

    said: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(journal.Journal, "record", killed)
        with pytest.raises(KeyboardInterrupt):
            allyouneed.prepare(tmp_path / "data", files, config=CONFIG.data, num_workers=0)
    resumed = allyouneed.prepare(tmp_path / "data", files, config=CONFIG.data, say=said.append, num_workers=0)
    assert any("goes on" in line or "going on" in line for line in said), said
    train = PreparedData("data").train
    assert resumed.train.num_pairs == train.num_pairs
    np.testing.assert_array_equal(
        resumed.train.source.gather([0, 100, 599]), train.source.gather([0, 100, 599])
    )


def test_a_bad_file_of_a_corpus_is_one_line(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "bad.tsv").write_text("train0.npy\ta\nmissing.npy\tb\n")
    capfd.readouterr()
    assert cli.main(["prepare", "bad", "--task", "frames", "--pairs", "bad.tsv", "--quiet"]) == 3
    [line] = capfd.readouterr().err.splitlines()
    assert line.endswith("missing.npy: no such file; check the path")


def test_options_of_translation_and_models_of_other_tasks_are_refused(
    folder: Path, toy_model: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    transcriber = allyouneed.load_transcriber("model")
    with pytest.raises(UsageError, match="mbr: this is for translations only"):
        transcriber.transcribe([], mbr=4)
    with pytest.raises(DataError, match="source 2: the array: has 5 features a frame, 6 are expected"):
        transcriber.transcribe([np.zeros((4, 6)), np.zeros((4, 5))])
    with pytest.raises(DataError, match="20,000 frames are too many for the model; divide them"):
        transcriber.encode(np.full((20_000, 6), np.nan))  # told before the numbers are looked at
    np.save("long.npy", np.zeros((20_000, 6)))
    with pytest.raises(DataError, match="20,000 frames are too many for the model; divide them"):
        transcriber.encode("long.npy")
    for command in ("translate", "parse"):
        assert cli.main([command, "model"]) == 4
        assert "is a model for frames; use it with `allyouneed transcribe`" in capfd.readouterr().err
    assert cli.main(["transcribe", str(toy_model)]) == 4


def test_self_attention_is_restricted_above_1000_frames_unless_it_is_set(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def neighbourhood(config: RunConfig) -> int | None:
        model = completed(config, PreparedData("data"), torch.device("cpu")).model
        assert model.reach(causal=True) is None
        return model.neighbourhood

    assert (task.LONG_FRAMES, neighbourhood(CONFIG)) == (1_000, None)
    longest = int(
        max(
            each.source_lengths.max()
            for each in (PreparedData("data").train, PreparedData("data").valid)
            if each
        )
    )
    monkeypatch.setattr(task, "LONG_FRAMES", longest)
    assert neighbourhood(CONFIG) is None
    monkeypatch.setattr(task, "LONG_FRAMES", longest - 1)
    assert neighbourhood(CONFIG) == task.NEIGHBOURHOOD
    both = completed(CONFIG.replace(model={"neighbourhood": 7}), PreparedData("data"), torch.device("cpu"))
    assert (both.model.neighbourhood, both.model.neighbourhood_in) == (7, "both")
    encoder = CONFIG.replace(model={"neighbourhood": 7, "neighbourhood_in": "encoder"})
    assert neighbourhood(encoder) == 7


@pytest.mark.parametrize(
    ("references", "message"),
    [([["a"], ["a"]], "one reference"), ([[" "]], "reference 1: is empty"), ([["a", "b"]], "2 references")],
)
def test_references_are_checked_before_anything_is_transcribed(
    references: list[list[str]], message: str
) -> None:
    no_transcriber: Any = None
    with pytest.raises((UsageError, DataError), match=message):
        task.evaluate(no_transcriber, ["a.npy"], *references)


def test_attention_is_that_of_positions_of_four_frames_under_a_strip(folder: Path) -> None:
    [source, *_], [text, *_] = manifest("valid")
    num_frames = len(np.load(source))
    run("attend", "model", source, text, "--out", "page.html")
    assert '"strip":{"width":' in Path("page.html").read_text().replace(" ", "")
    attention = allyouneed.load_transcriber("model").attention(source, text)
    document, positions = attention.to_json(), -(-num_frames // 4)
    assert [word["text"] for word in document["sequences"]["source"]["words"]] == [
        str(4 * place) for place in range(positions)
    ]
    assert attention.weights.cross.shape == (1, 2, len(text) + 1, positions)
    torch.testing.assert_close(attention.weights.cross.sum(-1), torch.ones(1, 2, len(text) + 1))
    strip = document["strip"]
    pixels = np.frombuffer(base64.b64decode(strip["pixels"]), np.uint8).reshape(
        strip["height"], strip["width"]
    )
    assert pixels.shape == (6, num_frames)
    values = np.load(source)
    assert (np.argsort(pixels[-1].astype(int), kind="stable")[-1], pixels[0].argmax()) == (
        values[:, 0].argmax(),
        values[:, 5].argmax(),
    )


def test_the_server_transcribes_files_and_reads_no_path(folder: Path) -> None:
    [source, *_], _ = manifest("valid")
    [expected] = allyouneed.load_transcriber("model").transcribe([source])
    with (
        serving(load_models([ModelSource(Path("model"))], "cpu"), DECODING, SETTINGS) as service,
        running(create_app(service, SETTINGS)) as url,
        httpx.Client(base_url=url, timeout=PATIENCE_SECONDS) as client,
    ):

        def post(content: bytes, kind: str = "application/x-npy") -> httpx.Response:
            return client.post("/api/transcribe", content=content, headers={"Content-Type": kind})

        found = post(Path(source).read_bytes())
        assert found.json()["text"] == expected.text
        assert found.json()["score"] == pytest.approx(expected.score, rel=1e-5)
        wrong = post(b"no array")
        assert (wrong.status_code, wrong.json()["error"]["message"]) == (
            422,
            "the file: is no array that NumPy has saved; give a .npy file",
        )
        assert "is no WAV file" in post(b"RIFF", "audio/wav").json()["error"]["message"]
        for kind in ("audio/x-wav", "Audio/WAV; codecs=1"):
            assert "is no WAV file" in post(b"RIFF", kind).json()["error"]["message"]
        assert post(b"", "text/plain").status_code == 415
        looked = client.post("/api/attention", json={"text": source, "model": "model"})
        assert (looked.status_code, looked.json()["error"]["label"]) == (422, "no_text")
