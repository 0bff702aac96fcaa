"""Pages of results are read on wide and narrow screens, light and dark, and hold what the index shows."""

import functools
import html
import json
import math
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from matplotlib.figure import Figure as Picture

from allyouneed.errors import DataError, UsageError
from allyouneed.lab.paper.experiment import CURVE, FAILED, Experiment, Figure, Results, Row
from allyouneed.lab.paper.pages import curves_page
from allyouneed.lab.paper.pages.results_page import as_page, main_table, read_table, write_index, write_report
from allyouneed.lab.paper.pages.results_table import VERDICTS, results_table
from allyouneed.lab.paper.reproduction import EXPERIMENTS
from allyouneed.lab.paper.scales import SCALES

TINY = SCALES["tiny"]
RESULTS = Path(__file__).parents[4] / "docs" / "results"
SCREENS = [(1240, "light"), (1240, "dark"), (390, "light"), (390, "dark")]
MEASURE = """() => {
  const luminance = (colour) => {
    const [r, g, b] = colour.match(/[\\d.]+/g).map(Number).map((c) => c / 255)
      .map((c) => c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const paper = luminance(getComputedStyle(document.querySelector(".results")).backgroundColor);
  const shown = [...document.querySelectorAll(".results *")].filter((element) =>
    [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim()) &&
    element.tagName !== "SCRIPT" && element.getClientRects().length);
  return {
    wide: document.documentElement.scrollWidth,
    tables: [...document.querySelectorAll(".table")].map((t) => t.scrollWidth - t.clientWidth),
    hidden: [...document.querySelectorAll(".plot, .plot img")].filter((plot) =>
      plot.scrollWidth > plot.clientWidth || plot.getBoundingClientRect().right > innerWidth).length,
    tall: document.documentElement.scrollHeight,
    outside: shown.filter((e) => innerWidth < 1000 || !e.closest(".table"))
      .filter((e) => e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.textContent),
    faint: shown.filter((element) => {
      const ink = luminance(getComputedStyle(element).color);
      return (Math.max(ink, paper) + .05) / (Math.min(ink, paper) + .05) < 4.5;
    }).map((element) => element.textContent),
    text: document.querySelector(".results").innerText,
    plots: [...document.images].map((image) => image.naturalWidth),
  };
}"""


