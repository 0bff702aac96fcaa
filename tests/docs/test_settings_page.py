"""The page of all settings is that of the program: `python tests/docs/test_settings_page.py` writes it."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from allyouneed.config.run import RunConfig
from allyouneed.config.settings import Config, descriptions

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"
_INTRODUCTION = """\
# Settings

Every setting of a run, with the values of the paper's base model as defaults. A preset (`--preset`) changes
some of them; `--config FILE` takes them from a TOML file, and `--set group.name=value` changes single ones:

```
allyouneed plan --preset base --set model.num_layers=4 training.batch_tokens=8192
```

`plan` names every setting that departs from the nearest model of the paper. A run keeps its settings in
`RUN/config.toml`; the groups are the tables of that file. Numbers in parentheses are sections of the paper. A
setting that means nothing to an architecture, or a value out of range, is refused, with its name.
"""
_GROUPS = {
    "model": "The architecture. [Variants of the model](reproduce.md#variants-of-the-model) has the sources.",
    "data": "What `prepare` makes of text or trees. [Corpora](corpora.md) explains the filters.",
    "training": "Updates, checkpoints and validation.",
    "search": "Defaults of `translate`, `parse`, `evaluate` and `serve`; options override them "
    "([decoding](decoding.md)).",
}
_BOUNDS = {
    "minimum": "at least",
    "exclusiveMinimum": "above",
    "maximum": "at most",
    "exclusiveMaximum": "below",
}
_HUGE = 10**6
"""Bounds from here on only keep sizes representable."""


def values_of(schema: Mapping[str, Any]) -> str:
    """What a setting can be, in words."""
    if "anyOf" in schema:
        return " or ".join(values_of(choice) for choice in schema["anyOf"] if choice.get("type") != "null")
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if schema["type"] == "boolean":
        return "`true`, `false`"
    if schema["type"] in ("integer", "number"):
        bounds = [
            f"{told} {schema[name]:g}"
            for name, told in _BOUNDS.items()
            if abs(schema.get(name, _HUGE)) < _HUGE
        ]
        return " ".join(["integer" if schema["type"] == "integer" else "number", ", ".join(bounds)]).strip()
    if schema["type"] == "array":
        return f"list of {values_of(schema['items'])}" if "items" in schema else "pair of texts"
    return "text"


def default_of(schema: Mapping[str, Any]) -> str:
    """The default of a setting, in words."""
    default = schema.get("default")
    if default in (None, "", [], ()):
        return "-"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def page() -> Iterator[str]:
    """The lines of the page."""
    yield from _INTRODUCTION.split("\n")
    for group, about in _GROUPS.items():
        config: type[Config] = type(getattr(RunConfig(), group))
        schema = config.model_json_schema()
        yield from (
            f"## {group}",
            "",
            about,
            "",
            "| setting | default | values | meaning |",
            "|---|---|---|---|",
        )
        for name, setting in schema["properties"].items():
            told = re.sub(r"docs/([\w-]+)\.md", r"[\1](\1.md)", " ".join(descriptions(config)[name].split()))
            yield f"| `{group}.{name}` | {default_of(setting)} | {values_of(setting)} | {told} |"
        yield ""


def test_the_page_has_every_setting_as_the_program_explains_it() -> None:
    assert {*RunConfig.model_fields} == {*_GROUPS}
    assert PAGE.read_bytes().decode() == "\n".join(page()), "run python tests/docs/test_settings_page.py"


if __name__ == "__main__":
    PAGE.write_bytes("\n".join(page()).encode())
