"""The description of LibreTranslate's endpoints in Swagger 2.0, for clients that ask for `/spec`."""

from typing import Any, Final

_TEXT: Final = {"type": "string"}
_TEXTS: Final = {"type": "array", "items": _TEXT}
_LANGUAGE: Final = {"type": "object", "properties": {"code": _TEXT, "name": _TEXT, "targets": _TEXTS}}
_DETECTION: Final = {"type": "object", "properties": {"confidence": {"type": "number"}, "language": _TEXT}}
_TRANSLATION: Final = {
    "type": "object",
    "required": ["translatedText"],
    "properties": {
        "translatedText": {"description": "A string, or a list if q is one."},
        "detectedLanguage": _DETECTION,
        "alternatives": {"type": "array", "description": "Strings, or lists of them if q is a list."},
    },
}
_ERROR: Final = {"type": "object", "required": ["error"], "properties": {"error": _TEXT}}


def _endpoint(answer: dict[str, Any], **fields: str) -> dict[str, Any]:
    """An endpoint from the schema of its answer and the descriptions of its form's fields."""
    refused = {str(status): {"description": "refused", "schema": _ERROR} for status in (400, 403, 429)}
    return {
        "consumes": ["application/json", "application/x-www-form-urlencoded", "multipart/form-data"],
        "parameters": [
            {"in": "formData", "name": name, "type": "string", "description": description}
            for name, description in fields.items()
        ],
        "responses": {"200": {"description": "answered", "schema": answer}, **(refused if fields else {})},
    }


_KEY: Final = "The server's token, if it needs one."
SPECIFICATION: Final[dict[str, Any]] = {
    "swagger": "2.0",
    "info": {"title": "allyouneed: LibreTranslate's protocol", "version": "1.9"},
    "basePath": "/",
    "produces": ["application/json"],
    "paths": {
        "/translate": {
            "post": _endpoint(
                _TRANSLATION,
                q="A text; in JSON also a list of texts.",
                source='Code of the source language, or "auto".',
                target="Code of the target language.",
                format='"text" or "html", where what is between tags is translated.',
                alternatives="Number of further translations.",
                api_key=_KEY,
            )
        },
        "/detect": {
            "post": _endpoint({"type": "array", "items": _DETECTION}, q="A text.", api_key=_KEY),
        },
        "/languages": {"get": _endpoint({"type": "array", "items": _LANGUAGE})},
        "/frontend/settings": {"get": _endpoint({"type": "object"})},
        "/health": {"get": _endpoint({"type": "object", "properties": {"status": _TEXT}})},
    },
}
