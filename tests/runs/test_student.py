"""A student learns what its teachers wrote; every step can be gone on with, and begins only once."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.conftest import TOY_WORDS
from tests.runs.test_monolingual import SETTINGS, Killed, killed

import allyouneed
from allyouneed import DataConfig, PreparedData, load_translator
from allyouneed.config.model import ModelConfig
from allyouneed.config.presets import student_of
from allyouneed.data.directed_pairs import ReadingOrder
from allyouneed.errors import UserError
from allyouneed.inference.vocabulary_shortlist import Shortlist
from allyouneed.interop.export_limits import int8_misfits
from allyouneed.model.architectures import build_model
from allyouneed.native.library import available
from allyouneed.runs import budgeting, distillation, row_file
from allyouneed.runs.distillation import Student, load_teacher, make_student, phases, plan
from allyouneed.runs.loading import config_of
from allyouneed.runs.run_configuration import completed
from allyouneed.runs.starting import train_phase
from allyouneed.storage.checkpoint import save_checkpoint
from allyouneed.storage.publish import lock_output
from allyouneed.storage.run_directory import RunDirectory
from allyouneed.storage.run_log import Event

STEPS = (*SETTINGS, "training.precision='float32'")


@pytest.fixture(scope="module", autouse=True)
def quick() -> Iterator[None]:
    """Short measurements, and chunks of few lines."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(budgeting, "_MEASURED_SHARE", 1e-9)
        patch.setattr(row_file, "_LINES_AT_ONCE", 150)
        yield


