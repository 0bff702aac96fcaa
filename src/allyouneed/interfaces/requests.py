"""What a line of input asks for, and the answer to it as lines of output: plain text, tables or JSON."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol

from allyouneed.data.strict_json import parse_object
from allyouneed.errors import DataError

if TYPE_CHECKING:
    from allyouneed.tasks.translation.outputs import Translation

_KEYS = ("text", "id", "target_prefix")


@dataclass
class Request:
    """A text to be translated; that of a line which cannot be is empty."""

    number: int
    """Of its line, from 1."""
    text: str = ""
    prefix: str = ""
    """What its translation begins with."""
    echoed: dict[str, Any] | None = None
    """What an answer in JSON begins with."""
    error: DataError | None = None
    """Why the line cannot be translated."""


class Format(Protocol):
    """How requests and answers are written."""

    rows_per_line: int

    def read(self, request: Request, line: str) -> None:
        """Take from a line what it asks for; a DataError says that it cannot be understood."""

    def write(self, request: Request, translations: Sequence["Translation"]) -> list[str]:
        """The `rows_per_line` lines that answer a request."""


class PlainText:
    """A text a line; answered by the text, by score and text, or by a table of the best.

    Args:
        n_best: Rows of a table, if one is wanted: line, rank, score, text.
        scores: Whether the score stands before the text.
        alignments: Whether the alignment stands behind it.
    """

    def __init__(self, n_best: int | None = None, scores: bool = False, alignments: bool = False) -> None:
        self._n_best, self._scores, self._alignments = n_best, scores or n_best is not None, alignments
        self.rows_per_line = n_best or 1

    def read(self, request: Request, line: str) -> None:
        """The line is the text."""
        request.text = line

    def write(self, request: Request, translations: Sequence["Translation"]) -> list[str]:
        """The text, with score or in a table; what failed is empty, in a table after the rank."""
        answers = () if request.error else translations[: self.rows_per_line]
        rows = [self._row(found) for found in answers]
        if self._n_best is None:
            return rows or [""]
        rows += ["\t" * (1 + self._alignments)] * (self._n_best - len(rows))
        return [f"{request.number}\t{rank}\t{row}" for rank, row in enumerate(rows, start=1)]

    def _row(self, found: "Translation") -> str:
        if not (self._scores or self._alignments):
            return found.text
        text = found.text.replace("\t", " ")
        columns = [repr(found.score), text] if self._scores else [text]
        if self._alignments:
            columns.append(" ".join(f"{source}-{target}" for source, target in found.alignment or ()))
        return "\t".join(columns)


class JsonLines:
    """An object a line, with text, id and target_prefix; answered by `{"id": .., "translations": [..]}`."""

    rows_per_line = 1

    def read(self, request: Request, line: str) -> None:
        """Take text, prefix and id, which is any JSON; what would have no effect is refused."""
        given = parse_object(line)
        request.echoed = {"id": given["id"]} if "id" in given else {}
        if not isinstance(given.get("text"), str):
            raise DataError('"text" is wanted, a string', label="E-JSON")
        if unknown := [key for key in given if key not in _KEYS]:
            raise DataError(f"unknown key {unknown[0]!r}; known are {', '.join(_KEYS)}", label="E-JSON")
        if not isinstance(given.get("target_prefix", ""), str):
            raise DataError('"target_prefix" has to be a string', label="E-JSON")
        request.text, request.prefix = given["text"], given.get("target_prefix", request.prefix)

    def write(self, request: Request, translations: Sequence["Translation"]) -> list[str]:
        """The translations, best first, none where none is allowed; or the error, label and message."""
        answer = request.echoed or {}
        if request.error is None:
            possible = [found for found in translations if math.isfinite(found.score)]
            answer |= {"translations": [_without_nothing(asdict(found)) for found in possible]}
        else:
            answer |= {"error": {"label": request.error.label, "message": request.error.messages[0]}}
        return [json.dumps(answer, ensure_ascii=False, allow_nan=False)]


def _without_nothing(found: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in found.items() if value is not None}
