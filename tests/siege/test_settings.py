"""Settings from `--config` and `--set`: strange values, sizes that no machine has, files that are no TOML."""

import random
from pathlib import Path

import pytest
from tests.siege.cases import Case, train
from tests.siege.conftest import Record, Siege
from tests.siege.mutations import HOSTILE, ODD_VALUES, mutate

SETTINGS = (
    *("model.d_model", "model.d_ff", "model.num_heads", "model.num_layers", "model.dropout", "model.norm"),
    *(
        "model.source_vocab_size",
        "model.target_vocab_size",
        "model.attention",
        "model.d_k",
        "data.max_tokens",
    ),
    *("training.batch_tokens", "training.micro_batch_tokens", "training.warmup_steps", "training.seed"),
    *("training.num_steps", "training.learning_rate_factor", "training.label_smoothing", "data.task"),
    *("training.keep_checkpoints", "training.precision", "search.beam_size", "search.length_penalty"),
    *("model", "training", "nothing.here", "a.b.c.d", "", ".", "model."),
)


def setting(name: str, value: str, *, code: int = 2, says: str = "error") -> Case:
    return Case(f"set {name}", ("plan", "--set", value)).ending(code, says=says)


def config(name: str, content: bytes) -> Case:
    def write(folder: Path) -> None:
        (folder / "odd.toml").write_bytes(content)

    return Case(f"config {name}", ("plan", "--config", "odd.toml"), change=write).ending(2, says="odd.toml")


TABLE = [
    setting("integer of 5,000 digits", f"training.num_steps={'9' * 5_000}"),
    setting("integer of 5,000 digits in a list", f"training.num_steps=[{'9' * 5_000}]"),
    setting("lists in lists", f"training.num_steps={'[' * 5_000}{']' * 5_000}"),
    setting("lists that do not end", f"training.num_steps={'[' * 100_000}"),
    setting("tables in tables", f"training.num_steps={'{a=' * 5_000}1{'}' * 5_000}"),
    setting("key of 20,000 parts", f"{'a.' * 20_000}b=1"),
    setting("value of a megabyte", f"model.norm='{'x' * 100_000}'"),
    setting("line feed", "training.num_steps=1\nx=2"),
    setting("nothing", ""),
    setting("no value", "model.d_model="),
    setting("no sign", "model.d_model"),
    setting("width of 10^9", "model.d_model=1000000000"),
    setting("width of 10^14", "model.d_model=100000000000000"),
    setting("width beyond 64 bits", "model.d_model=100000000000000000000"),
    setting("100,000 layers", "model.num_layers=100000"),
    setting("10^14 layers", "model.num_layers=100000000000000"),
    setting("vocabulary of 10^12", "model.source_vocab_size=1000000000000"),
    setting("steps that are no number", "training.num_steps=nan"),
    setting("factor that is infinite", "training.learning_rate_factor=inf"),
    config("nested", b"a = " + b"[" * 5_000 + b"]" * 5_000),
    config("nested tables", b"[" + b"a." * 20_000 + b"b]\nc = 1"),
    config("integer of 5,000 digits", b"[model]\nd_model = " + b"9" * 5_000),
    config("no UTF-8", b"[model]\nd_model = 64 # \xff"),
    config("with a mark", b"\xef\xbb\xbf[model]\nd_model = 64.5"),
    config("of another kind", b'{"model": {}}'),
    config("of zeros", bytes(4_096)),
    Case("--steps that is no number", (*train("").arguments, "--steps", "many")).ending(2),
    train("--steps 0", "--steps", "0").ending(2),
    train("--steps -5", "--steps", "-5").ending(2),
    train("settings and then the run", "--set", "training.num_steps=2", "training.seed=3").ending(0),
    Case(
        "run behind the settings",
        ("train", "--data", "data", "--config", "config.toml", "--set", "training.num_steps=2", "new"),
        targets=("new",),
    ).ending(0, 2),
    Case(
        "help at the width of nothing", ("plan", "--help"), settings={"environment": {"COLUMNS": "0"}}
    ).ending(0),
]


def fuzzed(number: int) -> Case:
    """A configuration file that is mutated, or settings of odd values."""
    draw = random.Random(f"settings-{number}")
    if draw.random() < 0.5:
        name = str(number)
        arguments: tuple[str, ...] = ("plan", "--config", "config.toml")
        if draw.random() < 0.1:
            arguments = train("", "--steps", "1").arguments
        return Case(
            name, arguments, targets=("new",), change=lambda folder: mutate(draw, folder / "config.toml")
        )
    values = []
    for _ in range(draw.choice([1, 1, 2, 5])):
        odd = draw.choice([*ODD_VALUES, *(piece.decode("latin-1").replace("\0", "0") for piece in HOSTILE)])
        values.append(f"{draw.choice(SETTINGS)}{draw.choice(['=', '=', '=', ' = ', ''])}{odd}")
    return Case(str(number), ("plan", "--set", *values))


@pytest.mark.parametrize("count", [12, pytest.param(1_300, marks=pytest.mark.release)])
def test_settings_are_taken_or_refused_in_a_line(siege: Siege, count: int, record_property: Record) -> None:
    """Promise: Siege."""
    siege.hold("settings", TABLE, fuzzed, count, record_property)
