"""What all tests share: real data where there is some, one thread, no network, and checked tensor shapes."""

import fcntl
import gc
import os
import random
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import jaxtyping
import pytest
from hypothesis import HealthCheck, settings

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("OMP_NUM_THREADS", "1")  # the tensors of tests are too small to share out
jaxtyping.install_import_hook("allyouneed.model", "beartype.beartype")
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")
pytest_plugins = ["tests.tiny", "tests.chromium", "tests.forking.forker"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests first, so that no worker begins one when the others have done all the rest."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is there then stays until the end, and need not be searched for garbage again and again."""
    gc.disable()
    collected = yield
    gc.freeze()
    gc.enable()
    return collected


_SHAPED = "tests/inference/test_every_variant.py", "tests/model/", "tests/training/"


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs a GPU where there is none; check shapes where tests are of what has them."""
    # Checks take half of the time of tests of decoding.
    jaxtyping.config.update("jaxtyping_disable", not item.nodeid.startswith(_SHAPED))
    if item.get_closest_marker("gpu"):
        import torch

        if not torch.cuda.is_available():
            pytest.skip("NOT RUN: needs a CUDA device")


_COUNTED = "tests/native/", "tests/reliability/", "tests/siege/"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell what the tests of some folders counted, so that one that did nothing is seen."""
    passed = [report for report in terminalreporter.getreports("passed") if report.when == "call"]
    for report in passed:
        if report.nodeid.startswith(_COUNTED) and report.user_properties:
            counts = ", ".join(f"{value} {name}" for name, value in report.user_properties)
            terminalreporter.write_line(f"COUNT {report.nodeid}: {counts}")


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of real corpora (`multi30k/`, ...) that ALLYOUNEED_DATA names."""
    folder = os.environ.get("ALLYOUNEED_DATA")
    if not folder:
        pytest.skip("NOT RUN: needs real data; set ALLYOUNEED_DATA to the folder that holds it")
    return Path(folder)


TOY_WORDS = ("sun", "moon", "star", "tree", "river", "stone", "bird", "fish", "wolf", "bear", "sees", "likes")


@pytest.fixture(scope="session")
def shared_folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all processes of `make test` share."""
    folder = tmp_path_factory.getbasetemp()
    folder = (folder.parent if hasattr(request.config, "workerinput") else folder) / "shared"
    folder.mkdir(exist_ok=True)
    return folder


def made_once(path: Path, make: Callable[[], object]) -> Path:
    """What lies in the shared folder, made by the process that needs it first."""
    with path.with_name(f"{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            make()
    return path


@pytest.fixture(scope="session")
def toy_text(shared_folder: Path) -> Path:
    """A folder with parallel text in a toy language, whose words are English ones reversed, with an o."""
    folder, draw = shared_folder / "toy", random.Random(1)

    def write() -> None:
        folder.mkdir()
        for part, num_pairs in (("train", 400), ("valid", 20)):
            sentences = [draw.choices(TOY_WORDS, k=draw.randint(1, 4)) for _ in range(num_pairs)]
            for language, word in (("en", "{}"), ("toy", "{}o")):
                words = ([word.format(w if language == "en" else w[::-1]) for w in s] for s in sentences)
                text = "".join(" ".join(sentence) + "\n" for sentence in words)
                (folder / f"{part}.{language}").write_bytes(text.encode())

    return made_once(folder, write)


@pytest.fixture(scope="session")
def toy_data(toy_text: Path) -> Path:
    """The toy corpus, prepared; not to be changed."""
    from allyouneed import CorpusFiles, DataConfig, prepare

    train, valid = (
        CorpusFiles(toy_text / f"{part}.en", toy_text / f"{part}.toy", drop_repeats=False)
        for part in ("train", "valid")
    )
    data = toy_text / "data"
    return made_once(data, lambda: prepare(data, train, valid, DataConfig(vocab_size=290)))


@pytest.fixture(scope="session")
def toy_run(toy_data: Path) -> Path:
    """A run that has learned the toy language; not to be changed."""
    from allyouneed import RunConfig, train

    config = RunConfig().replace(
        model={"d_model": 64, "d_ff": 128, "num_heads": 2, "num_layers": 1, "dropout": 0.0},
        training={
            "batch_tokens": 3200,
            "micro_batch_tokens": 3200,
            "num_steps": 120,
            "warmup_steps": 60,
            "learning_rate_factor": 0.6,
            "checkpoint_every_steps": 20,
            "average_last": 2,
            "precision": "float32",
        },
    )
    run = toy_data.with_name("run")
    return made_once(run, lambda: train(run, toy_data, config))


@pytest.fixture(scope="session")
def toy_pairs(toy_text: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Files of pairs of two toy languages, `train.fr`, `valid.de` and so on: reversed words with an o for
    German, and words with an a for French."""
    found, folder = {}, tmp_path_factory.mktemp("pairs")
    for part in ("train", "valid"):
        english, german = ((toy_text / f"{part}.{name}").read_bytes().decode() for name in ("en", "toy"))
        french = english.replace(" ", "a ").replace("\n", "a\n")
        for language, text in (("de", german), ("fr", french)):
            pairs = zip(english.split("\n")[:-1], text.split("\n")[:-1], strict=True)
            found[f"{part}.{language}"] = folder / f"{part}.en-{language}.tsv"
            found[f"{part}.{language}"].write_bytes("".join(f"{a}\t{b}\n" for a, b in pairs).encode())
    return found


@pytest.fixture(scope="session")
def multilingual_model(toy_text: Path, toy_pairs: dict[str, Path]) -> Path:
    """A model that has learned to write both toy languages; not to be changed."""
    from allyouneed import CorpusFiles, DataConfig, RunConfig, prepare, train
    from allyouneed.data.directed_pairs import ReadingOrder

    readings = ReadingOrder("en", "de"), ReadingOrder("en", "fr")
    corpus, held_out = (
        CorpusFiles(
            pairs=[toy_pairs[f"{part}.de"], toy_pairs[f"{part}.fr"]], readings=readings, drop_repeats=False
        )
        for part in ("train", "valid")
    )
    data, run = toy_text / "many", toy_text / "many-run"
    made_once(data, lambda: prepare(data, corpus, held_out, DataConfig(vocab_size=290)))
    config = RunConfig().replace(
        model={"d_model": 64, "d_ff": 128, "num_heads": 2, "num_layers": 1, "dropout": 0.0},
        training={
            "batch_tokens": 3200,
            "micro_batch_tokens": 3200,
            "num_steps": 160,
            "warmup_steps": 60,
            "learning_rate_factor": 0.6,
            "precision": "float32",
        },
    )
    return made_once(run, lambda: train(run, data, config))


@pytest.fixture(scope="session")
def told_both_model(multilingual_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The weights of `multilingual_model`, told both languages: each side begins with its own symbol."""
    from allyouneed.runs.loading import load_for
    from allyouneed.storage.checkpoint import write_checkpoint
    from allyouneed.storage.publish import publish_directory
    from allyouneed.tasks.translation.task import TRANSLATION

    found, out = load_for(multilingual_model, TRANSLATION), tmp_path_factory.mktemp("told") / "both"
    config = found.config.replace(data={"language_symbols": "both", "directions": (), "source_language": ""})
    with publish_directory(out, "model", {}, say=print) as aside:
        write_checkpoint(aside, config, found.arrays, {})
        TRANSLATION.load_units(found.directory, config.data, *config.model.vocab_sizes).save(aside)
    return out


@pytest.fixture(scope="session")
def toy_model(toy_run: Path) -> Path:
    """The average of the toy run's last two checkpoints; not to be changed."""
    from allyouneed import average

    model = toy_run.with_name("model")
    return made_once(model, lambda: average(toy_run, model))


@pytest.fixture(scope="module")
def translator(toy_model: Path) -> Any:
    """A translator of the toy model."""
    from allyouneed import load_translator

    return load_translator(toy_model)


def toy_tree(draw: random.Random) -> str:
    """A tree whose brackets follow from its words: nouns in the house, and with luck a place."""

    def noun_phrase() -> str:
        noun = f"(NP (DT the) (NN {draw.choice(TOY_WORDS[:10])}))"
        return noun if draw.random() < 0.7 else f"(NP {noun} (PP (IN near) (NP (NNP {draw.choice('ABC')}))))"

    subject, verb = noun_phrase(), draw.choice(TOY_WORDS[10:])
    return f"( (S {subject.replace('(NP', '(NP-SBJ', 1)} (VP (VBZ {verb}) {noun_phrase()}) (. .)))"


@pytest.fixture(scope="session")
def toy_treebank(shared_folder: Path) -> Path:
    """A folder with `train.mrg` and `dev.mrg` of a toy grammar."""
    folder, draw = shared_folder / "trees", random.Random(1)

    def write() -> None:
        folder.mkdir()
        for part, num_trees in (("train", 400), ("dev", 20)):
            trees = "".join(toy_tree(draw) + "\n" for _ in range(num_trees))
            (folder / f"{part}.mrg").write_bytes(trees.encode())

    return made_once(folder, write)


@pytest.fixture(scope="session")
def toy_parser(toy_treebank: Path) -> Path:
    """A run that has learned the toy grammar's trees, as it does with any seed; not to be changed."""
    from allyouneed import DataConfig, TreeFiles, prepare, presets, train

    train_trees, dev_trees = (TreeFiles(toy_treebank / f"{part}.mrg") for part in ("train", "dev"))
    settings = DataConfig(task="parsing", vocab_size=311, joint_vocabulary=False, tags="predicted")
    data, run = toy_treebank / "data", toy_treebank / "run"
    made_once(data, lambda: prepare(data, train_trees, dev_trees, settings))
    config = presets.parsing_tiny().replace(
        model={
            **{"d_model": 64, "d_ff": 128, "num_heads": 2, "num_layers": 1, "norm": "post"},
            **{"dropout": 0.0, "attention_dropout": 0.0, "symbol_dropout": 0.0},
        },
        training={
            "batch_tokens": 800,
            "micro_batch_tokens": 800,
            "num_steps": 400,
            "warmup_steps": 100,
            "checkpoint_every_steps": 400,
            "validate_every_steps": 400,
            "learning_rate_factor": 0.3,
            "precision": "float32",
        },
    )
    return made_once(run, lambda: train(run, data, config))


@pytest.fixture(autouse=True)
def instructions(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the instruction set that the test's parameters name, if they do.

    Every test has this fixture: pytest drops one that only `pytest_generate_tests` adds.
    """
    if hasattr(request, "param"):
        monkeypatch.setenv("ALLYOUNEED_ISA", request.param)
