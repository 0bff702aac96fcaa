"""Every chapter of `docs/learn` runs as it stands, shows code that is there, and is a sound notebook."""

import ast
import importlib
import inspect
import json
import operator
import textwrap
from pathlib import Path

import matplotlib as mpl
import pytest
from tests.docs.chapters import (
    ROOT,
    anchors,
    blocks,
    chapters,
    definition,
    notebook,
    run,
    with_sources,
    write_notebooks,
)

PICTURES = ROOT / "docs" / "pictures" / "learn"
MOST_BYTES = 60_000


@pytest.fixture(autouse=True)
def no_window() -> None:
    mpl.use("agg")


@pytest.mark.slow
@pytest.mark.parametrize("page", chapters(), ids=lambda page: page.stem)
def test_a_chapter_prints_draws_and_checks_what_it_says(page: Path) -> None:
    assert run(page) == 2


def test_there_are_eight_chapters_with_a_lab_each() -> None:
    texts = [page.read_bytes().decode() for page in chapters()]
    assert [page.stem[0] for page in chapters()] == [*"12345678"]
    for text in texts:
        assert text.count("## Break it: ") == 1
        assert "**What to expect.**" in text
        assert any(block.kind == "source" for block in blocks(text))


@pytest.mark.parametrize("page", chapters(), ids=lambda page: page.stem)
def test_code_of_the_package_is_shown_as_it_is_and_never_copied(page: Path) -> None:
    text = page.read_bytes().decode()
    site = with_sources(text)
    assert "python source" not in site
    for module, name in (
        each for block in blocks(text) if block.kind == "source" for each in anchors(block.code)
    ):
        shown = operator.attrgetter(name)(importlib.import_module(module))
        found = definition(module, name)
        if callable(shown):
            assert found == textwrap.dedent(inspect.getsource(shown)).strip()
        assert found in site
        assert found not in text


@pytest.mark.parametrize(
    ("code", "missing"),
    [
        ("from allyouneed.model.attention import scaled_products", "scaled_products"),
        ("from allyouneed.model.layers import EncoderLayer\nEncoderLayer.backward", "EncoderLayer.backward"),
    ],
)
def test_an_anchor_that_is_deleted_fails(code: str, missing: str) -> None:
    with pytest.raises(LookupError, match=f"has no {missing}$"):
        with_sources(f"```python source\n{code}\n```\n")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("```python\nprint(1)\n```\n\n```text\n2\n```\n", "prints\n1"),
        ("```python\nx = 1\n```\n\n![Nothing](none.png)\n", "draws no picture"),
        ("```python exercise\nx = 1\n```\n\n```python check\nassert x\n```\n", "passes before it is done"),
    ],
)
def test_a_page_that_is_wrong_fails(text: str, fault: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_bytes(text.encode())
    with pytest.raises(AssertionError, match=fault):
        run(page)


def test_a_solution_that_does_not_pass_its_check_fails(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_bytes(
        b"```python exercise\nx = 0\n```\n\n```python check\nassert x == 2\n```\n\n"
        b"```python solution\nx = 1\n```\n"
    )
    with pytest.raises(AssertionError):
        run(page)


def test_notebooks_have_all_code_but_the_solutions(tmp_path: Path) -> None:
    write_notebooks(tmp_path)
    for page in chapters():
        found = json.loads((tmp_path / f"{page.stem}.ipynb").read_bytes())
        cells = ["".join(cell["source"]) for cell in found["cells"] if cell["cell_type"] == "code"]
        kept = [block for block in blocks(page.read_bytes().decode()) if block.kind != "solution"]
        assert cells == [block.code.strip("\n") for block in kept]
        assert all(map(ast.parse, cells))
        assert len({cell["id"] for cell in found["cells"]}) == len(found["cells"])


def test_a_notebook_shows_a_definition_in_front_of_the_cell_that_imports_it() -> None:
    code = "from allyouneed.model.masks import causal_mask\n"
    first, second, third = notebook(f"Text.\n\n```python source\n{code}```\n\nMore.\n")["cells"]
    assert "".join(first["source"]).startswith(
        "Text.\n\n```python\n# allyouneed/model/masks.py\ndef causal_mask("
    )
    assert "".join(second["source"]) == code.strip()
    assert third["source"] == ["More."]


def test_every_picture_is_in_a_chapter_and_small() -> None:
    named = {
        Path(block.picture).name
        for page in chapters()
        for block in blocks(page.read_bytes().decode())
        if block.picture
    }
    assert {path.name for path in PICTURES.iterdir()} == named
    assert all(path.stat().st_size <= MOST_BYTES for path in PICTURES.iterdir())
