"""Models of strangers: folders in which any file may hold anything, with a seal that holds or does not."""

import json
import random
from pathlib import Path

import pytest
from tests.siege.cases import Case, Change, translate
from tests.siege.conftest import Record, Siege
from tests.siege.mutations import mutate, reseal, seal

FILES = ("config.toml", "config.toml", "model.safetensors", "model.safetensors", "MANIFEST.json")
COMMANDS = (
    *[translate("").arguments] * 4,
    ("verify", "model"),
    ("score", "model", "--source", "text.en", "--target", "text.toy"),
    ("attend", "model", "sun moon"),
    ("evaluate", "model", "--source", "text.en", "--reference", "text.toy"),
    ("translate", "model", "other"),
    ("translate", "model", "--shortlist", "shortlist"),
    ("average", "model", "--out", "new"),
)


def with_setting(name: str, value: str) -> Change:
    """Change a setting in the model's config.toml, and seal the model again."""

    def change(folder: Path) -> None:
        path = folder / "model" / "config.toml"
        lines = path.read_bytes().decode().split("\n")
        changed = [f"{name} = {value}" if line.startswith(f"{name} =") else line for line in lines]
        assert changed != lines
        path.write_bytes("\n".join(changed).encode())
        reseal(folder / "model")

    return change


def with_files(value: object) -> Change:
    """Let the manifest list other files, under a seal that holds."""

    def change(folder: Path) -> None:
        path = folder / "model" / "MANIFEST.json"
        path.write_bytes(json.dumps(json.loads(path.read_bytes()) | {"files": value}).encode())
        seal(folder / "model")

    return change


def without_file(name: str) -> Change:
    """Take a file out of the folder and of the manifest."""

    def change(folder: Path) -> None:
        (folder / "model" / name).unlink()
        path = folder / "model" / "MANIFEST.json"
        manifest = json.loads(path.read_bytes())
        del manifest["files"][name]
        path.write_bytes(json.dumps(manifest).encode())
        seal(folder / "model")

    return change


def stranger(name: str, change: Change, *options: str) -> Case:
    return translate(name, *options, change=change).ending(4, says=r"error\[E-MODEL\]: .*model")


TABLE = [
    *(
        stranger(f"{name} of {value}", with_setting(name, value))
        for name, value in (
            ("num_layers", "100000"),
            ("num_layers", "100000000000000"),
            ("d_model", "1000000000"),
            ("d_model", "100000000000000"),
            ("d_model", "9" * 5_000),
            ("d_ff", "1000000000000"),
            ("num_heads", "0"),
            ("num_heads", "1000000"),
            ("source_vocab_size", "1000000000000"),
            ("target_vocab_size", "5"),
            ("vocab_size", "-1"),
            ("norm", "[" * 3_000 + "]" * 3_000),
            ("task", '"parsing"'),
        )
    ),
    stranger("no files in the manifest", with_files({})),
    Case("no files to verify", ("verify", "model"), change=with_files({})).ending(4, says="is not listed"),
    stranger("files that are a list", with_files([])),
    stranger("only one file in the manifest", with_files({"config.toml": {"size": 1, "sha256": "x"}})),
    *(
        stranger(f"without {name}", without_file(name))
        for name in ("model.safetensors", "config.toml", "source_tokenizer.json")
    ),
    translate("another vocabulary in the ensemble", "other").ending(4, says="vocabular"),
    translate("a parser in the ensemble", "parser").ending(4, says="parse"),
    translate("the same model twice", "model").ending(0),
    translate("a shortlist of another vocabulary", "--shortlist", "shortlist", model="other").ending(
        4, says="shortlist"
    ),
    translate("a model as shortlist", "--shortlist", "other").ending(4),
    translate("prepared data as model", model="data").ending(4),
    translate("a file as model", model="text.en").ending(4),
    translate("nothing as model", model="nothing").ending(4),
    Case("a model is no run", ("train", "model", "--data", "data", "--resume")).ending(2, says="model"),
    Case("a model is no run without --resume", ("train", "model", "--data", "data")).ending(2),
    Case("a model is not averaged", ("average", "model", "--out", "new")).ending(2, 4),
    Case("a model is not exported for nothing", ("export", "model", "new", "--to", "nothing")).ending(2),
    Case("cost of a model", ("cost", "model")).ending(2, 3, 4),
]


def fuzzed(number: int) -> Case:
    """A model of which one file or two are changed; half of them have a fresh seal."""
    draw = random.Random(f"model-{number}")
    arguments = draw.choice(COMMANDS)

    def change(folder: Path) -> None:
        for name in draw.sample(FILES, k=draw.choice([1, 1, 2])):
            mutate(draw, folder / "model" / name)
        if draw.random() < 0.5:
            try:
                reseal(folder / "model")
            except (ValueError, LookupError, TypeError, AttributeError, OSError, RecursionError):
                seal(folder / "model")

    needs = ("other", "text.en", "text.toy", "shortlist")
    rows = 3 if arguments[0] == "translate" else 60 if arguments[0] == "score" else None
    return Case(
        str(number),
        arguments,
        needs=needs,
        change=change,
        stdin=b"sun\nmoon star\n\n",
        targets=("new",),
        rows=rows,
    )


@pytest.mark.parametrize("count", [12, pytest.param(1_500, marks=pytest.mark.release)])
def test_models_are_used_as_they_should_be_or_refused_in_a_line(
    siege: Siege, count: int, record_property: Record
) -> None:
    """Promise: Siege."""
    siege.hold("model", TABLE, fuzzed, count, record_property)
