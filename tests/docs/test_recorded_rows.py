"""The rows kept in `docs/results/rows*` are small and whole, and the recorded tables are made of them."""

import re
import shutil
from pathlib import Path

import pytest

from allyouneed.explorer import html_parts
from allyouneed.lab.paper.experiment import DATE, PROCESSOR, RESULT
from allyouneed.lab.paper.identity import identity_of_scale, read_facts
from allyouneed.lab.paper.kept_rows import find_kept, take_up
from allyouneed.lab.paper.pages.results_page import as_csv, as_page, read_table, write_index
from allyouneed.lab.paper.reproduction import EXPERIMENTS, read_results

RESULTS = Path(__file__).parents[2] / "docs" / "results"
MOST_BYTES = 40_000


@pytest.mark.parametrize(
    "folder", sorted(RESULTS.glob("rows*/*")), ids=lambda folder: f"{folder.parent.name}-{folder.name}"
)
def test_a_recorded_table_is_that_of_its_rows(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [result.parent for result in folder.rglob(RESULT)]
    for kept in rows:
        assert sum(file.stat().st_size for file in kept.iterdir()) <= MOST_BYTES
    facts = read_facts(folder / "experiment.json")
    experiment, out = EXPERIMENTS[facts["experiment"]], tmp_path / "of any name"
    scale = experiment.scale(facts["scale"])
    place, _ = find_kept(identity_of_scale(experiment, scale), out, folder.parent)
    assert place == folder
    take_up(experiment, out, place)
    results = read_results(experiment, out, scale)
    found = [outcome for of_row in results.outcomes.values() for outcome in of_row.values()]
    assert len(found) == len(rows)
    assert all(outcome[PROCESSOR] and outcome[DATE] for outcome in found)
    page = folder.name + folder.parent.name.removeprefix("rows")  # rows-full-data -> table3-tiny-full-data
    assert as_csv(results) == (RESULTS / f"{page}.csv").read_bytes().decode()
    text = (RESULTS / f"{page}.html").read_bytes().decode()
    table = read_table(text)
    assert table is not None
    monkeypatch.setattr(html_parts, "_encoded", lambda figure: "")
    assert as_page(results, table) == re.sub(r"(?<=base64,)[^\"]+", "", text)


def test_the_index_is_that_of_the_recorded_pages(tmp_path: Path) -> None:
    for page in RESULTS.glob("*.html"):
        shutil.copy(page, tmp_path)
    assert write_index(tmp_path).read_bytes() == (RESULTS / "index.html").read_bytes()
