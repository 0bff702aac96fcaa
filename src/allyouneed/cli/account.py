"""An account of failed lines: reports failures and notices on standard error, line by line."""

from dataclasses import dataclass
from typing import TypeVar

from allyouneed.cli.console import report
from allyouneed.errors import MAX_REPORTED, SOME_FAILED_EXIT_CODE, DataError, notice
from allyouneed.tasks.requests import Answer, Failure

Result = TypeVar("Result")


@dataclass(frozen=True)
class Unread(Failure):
    """A line that cannot be read; the message of its error names the place."""


class Account:
    """Reports failures and notices as they come, and counts them.

    Args:
        name: Name of the input.
        place: Format of a line's place, such as "standard input:{}", given its number.
    """

    def __init__(self, name: str, place: str) -> None:
        self._name, self._place = name, place
        self._num_failed = self._num_noticed = 0

    def told(self, answer: Answer[Result] | Failure) -> Answer[Result] | Failure:
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
