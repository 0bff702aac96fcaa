"""Keyword options of functions, explained from the docstrings of the settings that they are."""

import inspect
import textwrap
from collections.abc import Callable
from typing import Any, TypeVar

from allyouneed.config.settings import Config

Function = TypeVar("Function", bound=Callable[..., Any])


def takes(options: type[Config], of_the_model: type[Config] | None = None) -> Callable[[Function], Function]:
    """Name every option in the signature and the docstring of a function that takes them as `**options`.

    Args:
        options: Settings that have their defaults where a call leaves them out.
        of_the_model: Settings that are the model's own where a call leaves them out.
    """

    def document(function: Function) -> Function:
        settings = [(options, False), *([(of_the_model, True)] if of_the_model else [])]
        signature = inspect.signature(function)
        *named, _ = signature.parameters.values()
        fields = [(of_model, *entry) for group, of_model in settings for entry in group.model_fields.items()]
        keywords = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=None if of_model else field.default,
                annotation=field.annotation,
            )
            for of_model, name, field in fields
        ]
        function.__signature__ = signature.replace(parameters=[*named, *keywords])  # type: ignore[attr-defined]
        lines = [_line(name, field, of_model) for of_model, name, field in fields]
        function.__doc__ = "\n".join([inspect.getdoc(function) or "", "", "Options:", *lines])
        return function

    return document


def _line(name: str, field: Any, of_model: bool) -> str:
    default = f"Default: the model's own, which is {field.default!r} unless its configuration says otherwise."
    text = f"{name}: {field.description} {default if of_model else f'Default: {field.default!r}.'}"
    filled = " ".join(text.split())
    return textwrap.fill(
        filled, 105, initial_indent="    ", subsequent_indent="        ", break_long_words=False
    )
