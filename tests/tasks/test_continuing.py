"""A run continues a model: it begins where the model is, learns from there, and then needs it no more.

Promise: Continued models.
"""

import random
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from allyouneed.config.run import DataConfig, RunConfig
from allyouneed.data.batch_plans import make_batch
from allyouneed.data.corpus_files import CorpusFiles
from allyouneed.errors import DataError, ModelError, UsageError, UserError
from allyouneed.model.dropout import evaluation_mode
from allyouneed.preparation.prepared_data import PreparedData
from allyouneed.preparation.preparing import prepare
from allyouneed.runs.initial_model import continue_from
from allyouneed.runs.loading import load_translator, model_of
from allyouneed.runs.rehearsing import rehearse
from allyouneed.runs.starting import average, train
from allyouneed.storage.checkpoint import load_checkpoint, store_rounded
from allyouneed.storage.publish import sha256_of
from allyouneed.storage.run_directory import RunDirectory, resolve_model
from allyouneed.storage.run_log import Event, read_log
from allyouneed.tasks.parsing.treebank import TreeFiles
from allyouneed.training.meters import validation_loss
from allyouneed.training.optimizer import freeze, trainable
from allyouneed.training.trainer import schedule_of
from allyouneed.training.update import batch_loss

LAST_STEP = 12
NEW_WORDS = ("green", "yellow", "violet", "orange", "purple", "silver")


@pytest.fixture(scope="module")
def new_text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Text in the toy language about other things."""
    folder, draw = tmp_path_factory.mktemp("new"), random.Random(2)
    for part, num_pairs in (("train", 120), ("valid", 20)):
        sentences = [draw.choices(NEW_WORDS, k=draw.randint(1, 3)) for _ in range(num_pairs)]
        for language, reads in (("en", 1), ("toy", -1)):
            words = ([w[::reads] + "o" * (reads < 0) for w in sentence] for sentence in sentences)
            text = "".join(" ".join(sentence) + "\n" for sentence in words)
            (folder / f"{part}.{language}").write_bytes(text.encode())
    return folder


@pytest.fixture(scope="module")
def new_data(new_text: Path, toy_model: Path) -> Path:
    """The new text in the sub-words of the toy model."""
    files, valid = (
        CorpusFiles(new_text / f"{part}.en", new_text / f"{part}.toy", drop_repeats=False)
        for part in ("train", "valid")
    )
    prepare(new_text / "data", files, valid, tokenizer_from=toy_model)
    return new_text / "data"


def settings_of(model: Path, **training: Any) -> RunConfig:
    """The settings of a short run that continues the model."""
    short = {
        "num_steps": LAST_STEP,
        "checkpoint_every_steps": 5,
        "batch_tokens": 400,
        "micro_batch_tokens": 100,
        "warmup_steps": 40,
        "precision": "float32",
    }
    return continue_from(model).replace(training=short | training)


@pytest.fixture(scope="module")
def config(toy_model: Path, toy_data: Path) -> RunConfig:
    """Settings with replay, frozen parameters and dropout."""
    replay = {"replay": str(toy_data), "replay_share": 0.3, "frozen": ["encoder.0.feed_forward.*"]}
    return settings_of(toy_model, **replay).replace(model={"dropout": 0.1})


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, new_data: Path, config: RunConfig) -> Path:
    """A continued run that nothing has interrupted; not to be changed."""
    run = tmp_path_factory.mktemp("continued") / "run"
    assert train(run, new_data, config) is None
    return run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Where no run is yet."""
    return tmp_path / "run"


@pytest.fixture
def model(tmp_path: Path, toy_model: Path) -> Path:
    """A copy of the toy model, which may go."""
    return Path(shutil.copytree(toy_model, tmp_path / "model"))


def stop_at(step: int) -> Callable[[Event], None]:
    """Something to report to that has the program told to stop when it hears of the checkpoint of `step`."""

    def report(event: Event) -> None:
        if (event["event"], event.get("step")) == ("checkpoint", step):
            signal.raise_signal(signal.SIGTERM)

    return report


def bits(run: Path, step: int = LAST_STEP) -> tuple[str, str]:
    directory = RunDirectory(run)
    return (
        sha256_of(directory.checkpoint(step) / "model.safetensors"),
        sha256_of(directory.state(step) / "state.safetensors"),
    )