@pytest.fixture(scope="module")
def more(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sentences of the source language."""
    file = tmp_path_factory.mktemp("text") / "more"
    file.write_bytes("".join(f"{word} likes {other}\n" for word in TOY_WORDS for other in TOY_WORDS).encode())
    return file


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory, toy_run: Path, toy_data: Path, more: Path) -> Student:
    """A student of the toy run."""
    out = tmp_path_factory.mktemp("students") / "micro"
    return Student(out, [toy_run], toy_data, "micro", 3_600.0, more, STEPS)


def go(
    student: Student,
    *,
    report: Callable[[Event], None] = lambda event: None,
    advance: Callable[[int], None] = lambda count: None,
) -> list[str]:
    """Make a student as the command does; return what was said."""
    told: list[str] = []

    @contextmanager
    def watch(phase: str, total: int | None) -> Iterator[Callable[[int], None]]:
        yield advance

    for phase in phases(student, say=told.append, watch=watch):
        train_phase(phase, report=report)
    return told


@pytest.fixture(scope="module")
def whole(asked: Student) -> Student:
    """The student, made undisturbed."""
    go(asked)
    return asked


def weights(student: Student) -> bytes:
    return (Path(student.out) / "model.safetensors").read_bytes()


def test_the_student_learns_the_translations_of_the_training_sources_and_of_more_text(
    whole: Student, toy_data: Path
) -> None:
    own, data = PreparedData(toy_data), PreparedData(whole.stages / "data")
    rows = [
        line.split("\t")
        for name in ("pairs.tsv", "more.tsv")
        for line in (whole.stages / name).read_bytes().decode().split("\n")[:-1]
    ]
    assert len(rows) == own.train.num_pairs + len(TOY_WORDS) ** 2
    learned = set(zip(data.lines("train", "source"), data.lines("train", "target"), strict=True))
    assert learned <= {(source, target) for source, target, _, _ in rows}
    assert 0.9 * len(set(map(tuple, rows))) <= len(learned) < len(set(map(tuple, rows)))
    assert data.lines("valid", "target") == own.lines("valid", "target")
    assert Shortlist.load(whole.stages / "shortlist", Path(whole.out))


def test_the_model_has_the_shape_in_8_bits_and_translates(whole: Student) -> None:
    config, run = config_of(Path(whole.out)), RunDirectory(whole.stages / "run")
    assert (config.model.num_layers, config.model.decoder_layers) == (4, 1)
    assert (config.model.d_model, config.model.autoregression) == (64, "ssru")
    assert config.search.beam_size == 1
    step = run.end()
    assert step is not None
    whole_size = (run.checkpoint(step) / "model.safetensors").stat().st_size
    assert len(weights(whole)) < 0.35 * whole_size
    assert load_translator(whole.out).translate(["sun moon"])


@pytest.mark.parametrize(
    ("shape", "teacher", "d_model", "d_ff", "num_heads"),
    [
        ("small", 1024, 512, 2048, 16),
        ("tiny", 512, 256, 1024, 8),
        ("micro", 512, 128, 256, 4),
        ("tiny", 128, 128, 512, 4),
        ("tiny", 200, 192, 768, 6),
        ("micro", 96, 64, 128, 2),
    ],
)
def test_a_student_is_no_wider_than_its_teacher_and_can_be_rounded_for_browsers(
    shape: str, teacher: int, d_model: int, d_ff: int, num_heads: int
) -> None:
    wide = ModelConfig().replace(d_model=teacher, num_heads=teacher // 32 if teacher % 32 == 0 else 8)
    model = student_of(shape, wide).model
    assert (model.d_model, model.d_ff, model.num_heads) == (d_model, d_ff, num_heads)
    assert not int8_misfits(model)


def test_a_student_as_wide_as_its_teacher_has_its_form() -> None:
    teacher = ModelConfig().replace(d_model=128, num_heads=2, norm="pre", tied_embeddings="none", dropout=0.3)
    model = student_of("tiny", teacher).model
    assert (model.num_heads, model.norm, model.tied_embeddings) == (2, "pre", "none")
    assert (model.num_layers, model.decoder_layers, model.d_ff) == (6, 2, 512)
    assert (model.dropout, model.autoregression) == (0.1, "ssru")
    rotary = student_of("tiny", teacher.replace(positions="rotary", norm="post")).model
    assert (rotary.num_heads, rotary.positions, rotary.norm) == (2, "rotary", "post")
    restricted = student_of("tiny", teacher.replace(neighbourhood=5, norm="post")).model
    assert (restricted.num_heads, restricted.neighbourhood, restricted.norm) == (4, None, "pre")


def test_an_unknown_shape_is_refused_by_name() -> None:
    with pytest.raises(UserError, match="shape huge: unknown; take small, tiny, micro"):
        student_of("huge", allyouneed.RunConfig().model)


def test_a_student_killed_in_every_step_ends_with_the_bits_of_an_undisturbed_one(
    whole: Student, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    student = replace(whole, out=tmp_path / "micro")
    calls: list[int] = []

    def kill_in_the_second_text(count: int) -> None:
        calls.append(count)
        if len(calls) == 3:
            raise Killed

    def kill_at_checkpoint(event: Event) -> None:
        if event["event"] == "checkpoint" and event["step"] == 8:
            raise Killed

    pairs, more = student.stages / "pairs.tsv", student.stages / "more.tsv"
    with pytest.raises(Killed):
        go(student, advance=killed)
    assert pairs.read_bytes().count(b"\n") == 150
    pairs.write_bytes(pairs.read_bytes() + b"half a r\xc3")
    with pytest.raises(Killed):
        go(student, advance=kill_in_the_second_text)
    assert (pairs.read_bytes().count(b"\n"), more.read_bytes().count(b"\n")) == (400, 144)
    more.write_bytes(more.read_bytes()[:-9])
    for name in ("with_other_pairs", "learn_shortlist", "store_rounded"):
        with monkeypatch.context() as patch:
            patch.setattr(distillation, name, lambda *given, **options: killed())
            with pytest.raises(Killed):
                go(student)
        if name == "learn_shortlist":
            with pytest.raises(Killed):
                go(student, report=kill_at_checkpoint)
    made = {path: path.stat().st_mtime_ns for path in student.stages.rglob("*") if path.is_file()}
    assert not Path(student.out).exists()
    go(student)
    assert weights(student) == weights(whole)
    for name in ("pairs.tsv", "more.tsv"):
        assert (student.stages / name).read_bytes() == (whole.stages / name).read_bytes()
    assert all(path.stat().st_mtime_ns == time for path, time in made.items() if path.name != "lock")
    assert not go(student)  # nothing is left to do, or to say


def test_a_file_of_translations_can_be_replaced(whole: Student, tmp_path: Path) -> None:
    student = replace(whole, out=tmp_path / "micro", monolingual=None)
    with pytest.raises(Killed):
        go(student, advance=killed)
    rows = (whole.stages / "pairs.tsv").read_bytes().decode().split("\n")[:-1]
    mine = "".join("\t".join([row.split("\t")[0], "my own", "-0.5", "0"]) + "\n" for row in rows)
    (student.stages / "pairs.tsv").write_bytes(mine.encode())
    go(student)
    assert {*PreparedData(student.stages / "data").lines("train", "target")} == {"my own"}


def test_several_teachers_are_an_ensemble(
    asked: Student, toy_run: Path, toy_model: Path, tmp_path: Path
) -> None:
    student = replace(asked, out=tmp_path / "micro", teachers=[toy_run, toy_model])
    with pytest.raises(Killed):
        go(student, advance=killed)
    line, translation, score, _ = (
        (student.stages / "pairs.tsv").read_bytes().decode().split("\n")[0].split("\t")
    )
    scores = []
    for teachers in ([toy_run, toy_model], [toy_run]):
        teacher = load_teacher(teachers, PreparedData(asked.data))
        [candidates] = teacher.stream([line], n_best=4)
        scores.append([np.mean(each.token_log_probs) for each in candidates if each.text == translation])
    assert float(score) == pytest.approx(scores[0][0], abs=1e-4)
    assert float(score) != pytest.approx(scores[1][0], abs=1e-4)


def test_the_plan_tells_the_steps_and_writes_nothing(asked: Student, tmp_path: Path) -> None:
    student = replace(asked, out=tmp_path / "micro")
    told: list[str] = []
    stages = plan(student, say=told.append)
    assert [stage.name for stage in stages] == ["translations", "data", "run", "model"]
    assert sum(stage.seconds for stage in stages) == pytest.approx(student.seconds)
    assert all(stage.num_bytes > 0 for stage in stages)
    assert told[0].startswith(f"{student.out}: 400 of 400 lines of ")
    assert told[1].startswith(f"{student.out}: 144 of 144 lines of {student.monolingual} are translated in ")
    assert not any(tmp_path.iterdir())


def test_a_short_time_translates_a_part_of_the_text(
    asked: Student, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("allyouneed.runs.distillation._PAIRS_SHARE", 1e-9)
    monkeypatch.setattr("allyouneed.runs.distillation._TRANSLATIONS_SHARE", 1e-9)
    told: list[str] = []
    plan(replace(asked, out=tmp_path / "micro"), say=told.append)
    assert [line.split(" of ")[0].rpartition(" ")[2] for line in told[:2]] == ["1", "1"]


def test_a_student_goes_on_only_as_it_was_begun(
    asked: Student, toy_model: Path, more: Path, tmp_path: Path
) -> None:
    text = tmp_path / "more"
    text.write_bytes(more.read_bytes())
    student = replace(asked, out=tmp_path / "micro", monolingual=text)
    with pytest.raises(Killed):
        go(student, advance=killed)

    def refused(student: Student) -> str:
        with pytest.raises(UserError) as raised:
            go(student)
        [message] = raised.value.messages
        return message

    others = {
        "teachers": replace(student, teachers=[toy_model]),
        "shape": replace(student, shape="tiny"),
        "budget": replace(student, seconds=7_200.0),
        "monolingual": replace(student, monolingual=None),
        "settings": replace(student, settings=()),
    }
    for name, other in others.items():
        assert refused(other) == (
            f"{student.stages}: was begun with other {name}; give what it was begun with, or name another "
            "model"
        )
    with (student.stages / "lock").open("ab") as held:
        lock_output(held.fileno(), student.stages)
        assert refused(student).endswith("another run is writing it; wait for it, or stop it")
    pairs = student.stages / "pairs.tsv"
    pairs.write_bytes(b"another\tline\t0\t0\n")
    assert "has changed since its translation began; restore it" in refused(student)
    (student.stages / "plan.json").write_bytes(b"[]")
    assert refused(student).endswith("plan.json: is damaged; remove its folder, and begin anew")


def test_what_does_not_suit_is_refused_before_anything_is_translated(
    asked: Student,
    toy_pairs: dict[str, Path],
    toy_treebank: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    student = replace(asked, out=tmp_path / "micro")

    def refused(student: Student) -> str:
        with pytest.raises(UserError) as raised:
            go(student)
        assert not student.stages.exists()
        [message] = raised.value.messages
        return message

    readings = ReadingOrder("en", "de"), ReadingOrder("en", "fr")
    pairs = [toy_pairs["train.de"], toy_pairs["train.fr"]]
    several = allyouneed.CorpusFiles(pairs=pairs, readings=readings)
    allyouneed.prepare(tmp_path / "many", several, config=DataConfig(vocab_size=290))
    trees = DataConfig(task="parsing", vocab_size=311, joint_vocabulary=False)
    allyouneed.prepare(tmp_path / "trees", allyouneed.TreeFiles(toy_treebank / "dev.mrg"), config=trees)
    assert refused(replace(student, data=tmp_path / "many")) == (
        f"{tmp_path}/many: is for several languages; prepare it for two, with sub-words of its own"
    )
    assert refused(replace(student, data=tmp_path / "trees")) == (
        f"{tmp_path}/trees: is for parsing; students translate"
    )
    assert refused(replace(student, teachers=[tmp_path / "none"])).startswith(
        f"{tmp_path}/none: no such model"
    )
    text = tmp_path / "text"
    text.write_bytes("солнце и луна\n".encode())
    assert refused(replace(student, monolingual=text)) == (
        f"{text}: has none of the letters of the source side of {student.data}; give text in the source "
        "language"
    )
    short = Student(student.out, student.teachers, student.data, "micro", 10.0)
    assert refused(short) == "budget: give 40 seconds or more"
    assert refused(replace(student, teachers=[])).startswith("teachers: name one or more")
    for teachers in ([asked.data], [asked.teachers[0], asked.data]):
        message = refused(replace(student, teachers=teachers))
        assert message.startswith(f"{asked.data}: ")
        assert "model" in message
    assert refused(replace(student, settings=["training.init_from='none'"])) == (
        "a student is a new model; leave out training.init_from and training.replay"
    )
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_bytes(b"mine")
    assert refused(replace(student, out=tmp_path / "full")).endswith(
        "full: exists and is not empty; name a new folder or remove this one"
    )
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert refused(student) == "students are made by one process; start it without torchrun"


def test_the_plan_is_a_file_that_people_can_read(whole: Student) -> None:
    found = json.loads((whole.stages / "plan.json").read_bytes())
    assert found["begun"]["shape"] == "micro"
    assert {name: number for name, (number, _) in found["lines"].items()} == {
        "pairs.tsv": 400,
        "more.tsv": 144,
    }


def test_a_model_of_another_run_is_not_taken_for_the_student(whole: Student, tmp_path: Path) -> None:
    student = replace(whole, out=tmp_path / "micro")
    shutil.copytree(whole.stages, student.stages)
    shutil.copytree(str(whole.teachers[0]) + "/checkpoints/step-00000120", student.out)
    with pytest.raises(UserError, match=r"micro: is not the model of .*run; remove one of them"):
        go(student)


def test_the_function_for_users_makes_it_in_an_empty_folder(
    asked: Student, toy_run: Path, tmp_path: Path
) -> None:
    (tmp_path / "small").mkdir()
    said: list[str] = []
    student = replace(asked, out=f"{tmp_path}/small/", teachers=[str(toy_run)], monolingual=None)
    assert make_student(student, say=said.append) is None
    assert (tmp_path / "small.stages" / "report.json").exists() is False
    assert load_translator(tmp_path / "small").config.model.autoregression == "ssru"
    assert any("the student learns for about " in line for line in said)


def test_data_with_two_vocabularies_have_students(toy_text: Path, toy_run: Path, tmp_path: Path) -> None:
    files = allyouneed.CorpusFiles(toy_text / "train.en", toy_text / "train.toy")
    config = DataConfig(vocab_size=290, joint_vocabulary=False)
    allyouneed.prepare(tmp_path / "data", files, config=config)
    student = Student(tmp_path / "micro", [toy_run], tmp_path / "data", "micro", 3_600.0, None, STEPS)
    assert plan(student)
    go(student)
    assert config_of(tmp_path / "micro").model.tied_embeddings != "all"


def test_a_teacher_of_several_languages_writes_that_of_the_data(
    multilingual_model: Path, toy_pairs: dict[str, Path], asked: Student, tmp_path: Path
) -> None:
    files, names = (
        allyouneed.CorpusFiles(pairs=[toy_pairs["train.fr"]]),
        ("source_language", "target_language"),
    )
    config = DataConfig(vocab_size=290)
    allyouneed.prepare(tmp_path / "untold", files, config=config)
    allyouneed.prepare(
        tmp_path / "fr", files, config=config.replace(**dict(zip(names, ("en", "fr"), strict=True)))
    )
    prepared = PreparedData(tmp_path / "fr")
    teacher = load_teacher([multilingual_model], prepared)
    own = load_translator(multilingual_model, to="fr", precision="int8" if available() else "float32")
    sources = prepared.lines("train", "source")[:20]
    assert [each.text for each in teacher.translate(sources)] == [
        each.text for each in own.translate(sources)
    ]
    with pytest.raises(UserError, match=r"untold: does not say its languages, and .* knows several"):
        load_teacher([multilingual_model], PreparedData(tmp_path / "untold"))


def test_a_text_gives_only_lines_that_can_be_learned(asked: Student, more: Path, tmp_path: Path) -> None:
    text = tmp_path / "more"
    text.write_bytes(b"sun " * 500 + b"\n" + more.read_bytes())
    student = replace(asked, out=tmp_path / "micro", monolingual=text)
    go(student)
    rows = (student.stages / "more.tsv").read_bytes().decode().split("\n")[:-1]
    assert len(rows) == len(TOY_WORDS) ** 2


def test_a_teacher_whose_sides_were_not_learned_as_one_but_share_a_matrix_gives_its_weights(
    toy_text: Path, toy_run: Path, tmp_path: Path
) -> None:
    """Models of OPUS-MT are so: one vocabulary, and a tokeniser for each side."""
    files = allyouneed.CorpusFiles(toy_text / "train.en", toy_text / "train.toy")
    config = DataConfig(tokenizer="byte", vocab_size=280, joint_vocabulary=False)
    prepared = allyouneed.prepare(tmp_path / "data", files, config=config)
    continued = config_of(toy_run).replace(training={"init_from": "a model"})
    tied = completed(continued, prepared, torch.device("cpu"))
    assert tied.model.tied_embeddings == "all"
    weights = build_model(tied.model).state_dict()
    save_checkpoint(tmp_path / "teacher", tied, weights, prepared.tokenizers, {})
    student = Student(tmp_path / "micro", [tmp_path / "teacher"], tmp_path / "data", "micro", 3_600.0)
    steps = distillation._Steps(student, "cpu", print)
    steps._choose()
    assert steps.budget().begun is not None
    start = config_of(tmp_path / "micro.stages" / "start")
    assert (start.model.tied_embeddings, start.training.init_from) == ("all", None)


@pytest.mark.parametrize(
    ("settings", "layer"),
    [
        ((), 1),
        (("model.num_decoder_layers=3",), 3),
        (("model.num_decoder_layers=3", "model.guided_layer=2"), 2),
    ],
    ids=["as it is", "deeper", "in the middle"],
)
def test_alignments_are_read_from_the_layer_that_learns_them(
    asked: Student, settings: tuple[str, ...], layer: int
) -> None:
    steps = distillation._Steps(replace(asked, settings=settings), "cpu", print)
    assert steps._config.search.alignment_layer == layer
    assert steps._config.search.alignment_head == 1
