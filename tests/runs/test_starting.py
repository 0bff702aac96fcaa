import json
import os
import re
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import sacrebleu
import torch

from allyouneed.cli.program import main
from allyouneed.config.run import DataConfig, RunConfig
from allyouneed.data.corpus_files import CorpusFiles
from allyouneed.errors import DataError, DivergedError, LockedError, ModelError, UsageError
from allyouneed.preparation.prepared_data import PreparedData
from allyouneed.preparation.preparing import prepare
from allyouneed.runs.loading import load_translator
from allyouneed.runs.run_configuration import run_config
from allyouneed.runs.starting import train
from allyouneed.storage.publish import sha256_of
from allyouneed.storage.run_directory import RunDirectory
from allyouneed.storage.run_log import Event, read_log
from allyouneed.training.update import seed_generators

LAST_STEP = 40
CONFIG = RunConfig().replace(
    model={"d_model": 16, "d_ff": 32, "num_layers": 1, "num_heads": 2, "dropout": 0.2},
    training={
        "batch_tokens": 600,
        "num_steps": LAST_STEP,
        "warmup_steps": 13,  # fits, which is not told
        "checkpoint_every_steps": 9,
        "validate_every_steps": 1,  # without validation data: every step is logged
        "precision": "float32",
    },
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory, toy_text: Path) -> Path:
    """The toy language as bytes, with nothing to validate on."""
    directory = tmp_path_factory.mktemp("bytes") / "data"
    files = CorpusFiles(toy_text / "train.en", toy_text / "train.toy")
    prepare(directory, files, config=DataConfig(tokenizer="byte"))
    return directory


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Path:
    """A run that nothing has interrupted; not to be changed."""
    run = tmp_path_factory.mktemp("whole") / "run"
    assert train(run, data, CONFIG) is None
    return run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Where no run is yet."""
    return tmp_path / "run"


@pytest.fixture
def copy(run: Path, whole: Path) -> Path:
    """A finished run to change."""
    return Path(shutil.copytree(whole, run))


def stop_at(step: int) -> Callable[[Event], None]:
    """Something to report to that has the program told to stop when it hears of `step`."""

    def report(event: Event) -> None:
        if (event["event"], event.get("step")) == ("train", step):
            signal.raise_signal(signal.SIGTERM)

    return report


def bits(run: Path) -> tuple[str, str]:
    """What the last model and the last training state are, to the bit."""
    directory = RunDirectory(run)
    return (
        sha256_of(directory.checkpoint(LAST_STEP) / "model.safetensors"),
        sha256_of(directory.state(LAST_STEP) / "state.safetensors"),
    )


def contents(run: Path) -> dict[Path, bytes]:
    return {path.relative_to(run): path.read_bytes() for path in run.rglob("*") if path.is_file()}


def exit_of(run: Path) -> dict[str, object]:
    return dict(json.loads((run / "exit.json").read_bytes()))


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_a_run_has_the_vocabularies_of_its_data_and_four_micro_batches_an_update(whole: Path) -> None:
    config = RunConfig.from_toml(whole / "config.toml")
    assert config.data.tokenizer == "byte"
    assert config.model.source_vocab_size == config.model.target_vocab_size == 261
    assert config.training.micro_batch_tokens == 150
    assert exit_of(whole) == {"code": 0, "step": LAST_STEP, "reason": "finished"}


def test_a_stopped_run_goes_on_to_the_same_bits(run: Path, whole: Path, data: Path) -> None:
    said: list[str] = []
    assert train(run, data, CONFIG, resume=True, report=stop_at(5), say=said.append) is signal.SIGTERM
    assert exit_of(run) == {"code": 143, "step": 5, "reason": "SIGTERM"}
    assert train(run, data, resume=True, say=said.append) is None
    assert exit_of(run) == {"code": 0, "step": LAST_STEP, "reason": "finished"}
    assert bits(run) == bits(whole)
    assert said == [f"{run}: resumed at step 5"]


def test_weights_are_drawn_for_a_new_run_and_not_for_one_that_is_resumed(run: Path, data: Path) -> None:
    states: list[torch.Tensor] = []

    def report(event: Event) -> None:
        if event["event"] == "start":
            states.append(torch.get_rng_state())

    train(run, data, CONFIG.replace(training={"num_steps": 1}), report=report)
    train(run, data, resume=True, report=report)
    seed_generators(CONFIG.training.seed, 0, 0)
    assert [torch.equal(state, torch.get_rng_state()) for state in states] == [False, True]


def test_a_finished_run_that_is_resumed_stays_as_it_is(copy: Path, data: Path) -> None:
    before = contents(copy)
    assert train(copy, data, resume=True) is None
    after = contents(copy)
    assert after.pop(Path("log.jsonl")).startswith(before.pop(Path("log.jsonl")))
    del before[Path("lock")], after[Path("lock")]
    assert after == before


def test_a_finished_run_can_be_given_more_steps(copy: Path, data: Path) -> None:
    train(copy, data, CONFIG.replace(training={"num_steps": LAST_STEP + 2}), resume=True)
    assert exit_of(copy) == {"code": 0, "step": LAST_STEP + 2, "reason": "finished"}
    assert RunConfig.from_toml(copy / "config.toml").training.num_steps == LAST_STEP + 2


def test_a_run_that_is_there_wants_resume(copy: Path, data: Path) -> None:
    before = contents(copy)
    with pytest.raises(UsageError, match=f"^{copy}: exists; continue with resume, or name a new folder$"):
        train(copy, data, CONFIG)
    assert contents(copy) == before


@pytest.mark.parametrize("resume", [False, True])
def test_a_folder_that_is_no_run_is_left_alone(run: Path, data: Path, resume: bool) -> None:
    run.mkdir()
    (run / "notes.tmp-1").write_bytes(b"precious")
    (run / "photo").write_bytes(b"precious")
    with pytest.raises(UsageError, match=f"^{run}: exists and is no run; name a new folder$"):
        train(run, data, CONFIG, resume=resume)
    assert sorted(path.name for path in run.iterdir()) == ["notes.tmp-1", "photo"]


def test_all_settings_that_have_changed_are_named_and_those_that_may_are_not(copy: Path, data: Path) -> None:
    changed = CONFIG.replace(
        model={"dropout": 0.1, "d_ff": 64},
        training={"seed": 2, "num_steps": 50, "keep_checkpoints": 2, "patience": 3},
    )
    with pytest.raises(UsageError) as error:
        train(copy, data, changed, resume=True)
    assert [re.findall(r"began with (\S+) = (\S+), now (\S+) is", m)[0] for m in error.value.messages] == [
        ("model.d_ff", "32", "64"),
        ("model.dropout", "0.2", "0.1"),
        ("training.seed", "1", "2"),
    ]


def test_the_threads_of_a_run_cannot_share_other_work_from_now_on(copy: Path, data: Path) -> None:
    given = CONFIG.replace(training={"threads_share": "operations"})
    with pytest.raises(
        UsageError, match=r"began with training\.threads_share = micro_batches, now operations"
    ):
        run_config(RunDirectory(copy), given, PreparedData(data), torch.device("cpu"))


@pytest.mark.parametrize("config", [None, CONFIG])
@pytest.mark.parametrize("tokenizer", ["byte", "bpe"])
def test_other_data_is_refused(
    tmp_path: Path, copy: Path, toy_text: Path, config: RunConfig | None, tokenizer: str
) -> None:
    lines = (toy_text / "train.en").read_bytes().split(b"\n")
    (tmp_path / "edited").write_bytes(b"\n".join([b"moon", *lines[1:]]))
    files = CorpusFiles(tmp_path / "edited", toy_text / "train.toy")
    prepare(tmp_path / "other", files, config=DataConfig.checked(tokenizer=tokenizer, vocab_size=280))
    with pytest.raises(DataError, match=r"name the data it began with, or train a new run$"):
        train(copy, tmp_path / "other", config, resume=True)


def test_a_run_in_use_is_refused(copy: Path, data: Path) -> None:
    with (
        RunDirectory(copy).locked(),
        pytest.raises(LockedError, match=f"^{copy}: process {os.getpid()} on .* is training here"),
    ):
        train(copy, data, resume=True)


@pytest.mark.parametrize("damaged", ["checkpoints/{}/model.safetensors", "state/{}/state.safetensors"])
def test_where_the_newest_checkpoint_is_damaged_the_one_before_is_taken_with_a_notice(
    copy: Path, whole: Path, data: Path, damaged: str
) -> None:
    path = copy / damaged.format("step-00000040")
    flip_a_bit(path)
    said: list[str] = []
    assert train(copy, data, resume=True, report=stop_at(38), say=said.append) is signal.SIGTERM
    assert [line.partition(": sha256")[0] for line in said] == [
        f"NOTICE: {path}: is damaged",
        f"{copy}: resumed at step 36",
    ]
    assert (copy / "latest").read_bytes() == b"step-00000038\n"
    train(copy, data, resume=True)
    assert bits(copy) == bits(whole)


def test_a_run_whose_states_are_gone_does_not_start_again(copy: Path, data: Path) -> None:
    shutil.rmtree(copy / "state")
    for step in RunDirectory(copy).checkpoint_steps()[:-1]:
        shutil.rmtree(RunDirectory(copy).checkpoint(step))
    before = {path: path.stat().st_mtime_ns for path in (copy / "checkpoints").rglob("*")}
    with pytest.raises(ModelError, match="its checkpoints have no state to resume from; copy the folder"):
        train(copy, data, resume=True)
    assert {path: path.stat().st_mtime_ns for path in (copy / "checkpoints").rglob("*")} == before


def test_a_checkpoint_in_the_place_of_another_is_damaged(copy: Path, data: Path) -> None:
    older, newest = RunDirectory(copy).resumable_steps()[-2:]
    shutil.rmtree(RunDirectory(copy).checkpoint(newest))
    shutil.copytree(RunDirectory(copy).checkpoint(older), RunDirectory(copy).checkpoint(newest))
    said: list[str] = []
    train(copy, data, resume=True, say=said.append)
    assert f"is the checkpoint of step {older}; take another copy" in said[0]
    assert said[1].endswith(f"resumed at step {older:,}")


def test_settings_that_do_not_fit_are_told(run: Path, data: Path) -> None:
    said: list[str] = []
    config = CONFIG.replace(training={"num_steps": 2, "warmup_steps": 3, "sharded": True})
    train(run, data, config, say=said.append)
    too_long = (
        f"{run}: training.warmup_steps = 3 is too long for a run of 2 updates; train longer, or train a new "
        "run with training.warmup_steps=1 and training.learning_rate_factor=0.58"
    )
    assert said == [f"{run}: training.sharded has no effect with one process", too_long, too_long]


def test_where_every_checkpoint_is_damaged_nothing_is_trained(copy: Path, data: Path) -> None:
    for path in copy.glob("state/*/state.json"):
        flip_a_bit(path)
    with pytest.raises(
        ModelError, match=f"^{copy}: every checkpoint with a state is damaged; `verify` names"
    ):
        train(copy, data, resume=True)


def test_a_torn_log_line_is_no_hindrance(run: Path, whole: Path, data: Path) -> None:
    train(run, data, CONFIG, report=stop_at(5))
    with (run / "log.jsonl").open("ab") as log:
        log.write(b'{"event": "train", "st')
    train(run, data, resume=True)
    assert [event["step"] for event in read_log(run / "log.jsonl") if event["event"] == "train"] == [
        *range(1, LAST_STEP + 1)
    ]
    assert bits(run) == bits(whole)


def test_a_run_that_diverges_says_so_and_keeps_only_what_is_finite(run: Path, data: Path) -> None:
    with pytest.raises(DivergedError) as error:
        train(run, data, CONFIG.replace(training={"learning_rate_factor": 1e30, "checkpoint_every_steps": 1}))
    assert exit_of(run) == {"code": 5, "step": 4, "reason": error.value.messages[0]}
    assert RunDirectory(run).resumable_steps() == [2, 3]  # skipped updates are steps too
    load_translator(run)


def test_a_run_that_ends_out_of_order_has_no_exit_left_from_before(copy: Path, data: Path) -> None:
    def interrupt(event: Event) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(copy, data, CONFIG.replace(training={"num_steps": 50}), resume=True, report=interrupt)
    assert not (copy / "exit.json").exists()


def test_the_bleu_of_a_validation_is_that_of_greedy_translations_by_its_checkpoint(
    toy_run: Path, toy_text: Path
) -> None:
    *_, validation = (event for event in read_log(toy_run / "log.jsonl") if event["event"] == "validate")
    sources, references = (
        (toy_text / f"valid.{language}").read_bytes().decode().removesuffix("\n").split("\n")
        for language in ("en", "toy")
    )
    translator = load_translator(RunDirectory(toy_run).checkpoint(validation["step"]))
    texts = [translation.text for translation in translator.translate(sources, beam_size=1)]
    assert validation["bleu"] == pytest.approx(sacrebleu.corpus_bleu(texts, [references]).score)
    assert validation["bleu"] > 5


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--resume"], 0, "resumed at step 40"),
        ([], 2, "exists; continue with --resume"),
        (["--resume", "--set", "model.dropout=0.3"], 2, "began with model.dropout = 0.2, now 0.3 is given"),
        (["--resume", "--data", "toy_data"], 3, "name the data it began with"),
        (["--resume", "--data", "absent"], 4, "absent: no such directory"),
    ],
)
def test_the_program_ends_with_the_code_that_its_error_has(
    copy: Path,
    data: Path,
    toy_data: Path,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    code: int,
    message: str,
) -> None:
    arguments = ["--data", str(data), *options] if "--data" not in options else options
    paths = {"toy_data": str(toy_data), "absent": str(copy / "absent")}
    arguments = [paths.get(argument, argument) for argument in arguments]
    assert main(["train", str(copy), "--device", "cpu", *arguments]) == code
    assert message in capsys.readouterr().err


def test_the_program_ends_with_code_8_where_the_run_is_in_use_and_5_where_it_diverges(
    copy: Path, data: Path, tmp_path: Path
) -> None:
    (tmp_path / "absurd.toml").write_text(CONFIG.replace(training={"learning_rate_factor": 1e30}).to_toml())
    arguments = ["--data", str(data), "--device", "cpu"]
    with RunDirectory(copy).locked():
        assert main(["train", str(copy), "--resume", *arguments]) == 8
    assert main(["train", str(tmp_path / "new"), *arguments, "--config", str(tmp_path / "absurd.toml")]) == 5
