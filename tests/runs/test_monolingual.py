"""Text without translations is translated by models trained first; every step can be gone on with."""

import json
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import TOY_WORDS

import allyouneed
from allyouneed import Budget, DataConfig, PreparedData, RunConfig, load_translator
from allyouneed.data.directed_pairs import ReadingOrder
from allyouneed.data.monolingual_text import MonolingualText
from allyouneed.errors import UserError
from allyouneed.preparation.derived_data import TAG
from allyouneed.runs import budgeting, monolingual, row_file
from allyouneed.runs.monolingual import phases
from allyouneed.runs.starting import train_phase
from allyouneed.storage.publish import lock_output
from allyouneed.storage.run_directory import RunDirectory
from allyouneed.storage.run_log import Event

TINY = RunConfig().replace(
    model={"d_model": 32, "d_ff": 32, "num_heads": 2, "num_layers": 1, "norm": "pre"},
    training={"precision": "float32", "schedule": "linear_decay"},
)
SETTINGS = (
    *("training.num_steps=12", "training.moved_end=[1, 12]", "training.warmup_steps=4"),
    *("training.batch_tokens=800", "training.micro_batch_tokens=800", "model.dropout=0.1"),
    *("training.learning_rate_factor=0.5", "training.checkpoint_every_steps=4"),
    *("training.validate_every_steps=100", "search.max_extra_tokens=4"),
)
"""Settings that leave nothing to the measured speed."""


class Killed(Exception):
    """The end of a process that could not save anything more."""


