"""The fields of LibreTranslate's requests, and its refusals of those that are wrong."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from starlette.requests import Request

from allyouneed.data.strict_json import parse_object
from allyouneed.errors import DataError
from allyouneed.serve.protocols.forms import read_form
from allyouneed.serve.refusal import Refusal
from allyouneed.serve.server_settings import MOST_BEAMS, MOST_FIELDS, MOST_TEXTS

_JSON: Final = "application/json"


@dataclass(frozen=True)
class Fields:
    """The fields of a request: of its JSON object, or of its query and form."""

    values: Mapping[str, Any]
    are_json: bool

    def texts(self) -> str | list[str]:
        """Return `q`, in a form with line feeds as line ends.

        Raises:
            Refusal: It is missing, or not text.
        """
        text = self.values.get("q")
        if not text:
            raise missing("q")
        texts = text if isinstance(text, list) else [text]
        if not all(isinstance(each, str) for each in texts):
            raise invalid("q parameter is not a text or a list of texts")
        if not self.are_json:
            texts = [each.replace("\r\n", "\n").replace("\r", "\n") for each in texts]
        return texts if isinstance(text, list) else texts[0]

    def language(self, name: Literal["source", "target"]) -> str:
        """Return a language code.

        Raises:
            Refusal: It is missing.
        """
        code = self.values.get(name)
        if not code:
            raise missing(name)
        return str(code)

    def num_alternatives(self) -> int:
        """Return the number of translations wanted besides the best one.

        Raises:
            Refusal: It is not a number, or too large.
        """
        most = MOST_BEAMS - 1
        try:
            number = max(0, int(self.values.get("alternatives", 0)))
        except (TypeError, ValueError):
            raise invalid("alternatives parameter is not a number") from None
        if number > most:
            raise invalid(f"alternatives parameter must be <= {most}")
        return number

    def is_html(self) -> bool:
        """Whether the format is HTML.

        Raises:
            Refusal: The format is unknown.
        """
        text_format = self.values.get("format") or "text"
        if text_format not in ("text", "html"):
            raise Refusal(400, "unknown_format", f"{text_format} format is not supported")
        return bool(text_format == "html")


def require_sizes(texts: str | list[str], most_characters: int) -> None:
    """Check the number of texts and their lengths.

    Raises:
        Refusal: There are too many, or one is too long.
    """
    each = [texts] if isinstance(texts, str) else texts
    for size, limit in ((len(each), MOST_TEXTS), (max(map(len, each)), most_characters)):
        if size > limit:
            raise invalid(f"request ({size}) exceeds text limit ({limit})")


def missing(name: str) -> Refusal:
    """The refusal of a request without a field."""
    return invalid(f"missing {name} parameter")


def invalid(reason: str) -> Refusal:
    """The refusal of a request with a wrong field."""
    return Refusal(400, "invalid_request", f"Invalid request: {reason}")


async def read_fields(request: Request) -> Fields:
    """Read the fields of a request: a JSON object, or the query and a form, of which the query comes first.

    Several `q` make a list; of other equal fields, the first one counts.

    Raises:
        Refusal: The body is not what its content type says.
    """
    kind = request.headers.get("Content-Type", "").split(";")[0].strip().lower()
    if kind == _JSON or (kind.startswith("application/") and kind.endswith("+json")):
        return Fields(_json_object(await request.body()), are_json=True)
    form, query = await read_form(request), request.query_params.multi_items()
    texts = [value for name, value in query if name == "q"] or [value for name, value in form if name == "q"]
    values: dict[str, Any] = dict(reversed(query + form))
    return Fields(values | ({"q": texts} if len(texts) > 1 else {}), are_json=False)


def _json_object(body: bytes) -> dict[str, Any]:
    try:
        return parse_object(body.decode(), MOST_FIELDS)
    except UnicodeDecodeError as error:
        reason = f"byte {error.start + 1} is not UTF-8"
    except DataError as error:
        reason = error.messages[0].partition("(")[2].partition(");")[0]
    raise Refusal(400, "not_json", "Invalid JSON format" + (f": {reason}" if reason else ""))