def test_data_take_the_sub_words_and_settings_of_a_model(new_data: Path, toy_data: Path) -> None:
    new, old = PreparedData(new_data), PreparedData(toy_data)
    assert new.config == old.config
    assert (new.source_vocab_size, new.target_vocab_size) == (290, 290)
    assert new.tokenizers == old.tokenizers  # to the byte, so that shortlists go on to fit
    assert new.train.num_pairs == 120
    ids = new.units.source.encode_batch(new.lines("train", "source"))
    assert [new.train.source.sentence(index).tolist() for index in range(120)] == ids


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"tokenizer": "byte"},
            "tokenizer: the tokenisers of {} have bpe, not byte; leave it out, or learn others",
        ),
        ({"vocab_size": 300}, "vocab_size: the tokenisers of {} have 290, not 300; leave it out, or learn"),
        (
            {"joint_vocabulary": False},
            "separate_vocabularies: the tokenisers of {} have one vocabulary, not two",
        ),
        ({"vocab_sample_bytes": 0}, "vocab_sample_bytes: the tokenisers of {} have 4194304, not 0"),
        ({"task": "parsing"}, "task: the tokenisers of {} have translation, not parsing"),
    ],
)
def test_data_settings_that_contradict_the_model_are_refused(
    toy_model: Path, toy_text: Path, tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    config = PreparedData(toy_text / "data").config.replace(**changed)
    files = CorpusFiles(toy_text / "train.en", toy_text / "train.toy")
    with pytest.raises(UsageError) as error:
        prepare(tmp_path / "data", files, config=config, tokenizer_from=toy_model)
    assert error.value.messages[0].startswith(message.format(toy_model))
    assert list(tmp_path.iterdir()) == []


def test_limits_and_languages_of_data_may_be_others_than_the_models(
    toy_model: Path, toy_text: Path, tmp_path: Path
) -> None:
    config = PreparedData(toy_text / "data").config.replace(max_tokens=5, target_language="de")
    files = CorpusFiles(toy_text / "train.en", toy_text / "train.toy")
    prepared = prepare(tmp_path / "data", files, config=config, tokenizer_from=toy_model)
    assert prepared.config == config
    assert prepared.train.target_lengths.max() <= 5


def test_trees_with_labels_that_the_parser_does_not_know_are_counted(
    tmp_path: Path, toy_treebank: Path
) -> None:
    settings = DataConfig(task="parsing", vocab_size=311, joint_vocabulary=False)
    prepare(tmp_path / "trees", TreeFiles(toy_treebank / "train.mrg"), config=settings)
    tiny = {"d_model": 8, "d_ff": 8, "num_heads": 1, "num_layers": 1, "tied_embeddings": "none"}
    train(tmp_path / "run", tmp_path / "trees", RunConfig().replace(model=tiny, training={"num_steps": 1}))
    known = "(S (NP (DT the) (NN sun)) (VP (VBZ sees) (NP (DT the) (NN moon))) (. .))"
    (tmp_path / "new.mrg").write_bytes(f"{known}\n{known.replace('(VP', '(XP')}\n".encode())
    said: list[str] = []
    files = TreeFiles(tmp_path / "new.mrg")
    prepare(tmp_path / "new", files, say=said.append, tokenizer_from=tmp_path / "run")
    assert "train: 1 targets have units that are not in the vocabulary" in said


def test_the_first_loss_is_the_models_own(run: Path, new_data: Path, toy_model: Path) -> None:
    train(run, new_data, settings_of(toy_model, num_steps=1))
    (loss,) = (event["loss"] for event in read_log(run / "log.jsonl") if event["event"] == "train")
    config, store = RunConfig.from_toml(run / "config.toml"), PreparedData(new_data).train
    first = next(schedule_of(store, config.training).batches_from(0))
    model = model_of(load_checkpoint(toy_model))
    with evaluation_mode(model.modules()):
        losses = [
            batch_loss(model, make_batch(store, pairs), 0.0, "float32") for pairs in first.micro_batches
        ]
    total = sum(loss.negative_log_likelihood.item() for loss in losses)
    assert loss == pytest.approx(total / first.num_target_tokens, rel=1e-6)


def test_a_run_starts_with_the_bits_of_the_model_and_records_them(
    run: Path, new_data: Path, toy_model: Path
) -> None:
    train(run, new_data, settings_of(toy_model), report=stop_at(0))
    start, model = RunDirectory(run).checkpoint(0), toy_model / "model.safetensors"
    assert (start / "model.safetensors").read_bytes() == model.read_bytes()
    for config in (run / "config.toml", start / "config.toml"):
        assert RunConfig.from_toml(config).training.init_sha256 == sha256_of(model)


def test_a_model_in_8_bits_is_continued_from_its_values_in_float32(
    run: Path, new_data: Path, toy_model: Path, tmp_path: Path
) -> None:
    store_rounded(toy_model, small := tmp_path / "small")
    assert train(run, new_data, settings_of(small), report=stop_at(0)) is not None
    start, model = load_checkpoint(RunDirectory(run).checkpoint(0)), load_checkpoint(small)
    assert not start.arrays.rounded
    assert start.weights.keys() == model.weights.keys()
    assert all(torch.equal(tensor, model.weights[name]) for name, tensor in start.weights.items())
    assert start.config.training.init_sha256 == sha256_of(small / "model.safetensors")
    assert train(run, new_data, resume=True) is None
    average(run, tmp_path / "average")
    assert not load_checkpoint(tmp_path / "average").arrays.rounded


def test_the_start_is_kept_as_long_as_it_is_one_of_the_two_newest_states(whole: Path) -> None:
    assert RunDirectory(whole).checkpoint_steps() == [5, 10, 12]
    assert RunDirectory(whole).resumable_steps() == [10, 12]


def test_a_continued_run_can_be_continued_as_it_is_now(whole: Path, tmp_path: Path, new_data: Path) -> None:
    config = continue_from(whole)
    assert (config.training.init_sha256, config.training.replay, config.training.frozen) == (None, None, ())
    assert config.model == RunConfig.from_toml(whole / "config.toml").model
    train(tmp_path / "run", new_data, config.replace(training={"num_steps": 1}))
    recorded = RunConfig.from_toml(tmp_path / "run" / "config.toml").training
    assert recorded.init_sha256 == bits(whole)[0]


def test_continuing_improves_on_the_model_and_replay_keeps_what_it_knew(
    tmp_path: Path, new_data: Path, toy_data: Path, toy_model: Path
) -> None:
    def losses_of(path: Path) -> tuple[float, float]:
        """On new text, and on old text."""
        model = model_of(load_checkpoint(resolve_model(path)))
        new, old = (PreparedData(data).valid for data in (new_data, toy_data))
        assert new is not None
        assert old is not None
        return validation_loss(model, new), validation_loss(model, old)

    enough = {"num_steps": 30, "warmup_steps": 5, "learning_rate_factor": 0.15}
    train(tmp_path / "alone", new_data, settings_of(toy_model, **enough))
    replay = {"replay": str(toy_data), "replay_share": 0.5}
    train(tmp_path / "with", new_data, settings_of(toy_model, **enough, **replay))
    (new, old), (new_alone, old_alone), (new_with, old_with) = map(
        losses_of, (toy_model, tmp_path / "alone", tmp_path / "with")
    )
    assert new_alone < 0.5 * new
    assert new_with < 0.5 * new
    assert old_alone > 4 * old
    assert old_with < 2 * old


@pytest.mark.parametrize("step", [0, 5])
def test_a_stopped_run_goes_on_to_the_same_bits_where_the_model_is_gone(
    run: Path, whole: Path, model: Path, new_data: Path, config: RunConfig, step: int
) -> None:
    given = config.replace(training={"init_from": str(model)})
    assert train(run, new_data, given, report=stop_at(step)) is signal.SIGTERM
    assert RunDirectory(run).resumable_steps()[-1] == step
    shutil.rmtree(model)
    assert train(run, new_data, resume=True) is None
    assert bits(run) == bits(whole)
    assert not (run / "best").exists() or RunDirectory(run).marked("best") != 0


def test_the_command_that_started_a_run_also_resumes_it_where_the_model_is_gone(
    run: Path, whole: Path, model: Path, new_data: Path, config: RunConfig
) -> None:
    given = config.replace(training={"init_from": str(model)})
    train(run, new_data, given, report=stop_at(5))
    shutil.rmtree(model)
    train(run, new_data, given, resume=True)
    assert bits(run) == bits(whole)


def test_a_run_that_was_killed_before_it_had_saved_the_model_reads_it_again(
    run: Path, whole: Path, model: Path, new_data: Path, config: RunConfig
) -> None:
    """A run is killed between the record of its configuration and the first checkpoint."""

    class Kill(BaseException):
        pass

    def kill(event: Event) -> None:
        raise Kill

    with pytest.raises(Kill):
        train(run, new_data, config.replace(training={"init_from": str(model)}), report=kill)
    assert RunDirectory(run).resumable_steps() == []
    shutil.move(model, moved := model.with_name("moved"))
    with pytest.raises(ModelError, match=f"^{model}: no such model"):
        train(run, new_data, resume=True)
    shutil.copytree(moved, model)
    damaged = bytearray((model / "model.safetensors").read_bytes())
    damaged[-1] ^= 1
    (model / "model.safetensors").write_bytes(damaged)
    with pytest.raises(ModelError, match=r"model\.safetensors: is damaged"):
        train(run, new_data, resume=True)
    train(run, new_data, config.replace(training={"init_from": str(moved)}), resume=True)
    assert bits(run) == bits(whole)


def test_a_run_that_was_killed_before_it_had_saved_the_model_takes_no_other(
    run: Path, toy_run: Path, new_data: Path, config: RunConfig, model: Path
) -> None:
    given = config.replace(training={"init_from": str(model)})
    train(run, new_data, given, report=stop_at(0))
    for kind in ("checkpoints", "state"):
        shutil.rmtree(run / kind)
    shutil.rmtree(model)
    shutil.copytree(resolve_model(toy_run), model)
    with pytest.raises(ModelError, match=f"^{model}: has other weights than when the run began; name the"):
        train(run, new_data, resume=True)


def test_another_model_is_refused_when_a_run_resumes(
    tmp_path: Path, whole: Path, toy_run: Path, new_data: Path, config: RunConfig
) -> None:
    run = Path(shutil.copytree(whole, tmp_path / "run"))
    with pytest.raises(
        UsageError, match=f"^{run}: did not begin with the weights of {toy_run}; leave out init"
    ):
        train(run, new_data, config.replace(training={"init_from": str(toy_run)}), resume=True)
    drawn = settings_of(toy_run, init_from=None, num_steps=1)
    train(tmp_path / "drawn", new_data, drawn)
    with pytest.raises(UsageError, match=f"drawn: did not begin with the weights of {toy_run}"):
        train(tmp_path / "drawn", new_data, drawn.replace(training={"init_from": str(toy_run)}), resume=True)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"replay_share": 0.4}, "began with training.replay_share = 0.3, now 0.4 is given"),
        ({"replay": None, "replay_share": 0.0}, "began with training.replay_share = 0.3, now 0.0 is given"),
        ({"frozen": []}, "began with training.frozen = ('encoder.0.feed_forward.*',), now () is given"),
        ({"init_moments": True}, "began with training.init_moments = False, now True is given"),
    ],
)
def test_other_settings_of_the_start_are_refused_when_a_run_resumes(
    whole: Path, new_data: Path, config: RunConfig, changed: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError) as error:
        train(whole, new_data, config.replace(training=changed), resume=True)
    assert any(message in told for told in error.value.messages)


