"""Imported models write what Firefox's own engine writes: Bergamot's. Marian trains the model."""

import importlib.util
import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.interop.bergamot_engine import needs_bergamot, translated_by_bergamot
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
from allyouneed.interop.to_marian import as_yaml

pytestmark = [
    pytest.mark.release,
    needs_bergamot,
    pytest.mark.skipif(importlib.util.find_spec("pymarian") is None, reason="NOT RUN: needs pymarian"),
]
require_packages("sentencepiece", "yaml")

TEXTS = SENTENCES[:200]
MODEL, VOCABULARY, LISTS = "model.ende.intgemm8.bin", "vocab.ende.spm", "lex.6.6.ende.s2t.bin"
LARGEST = 63
"""Greatest rounded weight; with 127, some sums of two products are cut off at the engine's 16 bits."""


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
    trained: Path, scratch: Path, weights: str, *, shortlisted: bool, precision: str
) -> tuple[list[str], list[str]]:
    """The outputs of the engine, and ours, of a folder as Firefox has them."""
    folder = scratch / "ende"
    folder.mkdir()
    shutil.copy(trained / weights, folder / MODEL)
    shutil.copy(trained / "vocab.spm", folder / VOCABULARY)
    shutil.copy(trained / "lists.bin", folder / LISTS)
    parts = {"models": [MODEL], "vocabs": [VOCABULARY], **({"shortlist": [LISTS]} if shortlisted else {})}
    (folder / "config.yml").write_bytes(as_yaml({**parts, "gemm-precision": precision}))
    theirs = translated_by_bergamot(folder, TEXTS, scratch)
    import_model(folder, scratch / "model", shortlist=scratch / "list")
    lists = scratch / "list" if shortlisted else None
    ours = load_translator(scratch / "model", shortlist=lists, precision="float32").translate(TEXTS)
    return theirs, [each.text for each in ours]


@pytest.mark.parametrize("shortlisted", [False, True])
def test_float32_writes_the_same(trained: Path, shortlisted: bool, tmp_path: Path) -> None:
    theirs, ours = outputs_of_both(
        trained, tmp_path, "float.bin", shortlisted=shortlisted, precision="float32"
    )
    assert ours == theirs
    assert len({*ours}) > 50


def test_int8_writes_nearly_the_same(trained: Path, tmp_path: Path) -> None:
    """The engine rounds activations, too, with one factor for all tokens of a sentence: 195 of 200 agree."""
    theirs, ours = outputs_of_both(trained, tmp_path, "int8.bin", shortlisted=False, precision="int8shiftAll")
    assert sum(a == b for a, b in zip(ours, theirs, strict=True)) >= 190
