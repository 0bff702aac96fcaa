"""The first screen of the index: every claim has its row, and its mark is what the figures say."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from allyouneed.lab.paper.pages.claims import (
    CLAIMS,
    PARTLY,
    Claim,
    Rule,
    as_tested,
    beside_first,
    close,
    number,
    untested,
)
from allyouneed.lab.paper.pages.claims_table import claims_table, sentence
from allyouneed.lab.paper.pages.results_page import read_table
from allyouneed.lab.paper.pages.results_table import Cell, Column, ResultLine, ResultsTable

RESULTS = Path(__file__).parents[4] / "docs" / "results"
Figures = tuple[str, str, list[Any]]
"""Ours, the paper's, and the verdicts."""
AS, NOT, DIFFERS, SAME, OPEN = "as the paper", "not as the paper", "differs", "not told apart", "not tested"


def table_of(*cells: Figures, seeds: int = 3, name: str = "x") -> ResultsTable:
    """A table of one figure, whose rows are called 0, 1 and so on."""
    lines = [
        ResultLine(str(place), f"(A) k = {place}", seeds, [Cell(*cell)], [])
        for place, cell in enumerate(cells)
    ]
    return ResultsTable(name, "title", [], [Column("BLEU", "", True)], lines, {}, [])


def claim(rule: Rule, num_rows: int = 2) -> Claim:
    return Claim("Table 9", "it <helps>", "x", "BLEU", {str(n): f"k {n}" for n in range(num_rows)}, rule)


def mark(rule: Rule, *cells: Figures) -> str:
    table = table_of(*cells)
    return rule(table, [(line, line.cells[0]) for line in table.lines])


BASE: Figures = ("30.1 ± 0.2", "25.8", [])


@pytest.mark.parametrize(
    ("of_rows", "expected"),
    [
        ([[AS, SAME], [AS]], AS),
        ([[AS], [SAME]], PARTLY),
        ([[AS], [NOT]], PARTLY),
        ([[AS, NOT]], PARTLY),
        ([[NOT], [SAME]], NOT),
        ([[SAME], [OPEN]], SAME),
        ([[OPEN]], OPEN),
        ([], OPEN),
    ],
)
def test_a_claim_holds_if_each_row_is_decided_so(of_rows: list[list[str]], expected: str) -> None:
    assert mark(as_tested, BASE, *(("29.0", "25.0", verdicts) for verdicts in of_rows)) == expected


def test_a_claim_is_judged_by_its_own_figure() -> None:
    table = table_of(BASE, ("29.1", "25.5", [SAME]))
    [elsewhere] = table_of(("8.6", "4.9", [AS])).lines
    first, second = table.lines
    both = replace(second, cells=[*second.cells, *elsewhere.cells])
    lines = [(first, first.cells[0]), (both, both.cells[0])]
    assert as_tested(table, lines) == SAME
    assert "comparisons" not in sentence(claim(as_tested), lines)


def test_figures_are_the_papers_up_to_a_tolerance() -> None:
    assert mark(close(0.02), ("64.9", "64", []), ("1", "1", []), ("∞", "∞", []), ("5", "", [])) == AS
    assert mark(close(0.02), ("64.9", "64", []), ("1.03", "1", [])) == PARTLY
    assert mark(close(0.0), ("7.005e-08", "0", [])) == NOT


def test_the_first_row_is_better_if_tests_show_it_and_worse_if_they_show_that() -> None:
    best: Figures = ("93.8 ± 3.0", "", [])
    assert mark(beside_first(higher=True), best, ("23 ± 14", "", [DIFFERS])) == AS
    assert mark(beside_first(higher=False), best, ("23 ± 14", "", [DIFFERS])) == NOT
    assert mark(beside_first(higher=True), best, ("62 ± 38", "", [SAME])) == SAME


def test_a_row_has_the_figures_the_papers_and_what_is_decided() -> None:
    table = table_of(BASE, ("28.03", "24.6", [AS, SAME]))
    lines = [(line, line.cells[0]) for line in table.lines]
    told = "BLEU (paper): k 0 30.1 (25.8), k 1 28.03 (24.6); of 2 comparisons 1 as the paper."
    assert sentence(claim(as_tested), lines) == told
    assert number("13,604 ± 2") == 13_604


def test_a_plot_has_both_curves_on_one_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("allyouneed.lab.paper.pages.claims_table.CLAIMS", [claim(untested)])
    shown = "".join(claims_table({"x": table_of(("30", "25", []), ("20", "24", []))}))
    heights = re.findall(r'points="5.0,([\d.]+) 115.0,([\d.]+)"', shown)
    assert heights == [("5.0", "29.0"), ("5.0", "7.4")]  # 24 pixels for 10 BLEU, 2.4 for 1


def test_of_several_pages_the_one_with_the_most_seeds_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("allyouneed.lab.paper.pages.claims_table.CLAIMS", [claim(untested)])
    cells: list[Figures] = [BASE, ("28.03", "24.6", [])]
    tables = {"one.html": table_of(*cells, seeds=1), "two.html": table_of(*cells, seeds=4)}
    shown = "".join(claims_table(tables))
    assert 'href="two.html"' in shown
    assert 'href="one.html"' not in shown
    assert "it &lt;helps&gt;" in shown
    assert "".join(claims_table({"x": replace(tables["one.html"], experiment="y")})) == ""
    assert "".join(claims_table({"x": table_of(BASE)})) == ""


def test_every_claim_has_a_row_in_our_results() -> None:
    tables = {
        page.name: table
        for page in RESULTS.glob("*.html")
        if (table := read_table(page.read_bytes().decode()))
    }
    for each in CLAIMS:
        assert f">{each.place}</a>" in "".join(claims_table(tables))
    assert "".join(claims_table(tables)).count("<tr>") == len(CLAIMS)


@pytest.mark.browser
@pytest.mark.parametrize("width", [1_240, 390])
def test_the_claims_fit_the_screen_and_load_nothing(browser: Any, width: int) -> None:
    page = browser.contexts[0].new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.set_viewport_size({"width": width, "height": 900})
    page.goto((RESULTS / "index.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator(".claims tr").count() == len(CLAIMS)
    if width > 1_000:
        assert page.locator(".claims").bounding_box()["height"] < 900
    assert asked == [(RESULTS / "index.html").as_uri()]
    page.close()
