"""The reference of the Python API is what the sources say: `python -m tests.docs.test_python_page`."""

import re
from collections.abc import Iterator

import griffe
from tests.docs.public_api import (
    GUIDE,
    declaration,
    fields_of,
    methods_of,
    presets,
    public_objects,
    signature,
)

import allyouneed

PAGE = GUIDE.with_name("python.md")
_INTRODUCTION = """\
# Python reference

Every public name of `import allyouneed`, with its signature and what its docstring says. [The Python
API](api.md) is the guide: what to use for what, requests and answers, and the promise of compatibility.
"""
_IN_SETTINGS = {
    "ModelConfig": "model",
    "DataConfig": "data",
    "TrainingConfig": "training",
    "SearchConfig": "search",
}
"""Class -> the section of the page of settings that has its fields."""
_MOST_CHARACTERS = 100


def page() -> str:
    """The whole page."""
    names = ", ".join(f"`{name}`" for name in presets())
    lines = [
        *_INTRODUCTION.split("\n"),
        "## presets",
        "",
        f"Functions without arguments, each of which makes a `RunConfig`: {names}.",
        "",
    ]
    for shown in public_objects():
        lines += [f"## {shown.name}", "", *_described(shown)]
    return "\n".join(lines).rstrip() + "\n"


def _described(shown: griffe.Object) -> Iterator[str]:
    if isinstance(shown, griffe.Function):
        yield from _signature(shown)
    yield from _docstring(shown)
    if section := _IN_SETTINGS.get(shown.name):
        yield from (f"Its fields are the [settings](settings.md#{section}) of that group, by keyword.", "")
        return
    if fields := fields_of(shown):
        yield from (_item(declaration(field), field.docstring) for field in fields)
        yield ""
    for method in methods_of(shown):
        name = shown.name if method.name == "__init__" else f"{shown.name}.{method.name}"
        yield from (f"### {name}", "", *_signature(method), *_docstring(method))


def _item(code: str, docstring: griffe.Docstring | None) -> str:
    told = f": {_line(docstring.value)}" if docstring else ""
    return f"- `{code}`{told}"


def _signature(function: griffe.Function) -> Iterator[str]:
    text = signature(function).replace("__init__(", f"{function.parent.name if function.parent else ''}(")
    if len(text) > _MOST_CHARACTERS:  # a parameter a line
        head, inside, result = re.fullmatch(r"(\w+\()(.*)(\) -> .*)", text).groups()  # type: ignore[union-attr]
        inside = re.sub(r", (?=\w+: |\*)", ",\n    ", inside)
        text = f"{head}\n    {inside},\n{result}"
    yield from ("```python", text, "```", "")


def _docstring(shown: griffe.Object) -> Iterator[str]:
    for section in shown.docstring.parsed if shown.docstring else ():
        match section:
            case griffe.DocstringSectionText():
                yield from (section.value, "")
            case griffe.DocstringSectionParameters():
                yield from (f"- `{each.name}`: {_line(each.description)}" for each in section.value)
                yield ""
            case griffe.DocstringSectionReturns():
                yield from (f"Returns: {_line(each.description)}" for each in section.value)
                yield ""
            case griffe.DocstringSectionRaises():
                yield from (
                    f"- raises `{each.annotation}`: {_line(each.description)}" for each in section.value
                )
                yield ""


def _line(text: str) -> str:
    return " ".join(text.split())


def test_the_page_has_every_public_name_as_the_sources_explain_it() -> None:
    assert PAGE.read_bytes().decode() == page(), "run python -m tests.docs.test_python_page"


def test_every_public_name_has_a_section_and_each_method_of_the_guide_too() -> None:
    titles = re.findall(r"^##+ (.+)$", page(), re.MULTILINE)
    assert sorted({title.partition(".")[0] for title in titles}) == sorted(
        {*allyouneed.__all__} - {"__version__"}
    )
    named = re.findall(r"`(\w+)\.(\w+)[`(]", GUIDE.read_bytes().decode())
    methods = {f"{owner}.{name}" for owner, name in named if owner in allyouneed.__all__}
    assert methods - {*titles, "Answer.result"} == set()


if __name__ == "__main__":
    PAGE.write_bytes(page().encode())