def test_replayed_data_may_move_and_not_change(
    tmp_path: Path, whole: Path, new_data: Path, toy_data: Path, config: RunConfig
) -> None:
    run = Path(shutil.copytree(whole, tmp_path / "run"))
    longer = {"num_steps": LAST_STEP + 1}
    moved = Path(shutil.copytree(toy_data, tmp_path / "moved"))
    train(run, new_data, config.replace(training={"replay": str(moved)} | longer), resume=True)
    assert RunConfig.from_toml(run / "config.toml").training.replay == str(moved)
    with pytest.raises(DataError, match=f"^{run}: was trained on other data than is given now"):
        train(run, new_data, config.replace(training={"replay": str(new_data)} | longer), resume=True)
    shutil.rmtree(moved)
    with pytest.raises(ModelError, match=f"^{moved}: no such directory"):
        train(run, new_data, resume=True)


def test_the_average_of_a_run_leaves_out_the_model_that_it_started_with(
    tmp_path: Path, new_data: Path, toy_model: Path
) -> None:
    run = tmp_path / "run"
    train(run, new_data, settings_of(toy_model, num_steps=3), report=stop_at(0))
    assert [path.name for path in average(run, tmp_path / "unchanged")] == ["step-00000000"]
    train(run, new_data, resume=True)
    assert RunDirectory(run).checkpoint_steps() == [0, 3]
    assert [path.name for path in average(run, tmp_path / "model")] == ["step-00000003"]
    load_translator(tmp_path / "model")


