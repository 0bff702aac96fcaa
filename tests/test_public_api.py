"""The package as a library: what it offers, that it loads quickly, and that its example runs as it stands."""

import ast
import importlib
import inspect
import pydoc
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import get_type_hints

import pytest

import allyouneed
from allyouneed.config.settings import Config, descriptions
from allyouneed.tasks.parsing.parser import ParseConfig
from allyouneed.tasks.requests import TranslateConfig

NAMES = [name for name in allyouneed.__all__ if name != "__version__"]


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = """
import sys, allyouneed
assert "train" in dir(allyouneed)
assert not {"torch", "numpy", "pydantic", "safetensors", "tokenizers"} & set(sys.modules)
allyouneed.presets.base(), allyouneed.CorpusFiles, allyouneed.prepare
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_there_and_explained(name: str) -> None:
    offered = getattr(allyouneed, name)
    assert (inspect.getdoc(offered) or "").strip()
    if inspect.isfunction(offered):
        hints = inspect.signature(offered).parameters.values()
        assert all(parameter.annotation is not inspect.Parameter.empty for parameter in hints)


def test_the_names_are_those_that_type_checkers_see() -> None:
    source = inspect.getsource(importlib.import_module("allyouneed"))
    [seen] = (part for part in ast.parse(source).body if ast.unparse(part).startswith("if TYPE_CHECKING"))
    imported = (each for each in ast.walk(seen) if isinstance(each, ast.ImportFrom))
    assert sorted(alias.name for each in imported for alias in each.names) == sorted(NAMES)
    assert dir(allyouneed) == sorted(allyouneed.__all__)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'trian'"):
        getattr(allyouneed, f"tri{'an'}")


OF_TRANSLATOR = allyouneed.TranslateOptions, TranslateConfig
OF_PARSER = allyouneed.ParseOptions, ParseConfig


@pytest.mark.parametrize(
    ("method", "options", "config"),
    [
        (allyouneed.Translator.translate, *OF_TRANSLATOR),
        (allyouneed.Translator.stream, *OF_TRANSLATOR),
        (allyouneed.Translator.answer, *OF_TRANSLATOR),
        (allyouneed.Parser.parse, *OF_PARSER),
        (allyouneed.Parser.answer, *OF_PARSER),
    ],
    ids=lambda value: getattr(value, "__qualname__", ""),
)
def test_help_names_every_option_with_its_default(
    method: Callable[..., object], options: type, config: type[Config]
) -> None:
    shown = " ".join(re.sub(r".\x08", "", pydoc.render_doc(method)).split())  # bold letters are struck twice
    for name, field in config.model_fields.items():
        assert inspect.signature(method).parameters[name].default == field.default
        assert f"{name}: {descriptions(config)[name].split()[0]}" in shown
    for name, field in allyouneed.SearchConfig.model_fields.items():
        assert inspect.signature(method).parameters[name].default is None
        end = (
            f"{name}: {' '.join(descriptions(allyouneed.SearchConfig)[name].split())}"
            f" Default: the model's ({field.default!r})."
        )
        assert end in shown
    assert {*get_type_hints(options)} == {*config.model_fields, *allyouneed.SearchConfig.model_fields}


def test_settings_of_search_have_one_type_as_settings_and_as_keywords() -> None:
    keywords = get_type_hints(allyouneed.SearchSettings)
    fields = get_type_hints(allyouneed.SearchConfig)
    assert keywords == {name: fields[name] | None for name in allyouneed.SearchConfig.model_fields}


def test_a_users_type_checker_is_told_that_the_package_is_typed() -> None:
    """What it sees is in `tests/consumer.py`, which `make check` checks."""
    assert (Path(allyouneed.__file__).parent / "py.typed").is_file()


def test_everything_public_is_in_the_documentation() -> None:
    page = (Path(__file__).parents[1] / "docs" / "api.md").read_bytes().decode()
    assert [name for name in NAMES if f"`{name}`" not in page and f"`{name}(" not in page] == []


def test_the_example_runs(
    tmp_path: Path, toy_text: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for part in ("train", "valid"):
        (tmp_path / f"{part}.en").write_bytes((toy_text / f"{part}.en").read_bytes())
        (tmp_path / f"{part}.de").write_bytes((toy_text / f"{part}.toy").read_bytes())
    monkeypatch.chdir(tmp_path)
    (example,) = re.findall(r"```python\n(.*?)```", inspect.getdoc(allyouneed) or "", re.DOTALL)
    shrunk = {
        "vocab_size=8_000": "vocab_size=290",
        '"num_steps": 4_000': '"num_steps": 2, "checkpoint_every_steps": 1',
    }
    for stands, runs in shrunk.items():
        assert example.count(stands) == 1
        example = example.replace(stands, runs)
    exec(compile(example, "example", "exec"), {})
    printed = capsys.readouterr().out.split("\n")
    assert len(printed) == 3
    assert all(float(line.split(" ")[0]) < 0 for line in printed[:-1])
    assert sorted(path.name for path in (tmp_path / "runs/first/checkpoints").iterdir()) == [
        "step-00000001",
        "step-00000002",
    ]
