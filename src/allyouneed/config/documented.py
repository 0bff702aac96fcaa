"""Documents the keyword options of functions with the docstrings of the corresponding settings."""

import inspect
import textwrap
from collections.abc import Callable
from typing import Any, TypeVar, get_args, get_type_hints

from allyouneed.config.settings import Config

Function = TypeVar("Function", bound=Callable[..., Any])


def takes(options: type[Config], of_the_model: type[Config]) -> Callable[[Function], Function]:
    """Add every option to the signature and the docstring of a function that takes `**options`.

    Args:
        options: Settings with their own defaults.
        of_the_model: Settings whose default is the value stored with the model.
    """

    def document(function: Function) -> Function:
        signature = inspect.signature(function)
        *named, unpacked = signature.parameters.values()
        kinds = get_type_hints(*get_args(unpacked.annotation))
        defaults = {name: field.default for name, field in options.model_fields.items()}
        keywords = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kinds[name])
            for name, default in (defaults | dict.fromkeys(of_the_model.model_fields)).items()
        ]
        function.__signature__ = signature.replace(parameters=[*named, *keywords])  # type: ignore[attr-defined]
        function.__doc__ = "\n".join(
            [
                inspect.getdoc(function) or "",
                "\nOptions:",
                *(_line(name, field, f"{field.default!r}") for name, field in options.model_fields.items()),
                "\nOptions whose default is the model's own setting (in brackets: if the model has none):",
                *(
                    _line(name, field, f"the model's ({field.default!r})")
                    for name, field in of_the_model.model_fields.items()
                ),
            ]
        )
        return function

    return document


def _line(name: str, field: Any, default: str) -> str:
    text = " ".join(f"{name}: {field.description} Default: {default}.".split())
    return textwrap.fill(text, 105, initial_indent="    ", subsequent_indent="        ")