def test_moments_are_taken_from_a_checkpoint_that_has_them(
    run: Path, tmp_path: Path, toy_run: Path, toy_model: Path, new_data: Path
) -> None:
    train(run, new_data, settings_of(toy_run, init_moments=True), report=stop_at(0))
    assert bits(run, 0) == bits(toy_run, 120)
    assert train(run, new_data, resume=True) is None
    without = tmp_path / "without"
    train(without, new_data, settings_of(toy_run))
    assert bits(run)[0] != bits(without)[0]


def test_moments_of_a_run_with_frozen_parameters_are_found_by_name(
    run: Path, tmp_path: Path, toy_model: Path, new_data: Path
) -> None:
    frozen = ["encoder.0.*"]
    train(run, new_data, settings_of(toy_model, frozen=frozen))
    more = tmp_path / "more"
    fewer = ["encoder.0.*", "decoder.0.self_attention.*"]
    train(more, new_data, settings_of(run, init_moments=True, frozen=fewer), report=stop_at(0))
    found, former = (_moments(path, patterns) for path, patterns in ((more, fewer), (run, frozen)))
    assert found
    assert all(torch.equal(tensor, former[name]) for name, tensor in found.items())
    with pytest.raises(ModelError, match=r"has no moments of encoder\.0\..*; leave out init_moments, or fre"):
        train(tmp_path / "all", new_data, settings_of(run, init_moments=True))
    assert not (tmp_path / "all" / "config.toml").exists()


