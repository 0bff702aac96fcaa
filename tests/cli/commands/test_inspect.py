"""`inspect` tells what prepared data looks like: as text, JSON, and a page."""

import json
import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from allyouneed.cli.program import main
from allyouneed.preparation import inspection_page
from allyouneed.preparation.inspecting import inspect
from allyouneed.preparation.inspection_page import as_page
from allyouneed.preparation.prepared_data import PreparedData

Run = Callable[..., tuple[int, bytes, str]]


def test_text_has_the_figures_and_the_pairs(toy_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--quiet", "inspect", str(toy_data), "--examples", "2"]) == 0
    out, err = capsys.readouterr()
    found = inspect(PreparedData(toy_data), 2)
    assert err == ""
    assert f"{found.num_pairs:,}  to train on, {found.num_valid_pairs:,} to validate" in out
    assert f"{found.source.num_tokens:,}  {found.source.tokens_per_word:.2f} per word" in out
    assert f"entries, of which {found.vocabularies['both sides'].num_used:,} occur" in out
    assert out.count("\n  pair ") == len(found.most_repeated + found.longest + found.oddest)
    assert found.longest[0].source in out


def test_json_is_one_object(toy_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(toy_data), "--json", "--examples", "1"]) == 0
    told = json.loads(capsys.readouterr().out)
    found = inspect(PreparedData(toy_data), 1)
    assert told["num_pairs"] == found.num_pairs
    assert sum(told["source"]["length_histogram"].values()) == found.num_pairs
    assert told["padding_share"]["4096"] == pytest.approx(found.padding[4_096])
    assert told["longest"][0]["target"] == found.longest[0].target
    assert told["report"]["num_kept"] == found.num_pairs


@pytest.mark.browser
@pytest.mark.parametrize("width", [1240, 390])
def test_the_page_loads_nothing_and_fits(
    toy_data: Path, tmp_path: Path, browser: Any, capsys: pytest.CaptureFixture[str], width: int
) -> None:
    assert main(["inspect", str(toy_data), "--out", str(tmp_path / "page.html")]) == 0
    assert capsys.readouterr().out == ""
    context = browser.new_context(viewport={"width": width, "height": 800})
    page, requested, amiss = context.new_page(), list[str](), list[str]()
    page.on("request", lambda request: requested.append(request.url))
    page.on("console", lambda message: amiss.append(message.text))
    page.goto((tmp_path / "page.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("[...document.images].every((image) => image.naturalWidth > 0)")
    assert page.evaluate("document.images.length") == 3
    assert {url for url in requested if not url.startswith("data:")} == {(tmp_path / "page.html").as_uri()}
    assert amiss == []
    context.close()


def test_the_text_of_a_corpus_is_escaped_on_the_page(toy_data: Path) -> None:
    found = inspect(PreparedData(toy_data), 1)
    object.__setattr__(found.longest[0], "source", "<script>alert(1)</script>")
    page = as_page(found)
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_all_cells_of_the_map_of_lengths_hold_equally_many_lengths(
    toy_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plots: list[Any] = []

    def keep(figures: Iterable[Figure], _: str) -> str:
        plots.append([figure.axes[0] for figure in figures])
        return ""

    monkeypatch.setattr(inspection_page, "plot", keep)
    found = inspect(PreparedData(toy_data), 1)
    for longest, size in ((6, 1), (62, 1), (100, 2), (200, 4)):
        lengths = np.arange(1, longest + 1)
        every = replace(
            found,
            source=replace(found.source, lengths=lengths),
            target=replace(found.target, lengths=lengths),
        )
        as_page(every)
        histogram, joint = plots[-2]
        counts = joint.collections[0].get_array().filled(0).diagonal()
        assert counts.sum() == longest
        assert set(counts[1:-1]) == {size}
        assert histogram.patches[0].get_data().values.tolist() == [0, *[1] * longest]
        assert histogram.patches[0].get_data().edges[1] == 0.5  # length 1 is from 0.5 to 1.5
        for axes in (histogram, joint):
            assert all(tick == round(tick) for tick in [*axes.get_xticks(), *axes.get_yticks()])


def test_wrong_uses_are_one_line(run_command: Run, toy_data: Path, toy_model: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged"
    shutil.copytree(toy_data, damaged)
    (damaged / "text" / "train.source").write_text("other\n")
    (tmp_path / "folder.html").mkdir()
    for arguments, code, message in (
        ([tmp_path / "nothing"], 4, "nothing"),
        ([toy_model], 4, "is a model"),
        ([damaged], 4, "train.source"),
        ([toy_data, "--out", tmp_path / "folder.html"], 6, "folder.html"),
        ([toy_data, "--examples", "-1"], 2, "examples"),
    ):
        ended, out, said = run_command("inspect", *arguments)
        assert (ended, out) == (code, b""), said
        assert message in said
        assert said.count("\n") == 1
