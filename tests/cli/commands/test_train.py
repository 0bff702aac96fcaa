"""`train` takes its configuration from a preset, a file and options, says how it goes, and ends in a run."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.packages import require_packages

from allyouneed.config.run import RunConfig
from allyouneed.runs import budgeting, pace
from allyouneed.runs.initial_model import continue_from
from allyouneed.storage.checkpoint import load_checkpoint, save_checkpoint

RunCommand = Callable[..., tuple[int, bytes, str]]
TINY = (
    *("model.d_model=16", "model.d_ff=16", "model.num_heads=2", "model.num_layers=1"),
    *("training.precision=float32", "training.batch_tokens=400"),
)


@pytest.fixture
def train(run_command: RunCommand, tmp_path: Path, toy_data: Path) -> RunCommand:
    """`allyouneed train` of a tiny model on the toy data."""

    def run(*options: str | Path, data: Path = toy_data) -> tuple[int, bytes, str]:
        return run_command("train", tmp_path / "run", "--data", data, "--set", *TINY, *options)

    return run


def test_the_next_command_is_told_as_it_can_be_typed(
    run_command: RunCommand, tmp_path: Path, toy_data: Path
) -> None:
    run = tmp_path / "a run"
    code, _, err = run_command("train", run, "--data", toy_data, "--set", *TINY, "--steps", "1")
    assert code == 0
    assert f"{run}: finished; make a model with `allyouneed average '{run}' --out MODEL`" in err


@pytest.mark.usefixtures("pictures")
def test_a_run_holds_its_configuration_log_curves_and_checkpoint(train: RunCommand, tmp_path: Path) -> None:
    code, out, err = train("--steps", "2")
    run = tmp_path / "run"
    assert (code, out) == (0, b"")
    assert "2 updates in all" in err
    assert "step 2: validation loss " in err
    assert f"{run}: finished; make a model with `allyouneed average {run} --out MODEL`" in err
    events = [json.loads(line) for line in (run / "log.jsonl").read_bytes().split(b"\n")[:-1]]
    assert [event["event"] for event in events] == ["start", "train", "validate", "cost", "checkpoint"]
    assert json.loads((run / "exit.json").read_bytes())["code"] == 0
    assert (run / "latest").read_bytes() == (run / "best").read_bytes() == b"step-00000002\n"
    assert (run / "loss.png").read_bytes().startswith(b"\x89PNG")
    assert RunConfig.from_toml(run / "config.toml").training.num_steps == 2


def test_options_go_over_the_file_and_the_file_over_the_preset(train: RunCommand, tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_bytes(b"[training]\nwarmup_steps = 7\nseed = 5\n[model]\ndropout = 0.25\n")
    options = ("--preset", "demo", "--config", tmp_path / "my.toml", "--steps", "1")
    assert train(*options, "--set", "training.seed=6", "training.micro_batch_tokens=400")[0] == 0
    config = RunConfig.from_toml(tmp_path / "run" / "config.toml")
    assert (config.training.warmup_steps, config.training.seed, config.model.dropout) == (7, 6, 0.25)
    assert config.training.learning_rate_factor == 1.5  # the preset's own
    assert (config.model.d_model, config.training.num_steps) == (16, 1)


def test_the_precision_is_an_option(train: RunCommand, tmp_path: Path) -> None:
    assert train("--steps", "1", "--precision", "bfloat16")[0] == 0
    assert RunConfig.from_toml(tmp_path / "run" / "config.toml").training.precision == "bfloat16"


def test_a_run_that_is_there_wants_resume_and_goes_on_with_its_own_configuration(
    run_command: RunCommand, train: RunCommand, tmp_path: Path, toy_data: Path
) -> None:
    assert train("--steps", "1")[0] == 0
    again = ("train", tmp_path / "run", "--data", toy_data)
    code, _, err = run_command(*again)
    assert code == 2
    assert f"error[E-USAGE]: {tmp_path / 'run'}: exists; continue with --resume, or" in err
    code, _, err = run_command(*again, "--resume", "--steps", "2")
    assert code == 0
    assert "resumed at step 1" in err
    assert RunConfig.from_toml(tmp_path / "run" / "config.toml").model.d_model == 16


@pytest.mark.parametrize(
    ("options", "tied", "vocab_size"),
    [
        (("--separate-vocabularies", "--vocab-size", "270"), "target", 270),
        (("--tokenizer", "wordpiece", "--vocab-size", "270"), "all", 270),
        (("--tokenizer", "byte"), "all", 261),
    ],
)
def test_every_kind_of_vocabulary_goes_from_text_to_translations(
    run_command: RunCommand,
    train: RunCommand,
    tmp_path: Path,
    toy_text: Path,
    options: tuple[str, ...],
    tied: str,
    vocab_size: int,
) -> None:
    files = ("--source", toy_text / "train.en", "--target", toy_text / "train.toy")
    assert run_command("prepare", tmp_path / "data", *files, *options)[0] == 0
    assert train("--steps", "1", data=tmp_path / "data")[0] == 0
    model = RunConfig.from_toml(tmp_path / "run" / "config.toml").model
    assert (model.tied_embeddings, model.source_vocab_size, model.target_vocab_size) == (
        tied,
        vocab_size,
        vocab_size,
    )
    limited = "translate", tmp_path / "run", "--max-length", "60"  # or the first that does not end is told
    code, out, err = run_command(*limited, stdin=b"sun\n\nmoon\n")
    assert (code, out.count(b"\n"), err) == (0, 3, "")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (
            "training.warmup_stps=9",
            "training.warmup_stps: is unknown; did you mean training.warmup_steps?",
        ),
        ("trainin.seed=9", "setting trainin: is unknown; did you mean training?"),
        ("model.dropout=1.0", "setting model.dropout: must be less than 1, not 1.0"),
        (
            "training.num_steps=0",
            "setting training.num_steps: must be at least 1",
        ),
        ("training.num_steps=true", "training.num_steps: must be a whole number, not True"),
        ("training.num_steps=many", "training.num_steps: must be a whole number, not 'many'"),
        ("model.num_heads=3", "num_heads = 3 does not divide d_model = 16; take one of [1, 2, 4, 8, 16]"),
        ("seed=9", "setting seed=9: write group.key=value, such as training.warmup_steps=8000"),
        ("training.seed=[1", "'[1' is not a TOML value"),
    ],
)
def test_a_wrong_setting_is_named_in_one_line_before_a_run_is_made(
    run_command: RunCommand, tmp_path: Path, toy_data: Path, setting: str, message: str
) -> None:
    code, out, err = run_command(
        "train",
        tmp_path / "run",
        "--data",
        toy_data,
        "--set",
        "model.d_model=16",
        "model.num_heads=2",
        setting,
    )
    assert (code, out) == (2, b"")
    assert message in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[training]\nseed = 1\nwarmup_stps = 9\n", ":3: unknown setting training.warmup_stps; did you mean"),
        ("# mine\ntraining.warmup_stps = 9\n", ":2: unknown setting training.warmup_stps; did you mean"),
        ("\n[trainin]\nseed = 9\n", ":2: unknown setting trainin; did you mean training?"),
        ('[model]\ndropout = "high"\n', ":2: model.dropout: must be a number, not 'high'"),
        ("[model]\nd_ff = 8\nd_ff = 8\n", "is not TOML: Cannot overwrite a value (at line 3, column 9)"),
        ("[model\n", "is not TOML: "),
    ],
)
def test_a_wrong_setting_in_a_file_is_named_with_its_line(
    train: RunCommand, tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "my.toml").write_bytes(text.encode())
    code, out, err = train("--config", tmp_path / "my.toml")
    assert (code, out) == (2, b"")
    assert err.startswith(f"allyouneed: error[E-USAGE]: {tmp_path / 'my.toml'}")
    assert message in err
    assert err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["my.toml"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (("training.batch_tokens=5",), "is too small for "),
        (("model.positions=learned", "model.max_positions=3"), "model.max_positions = 3 is too small"),
        (("model.guided_alignment=1", "model.guided_layer=9"), "guided_layer = 9: the decoder has "),
    ],
)
def test_data_that_does_not_fit_the_settings_is_told_before_a_run_is_made(
    train: RunCommand, tmp_path: Path, settings: tuple[str, ...], message: str
) -> None:
    code, out, err = train("--steps", "1", *(part for setting in settings for part in ("--set", setting)))
    assert (code, out) == (2, b"")
    assert message in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
    assert train("--steps", "1")[0] == 0


def test_data_that_are_not_there_are_told_before_a_run_is_made(train: RunCommand, tmp_path: Path) -> None:
    code, _, err = train("--steps", "1", data=tmp_path / "absent")
    assert code == 4
    assert err == f"allyouneed: error[E-MODEL]: {tmp_path / 'absent'}: no such directory; check the path\n"
    assert list(tmp_path.iterdir()) == []


def test_a_run_out_of_patience_says_so_and_names_its_best_checkpoint(
    train: RunCommand, tmp_path: Path
) -> None:
    settings = (
        "training.validate_every_steps=1",
        "training.patience=2",
        "training.learning_rate_factor=1e-9",
    )
    code, _, err = train("--steps", "50", "--set", *settings)
    run, ended = tmp_path / "run", json.loads((tmp_path / "run" / "exit.json").read_bytes())
    assert code == ended["code"] == 0
    assert ended["reason"] == "out of patience"
    assert f"{run}: stopped at step {ended['step']}, out of patience; make a model" in err
    best = (run / "best").read_bytes().decode().strip()
    assert f"{run}: best on the validation data: {run / 'checkpoints' / best}\n" in err


def test_tensorboard_is_written_beside_the_log(train: RunCommand, tmp_path: Path) -> None:
    require_packages("tensorboard")
    assert train("--steps", "1", "--tensorboard")[0] == 0
    (events,) = (tmp_path / "run" / "tensorboard").iterdir()
    assert b"train/loss" in events.read_bytes()


def test_a_dry_run_tells_what_would_be_done_and_writes_nothing(
    train: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace, "_WARM_UP_SECONDS", 0.1)
    code, out, err = train("--steps", "70", "--dry-run")
    assert (code, err) == (0, "")
    rows = {line[:20].strip(): line[20:38].strip() for line in out.decode().split("\n")}
    assert rows["updates"] == "70"
    assert {"parameters", "device", "padding", "FLOPs", "speed", "time", "memory", "disk"} <= set(rows)
    code, out, _ = train("--steps", "70", "--dry-run", "--json")
    found = json.loads(out)
    assert f"{found['parameters']:,}" == rows["parameters"]
    assert found["updates"] == 70
    assert found["training_seconds"] > 0
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_tells_of_a_warm_up_that_is_too_long(
    train: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace, "_WARM_UP_SECONDS", 0.0)
    out = train("--dry-run", "--set", "training.num_steps=70", "training.warmup_steps=29")[1].decode()
    assert (
        "\nwarm-up                             29  training.warmup_steps = 29 is too long for a run of 70"
        in out
    )


def test_minutes_are_the_budget_of_seconds_also_of_a_resumed_run(train: RunCommand, tmp_path: Path) -> None:
    for more, minutes, seconds in ([], "0.0005", 0.03), (["--resume"], "0.002", 0.12):
        code, _, err = train("--minutes", minutes, *more)
        ended = json.loads((tmp_path / "run" / "exit.json").read_bytes())
        assert (code, ended["reason"]) == (0, "out of budget")
        assert f"{seconds:.4g} seconds or 100,000 updates in all" in err
        training = RunConfig.from_toml(tmp_path / "run" / "config.toml").training
        assert training.budget_seconds == pytest.approx(seconds)


@pytest.mark.parametrize("minutes", ["0", "-1", "nan", "inf", "soon"])
def test_minutes_that_are_no_time_are_refused(train: RunCommand, tmp_path: Path, minutes: str) -> None:
    code, _, err = train(f"--minutes={minutes}")
    assert (code, err.count("\n")) == (2, 1)
    assert "--minutes" in err
    assert list(tmp_path.iterdir()) == []


def test_json_without_a_dry_run_is_refused(train: RunCommand, tmp_path: Path) -> None:
    code, _, err = train("--json")
    assert code == 2
    assert "--json: is for --dry-run" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("dry_run", [["--dry-run"], []])
def test_a_model_that_fits_into_no_memory_is_refused_before_any_of_it_is_allocated(
    run_command: RunCommand, tmp_path: Path, toy_data: Path, dry_run: list[str]
) -> None:
    sizes = ["model.d_model=1000000", "model.d_ff=1000000", "model.num_heads=1000"]
    code, out, err = run_command("train", tmp_path / "run", "--data", toy_data, "--set", *sizes, *dry_run)
    assert (code, out, err.count("\n")) == (7, b"", 1)
    assert "error[E-MEMORY]: the model needs " in err
    assert not (tmp_path / "run").exists()


@pytest.fixture
def continue_toy(run_command: RunCommand, tmp_path: Path, toy_data: Path, toy_model: Path) -> RunCommand:
    """`allyouneed train` that continues the toy model on its own data."""
    begin = ("train", tmp_path / "run", "--data", toy_data, "--init-from", toy_model)
    return lambda *options: run_command(*begin, "--set", "training.num_steps=1", *options)


def test_a_continued_run_has_the_settings_of_the_model_and_those_that_are_given(
    continue_toy: RunCommand, tmp_path: Path, toy_data: Path, toy_model: Path
) -> None:
    options = ("--replay", toy_data, "--replay-share", "0.25", "--set", "training.warmup_steps=7")
    code, _, err = continue_toy(*options, "model.dropout=0.3", 'training.frozen=["encoder.*"]')
    assert code == 0
    assert f"{tmp_path / 'run'}: starts with the weights of {toy_model}\n" in err
    model, run = (RunConfig.from_toml(path / "config.toml") for path in (toy_model, tmp_path / "run"))
    assert run.model == model.model.replace(dropout=0.3)
    kept = {"batch_tokens", "checkpoint_every_steps", "average_last", "validate_every_steps"}
    assert run.training.model_dump(include=kept) == model.training.model_dump(include=kept)
    assert (run.training.warmup_steps, run.training.num_steps) == (7, 1)
    assert run.training.micro_batch_tokens == 800  # a quarter of the batch, not that of the model's run
    assert (run.training.init_from, run.training.replay) == (str(toy_model), str(toy_data))
    assert (run.training.replay_share, run.training.frozen) == (0.25, ("encoder.*",))


@pytest.mark.parametrize("name", ["data.bpe_dropout", "model.source_vocab_size"])
def test_settings_of_the_data_are_refused(
    run_command: RunCommand, tmp_path: Path, toy_data: Path, name: str
) -> None:
    code, _, err = run_command("train", tmp_path / "run", "--data", toy_data, "--set", f"{name}=0.5")
    assert (code, err.count("\n")) == (2, 1)
    assert f"--set {name}: is a setting of `prepare`, which the data has; leave it out" in err
    assert not (tmp_path / "run").exists()


def test_a_preset_replaces_the_models_settings_but_not_its_architecture(
    continue_toy: RunCommand, tmp_path: Path, toy_model: Path
) -> None:
    assert continue_toy("--preset", "demo")[0] == 0
    model, run = (RunConfig.from_toml(path / "config.toml") for path in (toy_model, tmp_path / "run"))
    assert run.model == model.model
    assert run.training.learning_rate_factor == 1.5  # the preset's own
    code, _, err = continue_toy("--preset", "demo", "--resume", "--set", "training.num_steps=2")
    assert code == 0, err
    assert "resumed at step 1" in err


def test_a_continued_run_has_a_clock_of_its_own(tmp_path: Path, toy_model: Path) -> None:
    model, ended = load_checkpoint(toy_model), {"planned_seconds": 3_600.0, "moved_end": (5, 10)}
    config = model.config.replace(training={"schedule": "linear_decay", **ended})
    save_checkpoint(tmp_path / "model", config, model.weights, model.attachments, {"step": 1})
    training = continue_from(tmp_path / "model").training
    assert (training.schedule, training.planned_seconds, training.moved_end) == ("linear_decay", None, ())


def test_a_model_may_also_be_named_by_a_setting(
    run_command: RunCommand, tmp_path: Path, toy_data: Path, toy_model: Path
) -> None:
    name = f"training.init_from='{toy_model}'"
    assert run_command("train", tmp_path / "run", "--data", toy_data, "--steps", "1", "--set", name)[0] == 0
    model, run = (RunConfig.from_toml(path / "config.toml") for path in (toy_model, tmp_path / "run"))
    assert run.model == model.model
    assert run.training.batch_tokens == model.training.batch_tokens


def test_a_continued_run_resumes_without_its_options(
    continue_toy: RunCommand, run_command: RunCommand, tmp_path: Path, toy_data: Path
) -> None:
    assert continue_toy("--replay", toy_data, "--replay-share", "0.25")[0] == 0
    code, _, err = run_command("train", tmp_path / "run", "--data", toy_data, "--resume", "--steps", "2")
    assert code == 0
    assert "resumed at step 1" in err
    assert RunConfig.from_toml(tmp_path / "run" / "config.toml").training.replay_share == 0.25
    assert continue_toy("--resume", "--set", "training.num_steps=3")[0] == 0


def test_moments_of_a_run_are_taken_if_asked_for(
    run_command: RunCommand, tmp_path: Path, toy_data: Path, toy_run: Path
) -> None:
    begin = ("train", tmp_path / "run", "--data", toy_data, "--steps", "1")
    assert run_command(*begin, "--init-from", toy_run, "--init-moments")[0] == 0
    assert RunConfig.from_toml(tmp_path / "run" / "config.toml").training.init_moments is True


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (
            ["--set", "model.d_ff=64"],
            2,
            "model.d_ff = 64: {model} has 128, and its architecture is kept; leave",
        ),
        (
            ["--config", "wide.toml"],
            2,
            "model.d_model = 32: {model} has 64, and its architecture is kept; leave",
        ),
        (
            ["--init-moments"],
            2,
            "{model}: has no saved moments, which only the two newest checkpoints of a run ha",
        ),
        (
            ["--replay-share", "0.2"],
            2,
            "training: replay and replay_share go together; give prepared data and a",
        ),
        (
            ["--replay", "{data}"],
            2,
            "training: replay and replay_share go together; give prepared data and a",
        ),
        (
            ["--replay", "{data}", "--replay-share", "1.5"],
            2,
            "training.replay_share: must be less than 1",
        ),
        (
            ["--replay", "{model}", "--replay-share", "0.2"],
            4,
            "{model}: is a model directory; a data directory",
        ),
        (
            ["--set", 'training.frozen=["x.*"]'],
            2,
            "training.frozen: 'x.*' matches no parameter; names begin with",
        ),
        (
            ["--data", "{bytes}"],
            3,
            "{bytes}: has other tokenisers than {model}; prepare the data with --tokenizer-fro",
        ),
        (["--init-from", "{data}"], 4, "{data}: is a data directory; a model directory is needed"),
        (
            ["--init-from", "none"],
            4,
            "none: no such model; name a run, a checkpoint in it, or a model directory",
        ),
    ],
)
def test_what_contradicts_the_model_is_told_in_one_line_before_a_run_is_made(
    run_command: RunCommand,
    tmp_path: Path,
    toy_text: Path,
    toy_data: Path,
    toy_model: Path,
    options: list[str],
    code: int,
    message: str,
) -> None:
    (tmp_path / "wide.toml").write_bytes(b"[model]\nd_model = 32\n")
    paths = {"model": toy_model, "data": toy_data, "bytes": tmp_path / "bytes"}
    if "{bytes}" in options:
        files = ("--source", toy_text / "train.en", "--target", toy_text / "train.toy")
        run_command("prepare", paths["bytes"], *files, "--tokenizer", "byte")
    given = [option.format(**paths) if option[0] == "{" else option for option in options]
    given = [str(tmp_path / option) if option.endswith(".toml") else option for option in given]
    others = {"--data": toy_data, "--init-from": toy_model}
    given += [part for name, path in others.items() if name not in given for part in (name, str(path))]
    found, out, err = run_command("train", tmp_path / "run", "--steps", "1", *given)
    assert (found, out, err.count("\n")) == (code, b"", 1)
    assert message.format(**paths) in err
    assert not (tmp_path / "run").exists()


def test_every_setting_of_a_recipe_that_contradicts_the_model_is_named(
    continue_toy: RunCommand, tmp_path: Path
) -> None:
    code, _, err = continue_toy("--fidelity", "released-2017")
    assert code == 2
    for setting in ("positions = concatenated", "decoder_start = zeros", "target_space = True"):
        assert f"error[E-USAGE]: model.{setting}: " in err
    assert not (tmp_path / "run").exists()


@pytest.fixture
def budget(
    run_command: RunCommand, tmp_path: Path, toy_data: Path, monkeypatch: pytest.MonkeyPatch
) -> RunCommand:
    """`allyouneed train` of a tiny model on the toy data, with a budget of few seconds."""
    monkeypatch.setattr(budgeting, "_LEAST_SECONDS", 1.0)
    run = tmp_path / "run"
    return lambda *options: run_command("train", run, "--data", toy_data, "--set", *TINY[:-1], *options)


def test_a_budget_ends_in_a_model_with_scores_and_advice(
    budget: RunCommand, run_command: RunCommand, tmp_path: Path, toy_text: Path
) -> None:
    run, text = tmp_path / "run", toy_text / "valid"
    tests = f"--test-source={text}.en", f"--test-reference={text}.toy"
    code, out, err = budget("--budget", "4s", *tests)
    assert code == 0
    assert f"{run}: size: tiny" in err
    assert f"{run}: learning rate: " in err
    assert " would help most" in err
    assert f"finished; translate with `allyouneed translate {run}`" in err
    training = RunConfig.from_toml(run / "config.toml").training
    assert (training.planned_seconds, training.schedule) == (4.0, "linear_decay")
    assert (run / "latest").read_bytes().decode().strip() == f"step-{training.num_steps:08d}"
    assert next(iter(json.loads((run / "test.json").read_bytes()))) in out.decode()
    assert out.startswith(b"BLEU ")
    assert run_command("translate", run, stdin=b"sun moon\n")[0] == 0
    assert f"finished; translate with `allyouneed translate {run}`" in budget("--resume")[2]
    again = budget("--budget", "4s", "--resume", *tests)
    assert (again[0], again[1]) == (0, out)
    code, _, err = budget("--resume", "--steps", "100000")
    assert (code, err.count("\n")) == (2, 1)
    assert f"began with training.num_steps = {training.num_steps}, now 100000 is given" in err
    code, _, err = budget("--budget", "5s", "--resume")
    assert code == 2
    assert err == (
        f"allyouneed: error[E-USAGE]: --budget: {run} was begun with a budget of 4 seconds; "
        "leave --budget out, or train a new run\n"
    )


def test_the_same_command_goes_on_with_a_budget_for_a_preset(budget: RunCommand, tmp_path: Path) -> None:
    command = "--budget", "4s", "--preset", "laptop", "--fidelity", "paper"
    assert budget(*command)[0] == 0
    training = RunConfig.from_toml(tmp_path / "run" / "config.toml").training
    assert (training.label_smoothing, training.schedule) == (0.1, "linear_decay")
    code, _, err = budget(*command, "--resume")
    assert code == 0, err
    assert "goes on with the settings that it was begun with" in err


def test_a_recipe_is_that_of_a_model_also_with_a_budget(budget: RunCommand, tmp_path: Path) -> None:
    code, _, err = budget("--budget", "4s", "--fidelity", "paper", "--dry-run")
    assert code == 0, err
    assert "updates: " in err
    assert "size: " not in err  # that of the preset


def test_a_budget_can_be_rehearsed(budget: RunCommand, tmp_path: Path) -> None:
    code, out, err = budget("--budget", "2s", "--dry-run")
    assert code == 0
    assert b"\nupdates " in out
    assert "size: tiny" in err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--budget", "60"], "'60' is no time; write 90s, 60m, 8h, 2d or 1w"),
        (["--budget=-5m"], "'-5m' is no time"),
        (["--budget", "0.5s"], "--budget: give 1 seconds or more"),
        (
            ["--budget", "4s", "--replay", "a", "--replay-share", "0.2"],
            "--replay: is for a model to continue",
        ),
        (["--budget", "4s", "--steps", "3"], "--steps, --minutes: the budget decides when the run ends"),
        (
            ["--budget", "4s", "--test-source", "a"],
            "give both --test-source and --test-reference, or neither",
        ),
        (["--test-source", "a", "--test-reference", "b"], "--test-source: is for --budget"),
    ],
)
def test_a_wrong_budget_is_told_in_one_line_before_a_run_is_made(
    budget: RunCommand, tmp_path: Path, options: list[str], message: str
) -> None:
    code, out, err = budget(*options)
    assert (code, out, err.count("\n")) == (2, b"", 1)
    assert message in err
    assert not (tmp_path / "run").exists()


def test_the_warm_up_follows_the_number_of_updates_unless_it_is_given(
    train: RunCommand, tmp_path: Path
) -> None:
    assert train("--steps", "10")[0] == 0
    training = RunConfig.from_toml(tmp_path / "run" / "config.toml").training
    assert training.warmup_steps == 2
    assert training.learning_rate_factor == pytest.approx((2 / 4_000) ** 0.5)
    assert train("--steps", "11", "--preset", "base", "--resume")[0] == 0
    assert train("--steps", "12", "--resume")[0] == 0
    assert RunConfig.from_toml(tmp_path / "run" / "config.toml").training.warmup_steps == 2