def _moments(run: Path, frozen: list[str]) -> dict[str, torch.Tensor]:
    """Name of a parameter -> its first moment, from the newest state."""
    from safetensors.torch import load

    directory = RunDirectory(run)
    step = directory.resumable_steps()[-1]
    model = model_of(load_checkpoint(directory.checkpoint(step)))
    freeze(model, frozen)
    names = {parameter: name for name, parameter in model.named_parameters()}
    saved = load((directory.state(step) / "state.safetensors").read_bytes())
    assert len(saved) == 3 * len(trainable(model))
    return {names[p]: saved[f"{number}.exp_avg"] for number, p in enumerate(trainable(model))}


def test_a_rehearsal_counts_the_replayed_pairs_and_writes_nothing(
    run: Path, new_data: Path, config: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("allyouneed.runs.pace._WARM_UP_SECONDS", 0.01)
    store = PreparedData(new_data).train
    own = int(store.target_lengths.sum()) + store.num_pairs
    found = rehearse(run, new_data, config)
    assert found.epoch.target_tokens == pytest.approx(own / 0.7, abs=8)
    assert found.epoch.pairs > store.num_pairs
    assert found.config.training.init_sha256 is not None
    assert not run.exists()


REFUSALS: dict[str, tuple[dict[str, Any], dict[str, Any], type[UserError], str]] = {
    "another width": (
        {},
        {"d_model": 32},
        UsageError,
        "model.d_model = 32: {model} has 64, and",
    ),
    "another norm": (
        {},
        {"norm": "pre"},
        UsageError,
        "model.norm = pre: {model} has post, and its architect",
    ),
    "no model": ({"init_from": "absent"}, {}, ModelError, "absent: no such model; name a run, a checkpoint"),
    "data as a model": ({"init_from": "{data}"}, {}, ModelError, "{data}: is a data directory; a model"),
    "other weights": (
        {"init_sha256": "0" * 64},
        {},
        ModelError,
        "{model}: has other weights than when the run",
    ),
    "moments of an average": (
        {"init_moments": True},
        {},
        UsageError,
        "{model}: has no saved moments, which only the two newest checkpoints of a run have; leave out init_",
    ),
    "moments of an old checkpoint": (
        {"init_moments": True, "init_from": "{run}/checkpoints/step-00000080"},
        {},
        UsageError,
        "{run}/checkpoints/step-00000080: has no saved moments",
    ),
    "no data to replay": (
        {"replay": "absent", "replay_share": 0.2},
        {},
        ModelError,
        "absent: no such directory",
    ),
    "a model to replay": (
        {"replay": "{model}", "replay_share": 0.2},
        {},
        ModelError,
        "{model}: is a model direc",
    ),
    "other units to replay": (
        {"replay": "{bytes}", "replay_share": 0.2},
        {},
        DataError,
        "{bytes}: has other tokenisers than {data}, and cannot be replayed; prepare both with tokenizer_from",
    ),
    "too large a share": (
        {"replay": "{data}", "replay_share": 0.98, "batch_tokens": 100},
        {},
        UsageError,
        "training.replay_share = 0.98: leaves 2 tokens of training.batch_tokens = 100 to the pairs that are",
    ),
    "nothing to freeze": (
        {"frozen": ["encoder.1.*"]},
        {},
        UsageError,
        "training.frozen: 'encoder.1.*' matches no parameter; names begin with embeddings.matrices, enc",
    ),
    "nothing to train": ({"frozen": ["*"]}, {}, UsageError, "training.frozen: matches all parameters; leave"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_cannot_be_continued_is_refused_in_one_line_and_leaves_nothing(
    run: Path, new_data: Path, toy_run: Path, toy_model: Path, bytes_data: Path, case: str
) -> None:
    training, model, error_type, message = REFUSALS[case]
    paths = {"model": toy_model, "data": new_data, "run": toy_run, "bytes": bytes_data}
    named = {
        name: value.format(**paths) if isinstance(value, str) else value for name, value in training.items()
    }
    config = settings_of(toy_model).replace(training=named, model=model)
    with pytest.raises(error_type) as error:
        train(run, new_data, config)
    assert error.value.messages[0].startswith(message.format(**paths))
    assert len(error.value.messages) == 1
    assert not run.exists()


@pytest.fixture(scope="module")
def bytes_data(tmp_path_factory: pytest.TempPathFactory, toy_text: Path) -> Path:
    """The toy text as bytes."""
    directory = tmp_path_factory.mktemp("bytes") / "data"
    prepare(
        directory,
        CorpusFiles(toy_text / "train.en", toy_text / "train.toy"),
        config=DataConfig(tokenizer="byte"),
    )
    return directory


def test_data_with_other_sub_words_are_refused(run: Path, bytes_data: Path, toy_model: Path) -> None:
    with pytest.raises(DataError) as error:
        train(run, bytes_data, settings_of(toy_model))
    assert error.value.messages == (
        f"{bytes_data}: has other tokenisers than {toy_model}; "
        f"prepare the data with tokenizer_from {toy_model}",
    )
    assert not run.exists()


@pytest.mark.parametrize(
    ("training", "message"),
    [
        (
            {"replay": "data"},
            "replay and replay_share go together; give prepared data and a share, such as 0.2",
        ),
        ({"replay_share": 0.2}, "replay and replay_share go together"),
        ({"replay": "data", "replay_share": 1.0}, "replay_share: must be less than 1, not 1.0"),
        (
            {"init_moments": True},
            "init_moments and init_sha256 have no effect without init_from; leave them out",
        ),
        ({"init_sha256": "0" * 64}, "init_moments and init_sha256 have no effect without init_from"),
        ({"init_from": "m", "init_sha256": "0"}, "init_sha256: String should match pattern"),
        ({"frozen": "encoder.*"}, "frozen: must be a list"),
        (
            {"frozen": ["a"], "sharded": True},
            "frozen parameters cannot be sharded; leave out frozen or sharded",
        ),
        ({"init_from": "\udcff"}, "init_from: must be Unicode without lone surrogates"),
    ],
)
def test_settings_that_mean_nothing_alone_are_refused(training: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as error:
        RunConfig().replace(training=training)
    assert message in error.value.messages[0]
