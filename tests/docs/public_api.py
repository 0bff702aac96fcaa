"""The public names of the package as griffe reads them in the sources, and as a stub.

A method is public if `docs/api.md` names it; the fields of classes of data are.
"""

from collections.abc import Iterator
from pathlib import Path

import griffe

import allyouneed

SOURCES = Path(allyouneed.__file__).parent
GUIDE = SOURCES.parents[1] / "docs" / "api.md"
PRESETS = "allyouneed.config.presets"
_OWN_CONSTRUCTOR = {"PreparedData", "Cluster"}
"""Classes of no fields that programs make themselves."""


def public_objects() -> Iterator[griffe.Object]:
    """Classes and functions of the package, in alphabetical order."""
    visited: dict[str, griffe.Module] = {}
    for name, place in allyouneed._MODULES.items():
        module = visited.setdefault(place, _visited(place))
        found = module[name]
        assert isinstance(found, griffe.Object)
        yield found


def presets() -> list[str]:
    """Names of the presets."""
    from allyouneed.config.presets import PRESETS as by_name

    return [*by_name]


def _visited(place: str) -> griffe.Module:
    path = SOURCES.joinpath(*place.split(".")[1:]).with_suffix(".py")
    code = path.read_bytes().decode()
    return griffe.visit(
        place,
        filepath=path,
        code=code,
        docstring_parser=griffe.Parser.google,
        docstring_options={"warnings": False},
    )


def is_record(shown: griffe.Object) -> bool:
    """Whether a class is made of its fields: a data class, settings, or a dictionary of options."""
    decorated = isinstance(shown, griffe.Class) and any("dataclass" in str(d.value) for d in shown.decorators)
    return decorated or any(str(base) in _BASES_OF_RECORDS for base in getattr(shown, "bases", ()))


_BASES_OF_RECORDS = {"Config", "TypedDict", "SearchSettings", "NamedTuple"}


def fields_of(shown: griffe.Object) -> list[griffe.Attribute]:
    """The fields of a record, in order."""
    members = shown.members.values() if is_record(shown) else ()
    return [each for each in members if isinstance(each, griffe.Attribute) and _is_field(each)]


def _is_field(member: griffe.Attribute) -> bool:
    is_property = "property" in member.labels or "cached" in member.labels
    return not member.name.startswith("_") and not is_property and "ClassVar" not in str(member.annotation)


def methods_of(shown: griffe.Object) -> list[griffe.Function]:
    """The methods that the guide names, and the constructor where programs call it."""
    guide = GUIDE.read_bytes().decode()
    return [
        each
        for each in shown.members.values()
        if isinstance(each, griffe.Function)
        and (
            f".{each.name}`" in guide
            or f".{each.name}(" in guide
            or (each.name == "__init__" and shown.name in _OWN_CONSTRUCTOR)
        )
        and f"`{shown.name}" in guide
    ]


def declaration(field: griffe.Attribute) -> str:
    """A field as it is declared; a default that is made anew for each object is `...`."""
    value = "" if field.value is None else f" = {'...' if 'field(' in str(field.value) else field.value}"
    return f"{field.name}: {field.annotation}{value}"


def stub() -> str:
    """All public names, as a module without bodies."""
    lines = ["class presets:", *(f"    def {name}() -> RunConfig: ..." for name in presets())]
    for shown in public_objects():
        if isinstance(shown, griffe.Function):
            lines.append(f"def {signature(shown)}: ...")
            continue
        bases = ", ".join(map(str, getattr(shown, "bases", ())))
        inside = [*map(declaration, fields_of(shown)), *(_method(each) for each in methods_of(shown))]
        lines += [f"class {shown.name}({bases}):", *(f"    {each}" for each in inside or ["..."])]
    return "\n".join(lines) + "\n"


def _method(method: griffe.Function) -> str:
    decorator = "@classmethod\n    " if "classmethod" in method.labels else ""
    return f"{decorator}def {signature(method)}: ..."


def signature(shown: griffe.Function) -> str:
    """Name, parameters and result, without functions as defaults."""
    text = str(shown.signature())
    for parameter in shown.parameters:
        if "lambda" in str(parameter.default):
            text = text.replace(str(parameter.default), "...")
    return text
