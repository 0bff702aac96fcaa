"""The results of `reproduce` as files: `results.md`, `results.csv` and `results.html`."""

from pathlib import Path

from allyouneed.lab.paper.experiment import Results
from allyouneed.lab.paper.pages.results_page import as_page
from allyouneed.lab.paper.pages.results_table import results_table
from allyouneed.lab.paper.pages.results_text import as_csv, as_markdown
from allyouneed.storage.publish import write_text


def write_report(results: Results) -> list[Path]:
    """Write `results.md`, `results.csv` and `results.html` into the experiment's folder.

    Raises:
        DiskError: A file cannot be written.
    """
    table, folder = results_table(results), results.directory
    texts = {
        folder / "results.md": as_markdown(results, table),
        folder / "results.csv": as_csv(results),
        folder / "results.html": as_page(results, table),
    }
    for path, text in texts.items():
        write_text(path, text)
    return list(texts)
