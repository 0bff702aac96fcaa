"""Search options of commands, made from the fields of `SearchConfig`; their docstrings are the help."""

from collections.abc import Iterator
from dataclasses import asdict, field, make_dataclass
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

from cyclopts import Parameter

from allyouneed.cli.number_options import Outputs, Whole
from allyouneed.config.run import SearchConfig, SearchSettings

_ELSEWHERE = {"alignments", "alignment_layer", "alignment_head"}
"""Settings without an option here: `translate` has a flag for the first; the others belong to models."""


class _Given:
    """Search settings; by default the model's own."""

    def settings(self) -> SearchSettings:
        """The settings that were given."""
        given = {name: value for name, value in asdict(cast(Any, self)).items() if value is not None}
        return cast(SearchSettings, given)


def _option(name: str) -> tuple[str, Any, Any]:
    setting = SearchConfig.model_fields[name]
    kind: Any = Whole if int in _kinds(setting.annotation) else setting.annotation
    if name == "mbr":
        kind = Outputs
    return name, Annotated[kind | None, Parameter(help=setting.description)], field(default=None)


def _kinds(hint: Any) -> Iterator[Any]:
    yield hint
    for part in get_args(hint):
        yield from _kinds(part)


if TYPE_CHECKING:
    SearchOptions = _Given
else:
    _names = [name for name in SearchConfig.model_fields if name not in _ELSEWHERE]
    SearchOptions = make_dataclass(
        "SearchOptions",
        map(_option, _names),
        bases=(_Given,),
        frozen=True,
        namespace={"__module__": __name__, "__doc__": _Given.__doc__},  # cyclopts ignores those of `types`
    )

AS_THE_MODEL_SAYS = SearchOptions()
