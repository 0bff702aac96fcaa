"""The forms of refusals: the server's own, and those of other protocols for their paths."""

from collections.abc import Callable, Mapping
from typing import Any

from starlette.responses import JSONResponse, Response

from allyouneed.serve.exchanges import current
from allyouneed.serve.refusal import Refusal

Form = Callable[[Refusal], Response]
"""Words a refusal as a response; may choose another status."""


def own_form(refusal: Refusal) -> Response:
    """The form of the server's own endpoints: `{"error": {"label": .., "message": .., "details"?: ..}}`."""
    error: dict[str, Any] = {"label": refusal.label, "message": refusal.message}
    if refusal.details:
        error["details"] = refusal.details
    return JSONResponse({"error": error}, refusal.status, refusal.headers)


class ErrorForms:
    """The form of each path.

    Args:
        by_prefix: Paths, each with the form of refusals of requests to it and to what is below it; the
            longest one counts. All other paths have the server's own form.
    """

    def __init__(self, by_prefix: Mapping[str, Form] | None = None) -> None:
        longest_first = sorted((by_prefix or {}).items(), key=lambda item: -len(item[0]))
        self._forms = [(prefix, prefix.rstrip("/") + "/", form) for prefix, form in longest_first]

    def response(self, path: str, refusal: Refusal) -> Response:
        """The response to a refused request."""
        current().error = refusal.label
        for prefix, folder, form in self._forms:
            if path == prefix or path.startswith(folder):
                response = form(refusal)
                for name, value in refusal.headers.items():
                    response.headers.setdefault(name, value)
                return response
        return own_form(refusal)
