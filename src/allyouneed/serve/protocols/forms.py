"""Forms, as the clients of some protocols send them."""

import codecs
from typing import Any, Final
from urllib.parse import parse_qsl

from python_multipart.multipart import parse_options_header
from starlette.exceptions import HTTPException
from starlette.requests import Request

from allyouneed.serve.refusal import Refusal
from allyouneed.serve.server_settings import MOST_FIELDS

_CHARSETS: Final = frozenset({"utf-8", "ascii", "iso8859-1"})


async def read_form(request: Request) -> list[tuple[str, str]]:
    """The names and texts of a form's fields, in order; files are left out.

    Raises:
        Refusal: The body is not the form that its content type says (400), or in an unusual encoding (415).
    """
    kind, parameters = parse_options_header(request.headers.get("Content-Type", ""))
    charset = parameters.get(b"charset", b"utf-8").decode("latin-1")
    if not _is_known(charset):
        raise Refusal(415, "charset", "The form is in an encoding that is not supported; send UTF-8.")
    try:
        if kind == b"application/x-www-form-urlencoded":
            return _decoded((await request.body()).decode(charset), charset)
        async with request.form(max_files=1) as form:
            return [(name, value) for name, value in form.multi_items() if isinstance(value, str)]
    except (HTTPException, ValueError):
        raise Refusal(400, "not_a_form", "The form in the request cannot be read.") from None


def _decoded(form: str, charset: str) -> list[tuple[str, str]]:
    """The fields; Starlette would take bytes that are not escaped for Latin-1."""
    strict: dict[str, Any] = {"encoding": charset, "errors": "strict", "max_num_fields": MOST_FIELDS}
    return parse_qsl(form, keep_blank_values=True, **strict)


def _is_known(charset: str) -> bool:
    try:
        return codecs.lookup(charset).name in _CHARSETS
    except (LookupError, ValueError):
        return False
