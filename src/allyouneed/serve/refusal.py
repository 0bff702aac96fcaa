"""Requests that are not answered: the reason as a value, which each protocol words in its own form."""

from collections.abc import Mapping, Sequence
from typing import Any


class Refusal(Exception):  # noqa: N818 - not always an error
    """A request that is refused or has failed.

    Args:
        status: HTTP status code.
        label: Short name of the reason for programs, such as "queue_full".
        message: What is wrong and what to do, in one line; never quotes text of the user.
        headers: Headers of the response, such as `Retry-After`.
        details: What is wrong with each field, if the request's values are.
    """

    def __init__(
        self,
        status: int,
        label: str,
        message: str,
        headers: Mapping[str, str] | None = None,
        details: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        super().__init__(message)
        self.status, self.label, self.message = status, label, message
        self.headers = dict(headers or {})
        self.details = tuple(details)
