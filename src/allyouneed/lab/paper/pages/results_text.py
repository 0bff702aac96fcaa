"""The results of `reproduce` as a terminal table, Markdown and CSV."""

import csv
import io
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from allyouneed.explorer.text_tables import aligned
from allyouneed.lab.paper.experiment import FAILED, PICTURES, Results
from allyouneed.lab.paper.pages.results_table import ResultsTable


def as_terminal_table(table: ResultsTable) -> Iterator[str]:
    """The table in aligned columns, its marks, the rows that failed, and the verdict."""
    yield from aligned(table_cells(table))
    yield ""
    yield from _marks(table)
    yield from (f"{FAILED}: {why}" for why in table.conclusions.get(FAILED.capitalize(), ()))
    yield f"{table.verdict} Details: results.html"


def as_markdown(results: Results, table: ResultsTable) -> str:
    """The table with conclusions, pictures, legend and remarks."""
    cells = table_cells(table)
    titles, *rows = ("| " + " | ".join(row) + " |" for row in cells)
    lines = [f"# {table.title}", "", table.verdict, "", f"{', '.join(table.facts)}.", ""]
    lines += [titles, "|" + "---|" * len(cells[0]), *rows, ""]
    for title, items in table.conclusions.items():
        lines += [f"{title}: {'; '.join(items)}.", ""]
    for path, picture in pictures(results):
        caption, page = picture["caption"], path.parent / picture["page"]
        lines += [f"![{caption}]({path}.png)", "", f"{caption} [Explore it]({page}).", ""]
    return "\n".join([*lines, *(f"{remark}\n" for remark in (*_legend(table), *table.remarks))])


def as_csv(results: Results) -> str:
    """One line per row and seed, with all figures in full; lists, meant for pictures, are left out."""
    outcomes = [
        {"row": name, "seed": seed} | {k: v for k, v in figures.items() if not isinstance(v, list | dict)}
        for name, of_row in results.outcomes.items()
        for seed, figures in sorted(of_row.items())
    ]
    titles = dict.fromkeys(title for outcome in outcomes for title in outcome)
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(titles), lineterminator="\n")
    writer.writeheader()
    writer.writerows(outcomes)
    return text.getvalue()


def pictures(results: Results) -> Iterator[tuple[PurePosixPath, Mapping[str, str]]]:
    """Pictures drawn by rows: path in the experiment's folder, without suffix, and caption and page."""
    for row, of_row in results.outcomes.items():
        for seed, outcome in of_row.items():
            for name, picture in outcome.get(PICTURES, {}).items():
                yield PurePosixPath(row, f"seed-{seed}", name), picture


def table_cells(table: ResultsTable) -> list[list[str]]:
    """Column titles, then a line per computed row: the paper's figures beside ours."""
    titles = ["row", "what", "seeds"]
    for column in table.columns:
        titles += [f"{column.title}, paper", "ours"] if column.in_paper else [column.title]
    lines = [[*titles, *table.costs]]
    for line in table.lines:
        cells = [line.name, line.what, str(line.num_seeds)]
        for column, cell in zip(table.columns, line.cells, strict=True):
            cells += [cell.paper, cell.marked] if column.in_paper else [cell.marked]
        lines.append([*cells, *(cost for _, cost in table.costs_of(line))])
    return lines


def _marks(table: ResultsTable) -> Iterator[str]:
    if table.marks:
        yield f"Marks: {', '.join(f'{mark} {meaning.lower()}' for mark, meaning in table.marks.items())}."


def _legend(table: ResultsTable) -> Iterator[str]:
    """The marks and the figures, explained."""
    yield from _marks(table)
    for column in table.columns:
        if column.explanation:
            yield f"{column.title}: {column.explanation}."
