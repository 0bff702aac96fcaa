"""What became of the lines of a command: failures and notices are told on standard error, line by line."""

from dataclasses import dataclass
from typing import TypeVar

from allyouneed.errors import MAX_REPORTED, SOME_FAILED_EXIT_CODE, DataError
from allyouneed.interfaces.console import notice, report
from allyouneed.tasks.requests import Answer, Failure

Result = TypeVar("Result")


@dataclass(frozen=True)
class Unread(Failure):
    """A line that cannot be read; the message of its error says where it stands."""


class Account:
    """Tells of what failed, and of what else is worth knowing, line by line.

    Args:
        name: Name of the input.
        place: Where a line stands, such as "standard input:{}", to be filled in with its number.
    """

    def __init__(self, name: str, place: str) -> None:
        self._name, self._place = name, place
        self._num_failed = self._num_noticed = 0

    def told(self, answer: Answer[Result] | Failure) -> Answer[Result] | Failure:
        """Tell of a failure, or of the first notices; a failure then says where its line stands."""
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
        """What the program ends with; says how much was left unsaid."""
        if self._num_noticed > MAX_REPORTED:
            notice(f"{self._name}: likewise {self._num_noticed - MAX_REPORTED:,} lines more")
        return SOME_FAILED_EXIT_CODE if self._num_failed else 0