def made_up(name: str, directory: Path) -> Results:
    """Results of all rows of an experiment, in which every figure has a value for three seeds."""
    experiment = EXPERIMENTS[name]
    rows = experiment.rows(TINY)
    outcomes = {
        row.name: {
            seed: dict.fromkeys(experiment.figures, 12.3 + place + seed / 7)
            | {"seconds": 3600.0, "matmul_flops": 1.2e15, "formula_flops": 3.4e16, "device": "1 x CPU"}
            for seed in (1, 2, 3)
        }
        for place, row in enumerate(rows)
    }
    return Results(experiment, TINY, rows, outcomes, directory)


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A folder with the page of an experiment, written once, as its plots take seconds; not to be changed."""

    @functools.cache
    def written(name: str) -> Path:
        folder = tmp_path_factory.mktemp(name)
        write_report(made_up(name, folder))
        return folder

    return written


@pytest.fixture(scope="module")
def table3_folder(folder_of: Callable[[str], Path]) -> Path:
    """A folder with the page of Table 3."""
    return folder_of("table3")


@pytest.fixture
def look(browser: Any) -> Iterator[Any]:
    """Open a page on a screen and measure it; the page must load nothing and log no error."""
    contexts: list[Any] = []

    def look_at(file: Path, width: int, scheme: str) -> Mapping[str, Any]:
        contexts.append(browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme))
        page, amiss, requested = contexts[-1].new_page(), list[str](), list[str]()
        page.on("console", lambda message: amiss.append(message.text))
        page.on("pageerror", lambda error: amiss.append(str(error)))
        page.on("request", lambda request: requested.append(request.url))
        page.goto(file.as_uri())
        found: Mapping[str, Any] = page.evaluate(MEASURE)
        assert amiss == []
        assert {url for url in requested if not url.startswith("data:")} == {file.as_uri()}
        return found

    yield look_at
    for context in contexts:
        context.close()


@pytest.mark.browser
@pytest.mark.parametrize("name", ["table1", "table3", "table4", "extrapolation"])
def test_every_number_can_be_read_on_every_screen(
    name: str, look: Any, folder_of: Callable[[str], Path]
) -> None:
    folder = folder_of(name)
    results = made_up(name, folder)
    for width, scheme in SCREENS:
        found = look(folder / "results.html", width, scheme)
        assert found["wide"] <= width
        assert max(found["tables"]) <= 0 or width > 1000, "no part of a table is hidden on a narrow screen"
        assert found["hidden"] == 0
        assert found["outside"] == []
        assert found["faint"] == []
        assert all(found["plots"])
        assert "`" not in found["text"]
        for line in results_table(results).lines:
            assert all(cell.ours in found["text"] for cell in line.cells)


@pytest.mark.browser
def test_recorded_pages_fit_a_telephone(look: Any) -> None:
    for file in sorted(RESULTS.glob("*.html")):
        found = look(file, 390, "light")
        assert found["wide"] <= 390, file
        assert (found["outside"], found["hidden"]) == ([], 0), file
        assert max(found["tables"], default=0) <= 0, file
        assert file.name != "index.html" or found["tall"] < 10_000


@pytest.mark.parametrize("file", sorted(RESULTS.glob("*.html")), ids=lambda file: file.stem)
def test_recorded_pages_begin_with_their_verdict_and_repeat_no_heading(file: Path) -> None:
    page = file.read_bytes().decode()
    headings = re.findall("<h[1-3]>(.*?)</h", page)
    assert len(headings) == len({*headings})
    if table := read_table(page):
        first = re.search('</h1>\n<p class="verdict">(.*?)</p>', page)
        assert table.verdict
        assert first is not None
        assert first[1] == table.verdict.replace("'", "&#x27;").replace(">", "&gt;")
    shown = page.partition('<script type="application/json"')[0]
    for processor in {line.processor for line in table.lines if line.processor} if table else ():
        assert len(re.findall(re.escape(html.escape(processor)) + r"(?=[ ,;<])(?!, bfloat16)", shown)) == 1


@pytest.mark.browser
def test_a_dark_page_has_light_plots(browser: Any, tmp_path: Path) -> None:
    write_report(made_up("aop", tmp_path))
    brightness = []
    for scheme in ("light", "dark"):
        context = browser.new_context(color_scheme=scheme)
        page = context.new_page()
        page.goto((tmp_path / "results.html").as_uri())
        brightness.append(
            page.evaluate("""async () => {
              const image = document.querySelector(".plot img"), canvas = document.createElement("canvas");
              canvas.width = image.naturalWidth; canvas.height = image.naturalHeight;
              const context = canvas.getContext("2d");
              context.drawImage(image, 0, 0);
              const values = context.getImageData(0, 0, canvas.width, canvas.height).data;
              let [sum, inked] = [0, 0];
              for (let i = 0; i < values.length; i += 4)
                if (values[i + 3] > 200) { sum += values[i] + values[i + 1] + values[i + 2]; inked += 3; }
              return sum / inked;
            }""")
        )
        context.close()
    light, dark = brightness
    assert light < 120 < dark, "ink is dark on a light page and light on a dark one"


def test_the_legend_explains_every_mark_that_occurs_and_no_other(table3_folder: Path) -> None:
    page = (table3_folder / "results.html").read_text()
    table = results_table(made_up("table3", table3_folder))
    legend = re.findall(r'<p class="legend">(.*?)</p>', page, re.DOTALL)[0]
    for mark, title in VERDICTS.values():
        occurs = f">{mark}</abbr>" in page
        assert occurs == (title.lower() in legend) == (mark in table.marks)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_figure_is_explained(name: str) -> None:
    figures = EXPERIMENTS[name].figures
    for figure in figures:
        whole = re.sub(r"_\d+_\d+$|_valid$|_averaged$", "", figure)
        whole = re.sub(r"^(\w+)_n\d+$", r"longest_\1", whole)
        assert figures[whole].meaning, figure
        assert "_" not in figures[figure].title


def test_notes_on_rows_that_were_not_computed_are_left_out(tmp_path: Path) -> None:
    whole = made_up("table4", tmp_path)
    part = replace(whole, outcomes={"supervised": whole.outcomes["supervised"]})
    notes = ["\n".join(results_table(results).remarks) for results in (whole, part)]
    for row in ("semi_supervised", "exchange", "eighth"):
        assert f"`{row}`" in notes[0]
        assert f"`{row}`" not in notes[1]


def test_what_a_page_says_is_escaped(tmp_path: Path) -> None:
    results = made_up("aop", tmp_path)
    outcomes = {
        "base": {1: {FAILED: "<script>alert(1)</script> `</script>`"}},
        "aop1": results.outcomes["aop1"],
    }
    hostile = replace(results, outcomes=outcomes)
    write_report(hostile)
    page = (tmp_path / "results.html").read_text()
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert read_table(page) == results_table(hostile)
    lines: Any = [replace(line, num_seeds=cast("int", "<meta>")) for line in results_table(hostile).lines]
    assert "<meta>" not in "".join(main_table(replace(results_table(hostile), lines=lines)))


def test_the_index_shows_the_verdicts_of_all_pages_in_the_papers_order(
    folder_of: Callable[[str], Path], tmp_path: Path
) -> None:
    for name in ("variants", "table3", "table1"):
        shutil.copytree(folder_of(name), tmp_path / f"{name} #1")
    (tmp_path / "other.html").write_text("<p>another page</p>")
    page = write_index(tmp_path).read_text()
    titles = [EXPERIMENTS[name].title for name in ("table1", "table3", "variants")]
    assert re.findall("<h2>(.*?)</h2>", page) == [title.replace("'", "&#x27;") for title in titles]
    claims, _, pages = page.partition("</table>")
    links = [f"{name}%20%231/results.html" for name in ("table1", "table3", "variants")]
    assert re.findall('href="(.*?)"', pages) == links
    assert {*re.findall('href="(.*?)"', claims)} == {*links[:2]}  # no claim is about variants
    found = results_table(made_up("table3", tmp_path / "table3 #1"))
    assert f"<p>{found.verdict}</p>" in page
    assert "not as the paper (" in found.verdict
    assert "table3 #1</a>: scale tiny" in page


def test_a_folder_without_results_has_no_index(tmp_path: Path) -> None:
    (tmp_path / "other.html").write_text("<p>another page</p>")
    with pytest.raises(DataError, match="has no page that `reproduce` has written"):
        write_index(tmp_path)
    assert not (tmp_path / "index.html").exists()


@pytest.mark.parametrize(
    "damage",
    [
        lambda table: "{",
        lambda table: "[]",
        lambda table: json.dumps({**table, "new": 1}),
        lambda table: json.dumps({**table, "columns": [{"title": "x"}]}),
        lambda table: json.dumps({**table, "facts": None}),
        lambda table: json.dumps({**table, "facts": [5]}),
        lambda table: json.dumps({**table, "verdict": 5}),
        lambda table: json.dumps({**table, "title": 5}),
    ],
)
def test_a_damaged_page_is_named(
    damage: Callable[[dict[str, Any]], str], table3_folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(table3_folder, tmp_path / "x")
    path = tmp_path / "x" / "results.html"
    head, mark, rest = path.read_text().partition('id="table">')
    table, end, tail = rest.partition("</script>")
    path.write_text(head + mark + damage(json.loads(table)) + end + tail)
    with pytest.raises(DataError, match=f"{path}: is damaged, or was written by another version"):
        write_index(tmp_path)


def test_an_index_replaces_only_an_index_and_reads_only_files(table3_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(table3_folder, tmp_path / "x")
    (tmp_path / "folder.html").mkdir()
    (tmp_path / "broken.html").symlink_to(tmp_path / "missing")
    first = write_index(tmp_path).read_text()
    assert write_index(tmp_path).read_text() == first
    (tmp_path / "index.html").write_text("<h1>My page</h1>")
    with pytest.raises(UsageError, match="is another page"):
        write_index(tmp_path)
    assert (tmp_path / "index.html").read_text() == "<h1>My page</h1>"


def test_curves_that_share_an_axis_are_all_within_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plots: list[list[Any]] = []

    def keep(figures: Sequence[Picture], _: str) -> str:
        plots.append([*figures])
        return ""

    monkeypatch.setattr(curves_page, "plot", keep)
    levels = {"base": 9.0, "low": 5.0, "high": 18.0}  # low perplexity in the first panel, high BLEU last
    rows = [
        Row(name, what, lambda work: {}) for name, what in zip(levels, ("-", "(A) x", "(B) y"), strict=True)
    ]
    outcomes = {
        name: {1: {CURVE: {"step": [1, 2], "perplexity": [1.2 * level, level], "bleu": [level, 2 * level]}}}
        for name, level in levels.items()
    }
    experiment = Experiment("toy", "A toy", lambda scale: rows, {"perplexity": Figure("perplexity")})
    assert list(curves_page.sections(Results(experiment, TINY, rows, outcomes, tmp_path)))
    perplexity, bleu = ([axes for figure in figures for axes in figure.axes] for figures in plots)
    assert {axes.get_ylim() for axes in perplexity} == {(0.95 * 5, 5 * 5)}
    drawn = [value for axes in bleu for line in axes.lines for value in line.get_ydata()]
    assert len(drawn) == 2 * 4
    for axes in bleu:
        bottom, top = axes.get_ylim()
        assert (bottom, max(drawn)) == (0, 36)
        assert top > 36


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ([5000.0, 5200, 5300], "5,167 ± 153"),
        ([9999.7], "10,000"),
        ([7.33398, 7.33404], "7.334010 ± 0.000042"),
        ([97.1, 98.5], "97.80 ± 0.99"),
        ([2.5e13, 2.7e13], "2.6e+13 ± 1.4e+12"),
        ([0.05], "0.05"),
        ([math.inf, 5.0], "∞"),
    ],
)
def test_a_mean_has_the_digits_that_its_deviation_allows(
    values: Sequence[float], shown: str, tmp_path: Path
) -> None:
    rows = [Row("base", "-", lambda work: {})]
    experiment = Experiment("toy", "A toy", lambda scale: rows, {"perplexity": Figure("perplexity")})
    outcomes: dict[str, dict[int, dict[str, Any]]] = {
        "base": {seed: {"perplexity": value} for seed, value in enumerate(values, 1)}
    }
    outcomes["base"][9] = {"failed": "there is not enough memory; ask `plan`"}
    table = results_table(Results(experiment, SCALES["tiny"], rows, outcomes, tmp_path))
    assert table.lines[0].cells[0].ours == shown
    assert (table.lines[0].num_seeds, table.lines[0].what) == (len(values), "- (1 failed)")
    page = as_page(Results(experiment, SCALES["tiny"], rows, outcomes, tmp_path), table)
    assert "ask <code>plan</code>" in page
    assert ("± standard deviation" in page) == ("±" in shown)
    assert "those of the paper" not in page
