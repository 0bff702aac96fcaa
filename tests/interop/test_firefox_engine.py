"""Imported models write what Firefox's own engine writes: Bergamot's of npm, run by Node.

It is found in `node_modules` of this folder or of one above, or of NODE_PATH, after
`npm install @browsermt/bergamot-translator@0.4.9`; nothing installs it. Marian trains the model.
"""

import importlib.util
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.interop.foreign_models import (
    SENTENCES,
    SSRU,
    TIED,
    backwards,
    firefox_items,
    marian,
    marian_binary,
    run_marian,
)
from tests.packages import require_packages

from allyouneed import load_translator
from allyouneed.interop.importing import import_model

pytestmark = [
    pytest.mark.release,
    pytest.mark.skipif(importlib.util.find_spec("pymarian") is None, reason="NOT RUN: needs pymarian"),
]
require_packages("sentencepiece", "yaml")

DRIVER = Path(__file__).with_name("translate_with_bergamot.cjs")
PACKAGE = "@browsermt/bergamot-translator"
TEXTS = SENTENCES[:200]
LISTS, VOCABULARY = "lex.6.6.ende.s2t.bin", "vocab.ende.spm"
LARGEST = 63
"""Greatest rounded weight; with 127, some sums of two products are cut off at the engine's 16 bits."""


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The engine's script for Node, in a folder that says that it is no module."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("NOT RUN: needs Node")
    resolve = f"console.log(require.resolve('{PACKAGE}/package.json'))"
    found = subprocess.run(
        [node, "-e", resolve], cwd=DRIVER.parent, capture_output=True, text=True, check=False
    )
    if found.returncode:
        pytest.skip(f"NOT RUN: needs npm install {PACKAGE}@0.4.9")
    folder = tmp_path_factory.mktemp("engine") / "worker"
    shutil.copytree(Path(found.stdout.strip()).with_name("worker"), folder)
    (folder / "package.json").write_text('{"type": "commonjs"}')
    return folder / "translator-worker.js"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a student as Firefox's, whose 40 entries are the multiple of 8 that the engine needs."""
    folder = tmp_path_factory.mktemp("trained")
    model = marian(folder, *TIED, *SSRU, vocab_size=40)
    run_marian("convert", "--from", model, "--to", folder / "float.bin", "--gemm-type", "float32")
    with np.load(model) as arrays:
        (folder / "int8.bin").write_bytes(marian_binary(firefox_items(arrays, LARGEST)))
    words = {
        (back, word)
        for text in SENTENCES[:50]
        for word, back in zip(text.split(), backwards(text).split(), strict=True)
    }
    (folder / "words").write_text("".join(f"▁{target} ▁{source} 0.5\n" for target, source in sorted(words)))
    vocabularies = [folder / "vocab.spm"] * 2
    shortlist = "--shortlist", folder / "words", "6", "6", "0", "--dump-shortlist", folder / "lists.bin"
    run_marian("convert", *shortlist, "--vocabs", *vocabularies)
    return folder


def outputs_of_both(
    worker: Path, trained: Path, folder: Path, weights: str, *, shortlisted: bool, precision: str
) -> tuple[list[str], list[str]]:
    """The outputs of the engine, and ours, of a folder as Firefox has them."""
    folder = folder / "ende"
    folder.mkdir()
    model = folder / "model.ende.intgemm8.bin"
    shutil.copy(trained / weights, model)
    shutil.copy(trained / "vocab.spm", folder / VOCABULARY)
    shutil.copy(trained / "lists.bin", folder / LISTS)
    request: dict[str, Any] = {
        **{"model": str(model), "vocabulary": str(folder / VOCABULARY), "texts": TEXTS},
        "shortlist": str(folder / LISTS) if shortlisted else None,
        "config": {"gemm-precision": precision},
    }
    ran = subprocess.run(
        ["node", DRIVER, worker], input=json.dumps(request), capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    import_model(folder, folder.parent / "model", shortlist=folder.parent / "list")
    lists = folder.parent / "list" if shortlisted else None
    ours = load_translator(folder.parent / "model", shortlist=lists, precision="float32").translate(TEXTS)
    return json.loads(ran.stdout), [each.text for each in ours]


@pytest.mark.parametrize("shortlisted", [False, True])
def test_float32_writes_the_same(worker: Path, trained: Path, shortlisted: bool, tmp_path: Path) -> None:
    theirs, ours = outputs_of_both(
        worker, trained, tmp_path, "float.bin", shortlisted=shortlisted, precision="float32"
    )
    assert ours == theirs
    assert len({*ours}) > 50


def test_int8_writes_nearly_the_same(worker: Path, trained: Path, tmp_path: Path) -> None:
    """The engine rounds activations, too, with one factor for all tokens of a sentence."""
    theirs, ours = outputs_of_both(
        worker, trained, tmp_path, "int8.bin", shortlisted=False, precision="int8shiftAll"
    )
    assert sum(a == b for a, b in zip(ours, theirs, strict=True)) >= 0.9 * len(TEXTS)
