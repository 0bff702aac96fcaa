"""A trained model writes the same in Marian, Bergamot and Argos Translate, greedily, for 200 sentences."""

import importlib.util
import sys
from pathlib import Path

import pytest
from tests.interop.bergamot_engine import needs_bergamot, translated_by_bergamot, written_lines
from tests.interop.foreign_models import SENTENCES
from tests.interop.marian_form import trained_run
from tests.packages import require_packages

from allyouneed import load_translator
from allyouneed.interop import from_marian
from allyouneed.interop.exporting import export_model

pytestmark = pytest.mark.release
require_packages("sentencepiece", "yaml")

TEXTS = SENTENCES[:200]
ARGOS = """
import sys
from argostranslate import package, sbd, translate

package.install_from_path(sys.argv[1])
found = translate.get_translation_from_codes("en", "de")
found = getattr(found, "underlying", found)


class OneSentence(sbd.ISentenceBoundaryDetectionModel):
    def split_sentences(self, text):
        return [text]


found.sentencizer = OneSentence()
for line in sys.stdin:
    print(found.hypotheses(line.rstrip("\\n"), 1)[0].value)
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained_run(tmp_path_factory.mktemp("trained"))


@pytest.fixture(scope="module")
def greedy(run: Path) -> list[str]:
    """Our greedy translations, of which the model has learned most."""
    written = [found.text for found in load_translator(run).translate(TEXTS, beam_size=1)]
    assert len({*written}) > 150
    return written


def num_equal(written: list[str], expected: list[str]) -> int:
    return sum(one == other for one, other in zip(written, expected, strict=True))


@pytest.mark.skipif(importlib.util.find_spec("pymarian") is None, reason="NOT RUN: needs pymarian")
def test_marian(run: Path, greedy: list[str], tmp_path: Path) -> None:
    assert export_model(run, "marian", tmp_path / "out").difference < 1e-4
    imported = from_marian.read(tmp_path / "out")
    found = imported.load().greedy([imported.source.encode(text) for text in TEXTS], 100)
    assert [*map(imported.target.decode, found)] == greedy


@needs_bergamot
@pytest.mark.parametrize(("precision", "least"), [("float32", 200), ("int8", 180)])
def test_bergamot(precision: str, least: int, run: Path, greedy: list[str], tmp_path: Path) -> None:
    options = {"precision": precision, "text": run.parent / "data" if precision == "int8" else None}
    export_model(run, "bergamot", tmp_path / "out", options)
    assert num_equal(translated_by_bergamot(tmp_path / "out", TEXTS, tmp_path), greedy) >= least


@pytest.mark.skipif(
    importlib.util.find_spec("argostranslate") is None, reason="NOT RUN: needs argostranslate"
)
def test_argos_translate(
    run: Path, greedy: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export_model(run, "argos", tmp_path / "out", {"languages": ("en", "de")})
    [package] = (tmp_path / "out").glob("*.argosmodel")
    for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.setenv("ARGOS_BEAM_SIZE", "1")
    monkeypatch.setenv("ARGOS_COMPUTE_TYPE", "float32")
    written = written_lines([sys.executable, "-c", ARGOS, package], TEXTS)
    assert num_equal(written, greedy) == 200
