"""The corpus of `allyouneed demo`, prepared."""

from pathlib import Path

import pytest

from allyouneed import CorpusFiles, prepare
from allyouneed.config.presets import demo
from allyouneed.data.lines import write_lines
from allyouneed.lab.demo.grammar import DemoCorpus, generate_demo_corpus


@pytest.fixture(scope="session")
def demo_corpus() -> DemoCorpus:
    """All of it."""
    return generate_demo_corpus()


@pytest.fixture(scope="session")
def demo_data(demo_corpus: DemoCorpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its training and validation parts, prepared as the preset `demo` has it; not to be changed."""
    folder = tmp_path_factory.mktemp("demo")
    for part, pairs in (("train", demo_corpus.train), ("valid", demo_corpus.valid)):
        write_lines(folder / f"{part}.en", (pair.source for pair in pairs))
        write_lines(folder / f"{part}.de", (pair.target for pair in pairs))
    train, valid = (CorpusFiles(folder / f"{p}.en", folder / f"{p}.de") for p in ("train", "valid"))
    prepare(folder / "data", train, valid, demo().data)
    return folder / "data"