@pytest.fixture(scope="module", autouse=True)
def quick() -> Iterator[None]:
    """Short measurements, and chunks of few lines."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(budgeting, "_MEASURED_SHARE", 1e-9)
        patch.setattr(row_file, "_LINES_AT_ONCE", 8)
        yield


@pytest.fixture(scope="module")
def budget(tmp_path_factory: pytest.TempPathFactory) -> Budget:
    """A budget with text of both toy languages."""
    folder, draw, texts = tmp_path_factory.mktemp("texts"), random.Random(7), {}
    for side in ("source", "target"):
        words = [draw.sample(TOY_WORDS, 3) for _ in range(30)]
        lines = [" ".join(w if side == "source" else f"{w[::-1]}o" for w in line) for line in words]
        texts[side] = folder / f"more.{side}"
        texts[side].write_bytes("".join(f"{line}\n" for line in [*lines, lines[0], ""]).encode())
    return Budget(3_600.0, TINY, SETTINGS, texts["target"], texts["source"])


@pytest.fixture
def back(budget: Budget) -> Budget:
    """The same budget with target text alone."""
    return replace(budget, monolingual_source=None)


def go(
    run: Path,
    data: Path,
    budget: Budget | RunConfig | None,
    *,
    report: Callable[[Path, Event], None] = lambda run, event: None,
    advance: Callable[[int], None] = lambda count: None,
    **options: Any,
) -> list[str]:
    """Train as the command does; return what was said."""
    told: list[str] = []

    @contextmanager
    def watch(phase: str, total: int | None) -> Iterator[Callable[[int], None]]:
        yield advance

    for phase in phases(run, data, budget, say=told.append, watch=watch, **options):
        train_phase(phase, report=partial(report, phase.run))
    return told


def weights(run: Path) -> bytes:
    return (run / "checkpoints" / "step-00000012" / "model.safetensors").read_bytes()


def killed(count: int = 0) -> None:
    raise Killed


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, toy_data: Path, budget: Budget) -> Path:
    """A run with text of both languages, undisturbed, trained by the function for users."""
    run = tmp_path_factory.mktemp("whole") / "run"
    allyouneed.train(run, toy_data, budget)
    return run


def test_the_model_learns_tagged_back_translations_and_translations_beside_its_own_pairs(
    whole: Path, toy_data: Path, budget: Budget
) -> None:
    folder, config = whole / "monolingual", RunConfig.from_toml(whole / "config.toml")
    own, more = PreparedData(toy_data), PreparedData(folder / "data")
    rows = {}
    for name, file in (("reverse", budget.monolingual), ("forward", budget.monolingual_source)):
        assert file is not None
        lines = MonolingualText(Path(file)).first(100)
        translations = load_translator(folder / name).translate(lines, beam_size=1)
        found = [row.split("\t") for row in (folder / f"{name}.tsv").read_bytes().decode().split("\n")[:-1]]
        expected = [
            [each.text.replace("\t", " "), line] for each, line in zip(translations, lines, strict=True)
        ]
        assert found == (expected if name == "reverse" else [row[::-1] for row in expected])
        rows[name] = len(found)
    assert rows == {"reverse": 30, "forward": 30}
    number, sources = more.train.line_numbers, more.lines("train", "source")
    tagged = [more.train.source.sentence(index)[0] == TAG for index in range(more.train.num_pairs)]
    assert tagged == (number <= rows["reverse"]).tolist()
    assert any(tagged)
    assert not any(source.startswith("<") for source in sources)
    assert config.training.replay == str(folder / "data")
    tokens = [float(each.train.target_lengths.sum()) + each.train.num_pairs for each in (own, more)]
    assert config.training.replay_share == pytest.approx(tokens[1] / sum(tokens), abs=5e-4)
    left = 3_600 * (1 - 0.3) - sum(
        each for _, each in json.loads((folder / "plan.json").read_bytes())["chosen"].values()
    )
    assert config.training.planned_seconds == pytest.approx(left)
    first = RunConfig.from_toml(folder / "reverse" / "config.toml").training
    assert first.planned_seconds == pytest.approx(3_600 * 0.3 / 2)
    assert first.replay is None
    assert load_translator(whole).translate(["sun moon"])


def test_a_run_killed_in_every_step_ends_with_the_bits_of_an_undisturbed_one(
    whole: Path, tmp_path: Path, toy_data: Path, budget: Budget
) -> None:
    run = tmp_path / "run"

    def kill_at(place: Path, step: int) -> Callable[[Path, Event], None]:
        def report(where: Path, event: Event) -> None:
            if where == place and event["event"] == "checkpoint" and event["step"] == step:
                raise Killed

        return report

    with pytest.raises(Killed):
        go(run, toy_data, budget, report=kill_at(run / "monolingual" / "reverse", 4))
    with pytest.raises(Killed):
        go(run, toy_data, budget, advance=killed, resume=True)
    pairs = run / "monolingual" / "reverse.tsv"
    assert pairs.read_bytes().count(b"\n") == 8
    pairs.write_bytes(pairs.read_bytes() + b"half a r\xc3")
    with pytest.raises(Killed):
        go(run, toy_data, None, report=kill_at(run, 8), resume=True)
    made = {path: path.stat().st_mtime_ns for path in (run / "monolingual").rglob("*") if path.is_file()}
    go(run, toy_data, budget, resume=True)
    assert weights(run) == weights(whole)
    for name in ("reverse.tsv", "forward.tsv"):
        assert (run / "monolingual" / name).read_bytes() == (whole / "monolingual" / name).read_bytes()
    assert all(path.stat().st_mtime_ns == time for path, time in made.items())
    go(run, toy_data, None, resume=True)
    assert RunDirectory(run).end() == 12


def test_a_run_whose_translations_are_of_no_use_goes_on_without_them(
    tmp_path: Path, toy_data: Path, back: Budget
) -> None:
    run, lines = tmp_path / "run", MonolingualText(Path(str(back.monolingual))).first(100)

    with pytest.raises(Killed):
        go(run, toy_data, back, advance=killed)
    (run / "monolingual" / "reverse.tsv").write_bytes("".join(f" \t{line}\n" for line in lines).encode())
    told = go(run, toy_data, None, resume=True)
    notice = "train: 0 of 30 pairs are left; see the reasons above; the model learns your pairs alone"
    assert f"NOTICE: {run}: {notice}" in told
    assert RunConfig.from_toml(run / "config.toml").training.replay is None


def test_a_short_time_translates_a_part_of_the_text(
    tmp_path: Path, toy_data: Path, back: Budget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monolingual, "_TRANSLATIONS_SHARE", 1e-9)
    told = go(tmp_path / "run", toy_data, back)
    assert any(": 1 lines of " in line for line in told)
    assert (tmp_path / "run" / "monolingual" / "reverse.tsv").read_bytes().count(b"\n") == 1


def test_a_rehearsal_says_the_steps_and_writes_nothing(
    tmp_path: Path, toy_data: Path, budget: Budget
) -> None:
    told: list[str] = []
    [phase] = phases(tmp_path / "run", toy_data, budget, say=told.append, rehearsal=True)
    assert isinstance(phase.config, Budget)
    assert (phase.run, phase.data) == (tmp_path / "run", toy_data)
    assert phase.config.seconds == pytest.approx(3_600 * 0.55)
    assert (phase.config.begun, phase.config.monolingual) == (TINY, None)
    assert told == [
        f"{tmp_path}/run: {budget.monolingual}: 30 lines, and 1 repeats; a reverse model takes about "
        "9 minutes, its translations at most about 4.5 minutes",
        f"{tmp_path}/run: {budget.monolingual_source}: 30 lines, and 1 repeats; a forward model takes about "
        "9 minutes, its translations at most about 4.5 minutes",
        f"{tmp_path}/run: about 33 minutes or more are for the model itself, on your pairs and these",
    ]
    assert not (tmp_path / "run").exists()


def test_a_run_goes_on_only_as_it_was_begun(
    tmp_path: Path, toy_data: Path, budget: Budget, back: Budget
) -> None:
    begun, text = tmp_path / "run", tmp_path / "text"
    text.write_bytes(Path(str(back.monolingual)).read_bytes())
    back = replace(back, monolingual=text)
    with pytest.raises(Killed):
        go(begun, toy_data, back, advance=killed)

    def refused(given: Budget | RunConfig | None, data: Path = toy_data, resume: bool = True) -> str:
        with pytest.raises(UserError) as raised:
            go(begun, data, given, resume=resume)
        return raised.value.messages[0]

    assert refused(back, resume=False).endswith("exists; continue with resume, or name a new folder")
    for other in (budget, replace(back, seconds=3_000.0)):
        assert "was begun with another budget, text or settings; give resume alone" in refused(other)
    assert refused(TINY) == f"{begun}: was begun with a budget; leave out other settings to go on"
    data = PreparedData(toy_data)
    files = allyouneed.CorpusFiles(data.text("train", "source"), data.text("train", "target"))
    allyouneed.prepare(tmp_path / "other", files, config=data.config)
    assert "run: was begun with other data than " in refused(None, tmp_path / "other")
    with (begun / "monolingual" / "reverse.tsv").open("ab") as held:
        lock_output(held.fileno(), begun)
        assert refused(None).endswith("another run is writing it; wait for it, or stop it")
    text.write_bytes(text.read_bytes() + "".join(f"raebo {n}\n" for n in range(50)).encode())
    assert refused(None).startswith(f"{text}: has changed since its translation began")
    (begun / "monolingual" / "plan.json").write_bytes(b"{}")
    assert refused(None).endswith("plan.json: is damaged; train a new run")


def test_text_is_not_added_to_a_run_that_was_begun_without(
    tmp_path: Path, toy_data: Path, budget: Budget
) -> None:
    go(tmp_path / "run", toy_data, replace(budget, monolingual=None, monolingual_source=None))
    with pytest.raises(UserError, match="was begun without monolingual text; leave it out"):
        go(tmp_path / "run", toy_data, budget, resume=True)


def test_unsuitable_text_is_refused_before_anything_is_trained(
    tmp_path: Path,
    toy_data: Path,
    toy_pairs: dict[str, Path],
    toy_treebank: Path,
    budget: Budget,
    back: Budget,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(budget: Budget, data: Path = toy_data) -> str:
        with pytest.raises(UserError) as raised:
            go(tmp_path / "run", data, budget)
        assert not (tmp_path / "run").exists()
        [message] = raised.value.messages
        return message

    text = tmp_path / "text"
    text.write_bytes("солнце и луна\n".encode())
    assert refused(replace(back, monolingual=text)) == (
        f"{text}: has none of the letters of the target side of {toy_data}; give text in the target language"
    )
    text.write_bytes(b"sun " * 1_000)
    assert refused(replace(back, monolingual=text)) == (
        f"{text}: has lines of more than 256 tokens only; give one sentence a line"
    )
    assert refused(replace(back, monolingual=tmp_path / "none")).endswith(
        "none: no such file; check the path"
    )
    readings = ReadingOrder("en", "de"), ReadingOrder("en", "fr")
    pairs = [toy_pairs["train.de"], toy_pairs["train.fr"]]
    several = allyouneed.CorpusFiles(pairs=pairs, readings=readings)
    allyouneed.prepare(tmp_path / "many", several, config=DataConfig(vocab_size=290))
    assert refused(budget, tmp_path / "many") == (
        f"monolingual and monolingual_source: is for one direction, but {tmp_path}/many has several; leave "
        "it out"
    )
    trees = DataConfig(task="parsing", vocab_size=311, joint_vocabulary=False)
    allyouneed.prepare(tmp_path / "trees", allyouneed.TreeFiles(toy_treebank / "dev.mrg"), config=trees)
    assert refused(back, tmp_path / "trees") == (
        "monolingual: is for sentence pairs, not for parsing; leave it out"
    )
    replayed = replace(back, settings=["training.replay='x'", "training.replay_share=0.1"])
    assert refused(replayed) == "monolingual: trains new models; leave out init_from and replay"
    assert refused(replace(budget, seconds=130.0)) == "budget: give 134 seconds or more"
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert refused(back) == "monolingual: is for one process; start it without torchrun"
