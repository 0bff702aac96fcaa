"""The fields of DeepL's requests, and its refusals of those that are wrong."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from starlette.datastructures import ImmutableMultiDict
from starlette.requests import Request

from allyouneed.data.strict_json import parse_object
from allyouneed.errors import DataError
from allyouneed.serve.html_text import HTML, XML, Dialect
from allyouneed.serve.protocols.forms import read_form
from allyouneed.serve.refusal import Refusal
from allyouneed.serve.server_settings import MOST_FIELDS, MOST_TEXTS

Values = Mapping[str, Any]
_ON: Final = (True, "1", "true")
_OFF: Final = (False, "0", "false")
_MODEL_TYPES: Final = ("latency_optimized", "quality_optimized", "prefer_quality_optimized")
_CHOICES: Final[Mapping[str, tuple[Any, ...]]] = {
    "split_sentences": ("0", "1", "nonewlines"),
    "preserve_formatting": _ON + _OFF,
    "outline_detection": _ON + _OFF,
    "show_billed_characters": _ON + _OFF,
    "formality": ("default", "prefer_less", "prefer_more", "less", "more"),
    "tag_handling": ("html", "xml"),
    "model_type": _MODEL_TYPES,
}
_NOT_SERVED: Final = (
    "glossary_id",
    "glossary_ids",
    "style_id",
    "translation_memory_id",
    "custom_instructions",
)
"""Fields that would change translations, if there were what they refer to."""


@dataclass(frozen=True)
class Asked:
    """What a request to translate asks for."""

    texts: list[str]
    source: str | None
    """DeepL's code of the source language; None: detected."""
    target: str
    """DeepL's code of the target language."""
    joins_lines: bool
    """Whether a sentence goes on after a line break."""
    dialect: Dialect | None
    """Language of the texts' tags, if they are not plain."""
    is_xml: bool
    """Whether the texts have to be well-formed XML."""
    has_billed_characters: bool
    """Whether the answer says how many characters each text has."""
    model_type: str | None
    """Type of the model, of which a server like this has only one."""


def read_translation(values: Values, most_characters: int) -> Asked:
    """Read the fields of a request to translate; unknown ones are ignored, as by DeepL.

    Raises:
        Refusal: A field is missing, has a value that DeepL does not know, or asks for what is not served.
    """
    for name, choices in _CHOICES.items():
        if name in values and values[name] not in choices:
            raise unsupported(name)
    if values.get("formality") in ("less", "more"):
        raise Refusal(400, "formality", "'formality' is not supported for given 'target_lang'.")
    for name in _NOT_SERVED:
        if name in values:
            raise Refusal(400, "not_served", f"'{name}' is not supported: this server only translates texts.")
    model_type = values.get("model_type")
    return Asked(
        _texts(values.get("text"), most_characters),
        _code(values, "source_lang"),
        _code(values, "target_lang") or "",
        values.get("split_sentences") == "nonewlines",
        _dialect(values),
        values.get("tag_handling") == "xml",
        values.get("show_billed_characters") in _ON,
        model_type.removeprefix("prefer_") if model_type else None,
    )


def unsupported(name: str) -> Refusal:
    """The refusal of a field's value."""
    return Refusal(400, "value", f"Value for '{name}' not supported.")


async def read_values(request: Request) -> Values:
    """Read the fields that have a value: of a JSON object or a form, and of the query.

    Raises:
        Refusal: The body is not what its content type says.
    """
    found = {name: _listed(name, request.query_params.getlist(name)) for name in request.query_params}
    if request.headers.get("Content-Type", "").partition(";")[0].strip().lower() == "application/json":
        found |= _json_object(await request.body())
    else:
        form = ImmutableMultiDict(await read_form(request))
        found |= {name: _listed(name, form.getlist(name)) for name in form}
    return {name: value for name, value in found.items() if value not in (None, "")}


def _listed(name: str, values: list[Any]) -> Any:
    return values if name == "text" else values[0]


def _json_object(body: bytes) -> dict[str, Any]:
    if not body:
        return {}
    try:
        return parse_object(body.decode(), MOST_FIELDS)
    except (UnicodeDecodeError, DataError):
        raise Refusal(400, "not_json", "Bad request. Reason: the body is not a JSON object.") from None


def _texts(value: Any, most_characters: int) -> list[str]:
    texts = [value] if isinstance(value, str) else value
    if not texts:
        raise Refusal(400, "no_text", "Parameter 'text' not specified.")
    if not isinstance(texts, list) or not all(isinstance(each, str) for each in texts):
        raise unsupported("text")
    if len(texts) > MOST_TEXTS:
        raise Refusal(413, "too_many_texts", f"Request size exceeds the limit of {MOST_TEXTS} texts.")
    if max(map(len, texts)) > most_characters:
        message = f"Request size exceeds the limit of {most_characters} characters per text."
        raise Refusal(413, "too_long", message)
    return texts


def _code(values: Values, name: Literal["source_lang", "target_lang"]) -> str | None:
    code = values.get(name)
    if code is not None and not isinstance(code, str):
        raise unsupported(name)
    return code


def _dialect(values: Values) -> Dialect | None:
    """The language of tags."""
    handling, ignored = values.get("tag_handling"), values.get("ignore_tags", [])
    names = ignored.split(",") if isinstance(ignored, str) else ignored
    if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
        raise unsupported("ignore_tags")
    dialects = {"html": HTML, "xml": XML}
    return dialects[handling].without(name.strip() for name in names) if handling else None
