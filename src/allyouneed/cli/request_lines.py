"""Requests read from lines of input, answers written as lines, and a log of those that failed."""

import json
import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from allyouneed.cli.console import report
from allyouneed.data.lines import Line
from allyouneed.data.strict_json import parse_object
from allyouneed.data.windows import read_windows
from allyouneed.errors import MAX_REPORTED, SOME_FAILED_EXIT_CODE, DataError, notice
from allyouneed.tasks.requests import Answer, Failure, TranslationRequest

if TYPE_CHECKING:
    from allyouneed.tasks.translation.outputs import Translation

    Answered = Answer[list[Translation]] | Failure


STANDARD_INPUT = "standard input"
_KEYS = ("text", "id", "target_prefix", "to", "from")


def input_windows() -> Iterator[list[Line]]:
    """The lines available on standard input, window by window."""
    if sys.stdin.isatty():
        notice("reading from the terminal: one sentence a line, end with Ctrl-D")
    return read_windows(sys.stdin.buffer, STANDARD_INPUT)


@dataclass(frozen=True)
class LineRequest:
    """The request on a line of input."""

    request: TranslationRequest | Failure
    """The request; its id is the line number, from 1."""
    echoed: Mapping[str, Any] = field(default_factory=dict)
    """Keys that the answer in JSON repeats."""


class PlainText:
    """One text per line, answered by a text, by a score and a text, or by `n_best` rows of a table.

    A row of the table has the line, rank, score and text; alignments are written after the text.
    """

    def __init__(self, n_best: int | None = None, scores: bool = False, alignments: bool = False) -> None:
        self._n_best, self._scores, self._alignments = n_best, scores or n_best is not None, alignments
        self.rows_per_line = n_best or 1

    def read(self, line: Line, prefix: str, to: str = "", source: str = "") -> LineRequest:
        """A request whose text is the line, with a prefix, and the languages to write and of the text."""
        if line.error is not None:
            return LineRequest(Unread(line.number, line.error))
        return LineRequest(TranslationRequest(line.number, line.text, prefix, to, source))

    def write(self, asked: LineRequest, answer: "Answered") -> list[str]:
        """The text, with its score, or in a table; empty for a failure."""
        found = [] if isinstance(answer, Failure) else answer.result
        rows = [self._row(each) for each in found[: self.rows_per_line]]
        if self._n_best is None:
            return rows or [""]
        rows += ["\t" * (1 + self._alignments)] * (self._n_best - len(rows))
        return [f"{answer.id}\t{rank}\t{row}" for rank, row in enumerate(rows, start=1)]

    def _row(self, found: "Translation") -> str:
        if not (self._scores or self._alignments):
            return found.text
        text = found.text.replace("\t", " ")
        columns = [repr(found.score), text] if self._scores else [text]
        if self._alignments:
            columns.append(" ".join(f"{source}-{target}" for source, target in found.alignment or ()))
        return "\t".join(columns)


class JsonLines:
    """An object per line, with the keys of `_KEYS`; answered by `{"id": .., "translations": ..}`."""

    rows_per_line = 1

    def read(self, line: Line, prefix: str, to: str = "", source: str = "") -> LineRequest:
        """A request with the object's text, id (any JSON), prefix and languages, else the given ones."""
        if line.error is not None:
            return LineRequest(Unread(line.number, line.error))
        echoed: dict[str, Any] = {}
        try:
            given = parse_object(line.text)
            echoed |= {"id": given["id"]} if "id" in given else {}
            _check_object(given)
        except DataError as error:
            placed = DataError(f"{STANDARD_INPUT}:{line.number}: {error.messages[0]}", label=error.label)
            return LineRequest(Unread(line.number, placed), echoed)
        text, prefix = given["text"], given.get("target_prefix", prefix)
        languages = given.get("to", to), given.get("from", source)
        request = TranslationRequest(line.number, text, prefix, *languages)
        return LineRequest(request, echoed)

    def write(self, asked: LineRequest, answer: "Answered") -> list[str]:
        """The translations, best first (none if none is possible), or the label and message of the error."""
        if isinstance(answer, Failure):
            error = {"label": answer.error.label, "message": answer.error.messages[0]}
            content: dict[str, Any] = {**asked.echoed, "error": error}
        else:
            possible = [asdict(found) for found in answer.result if math.isfinite(found.score)]
            found = [
                {key: value for key, value in each.items() if value is not None and key != "links"}
                for each in possible
            ]
            content = {**asked.echoed, "translations": found}
        return [json.dumps(content, ensure_ascii=False, allow_nan=False)]


def _check_object(given: Mapping[str, Any]) -> None:
    if not isinstance(given.get("text"), str):
        raise DataError('"text" is missing or not a string', label="E-JSON")
    if unknown := [key for key in given if key not in _KEYS]:
        raise DataError(f"unknown key {unknown[0]!r}; the keys are {', '.join(_KEYS)}", label="E-JSON")
    for key in ("target_prefix", "to", "from"):
        if not isinstance(given.get(key, ""), str):
            raise DataError(f'"{key}" is not a string', label="E-JSON")


Format = PlainText | JsonLines


Result = TypeVar("Result")


@dataclass(frozen=True)
class Unread(Failure):
    """A line that cannot be read; the message of its error names the place."""


class FailureLog:
    """Reports failures and notices as they come, and counts them.

    `place` is the format of a line's place in the input `name`, such as "standard input:{}".
    """

    def __init__(self, name: str, place: str) -> None:
        self._name, self._place = name, place
        self._num_failed = self._num_noticed = 0

    def record(self, answer: Answer[Result] | Failure) -> Answer[Result] | Failure:
        """Report a failure, or the first notices. A returned failure names the place of its line."""
        place = self._place.format(answer.id)
        if isinstance(answer, Answer):
            for message in answer.notices:
                self._num_noticed += 1
                if self._num_noticed <= MAX_REPORTED:
                    notice(f"{place}: {message}")
            return answer
        self._num_failed += 1
        error = answer.error
        if not isinstance(answer, Unread):
            error = DataError(f"{place}: {error.messages[0]}", label=error.label)
        report(error)
        return Failure(answer.id, error)

    def exit_code(self) -> int:
        """The exit code of the program; first reports the number of notices that were not printed."""
        if self._num_noticed > MAX_REPORTED:
            notice(f"{self._name}: ... and {self._num_noticed - MAX_REPORTED:,} more notices")
        return SOME_FAILED_EXIT_CODE if self._num_failed else 0
