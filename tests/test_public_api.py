"""The package as a library: what it offers, that it loads quickly, and that its example runs as it stands."""

import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import allyouneed

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
    imported = re.findall(r"^    from \S+ import (.+)$", source, re.MULTILINE)
    assert sorted(name for names in imported for name in names.split(", ")) == sorted(NAMES)
    assert dir(allyouneed) == sorted(allyouneed.__all__)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'trian'"):
        allyouneed.__getattr__("trian")


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
