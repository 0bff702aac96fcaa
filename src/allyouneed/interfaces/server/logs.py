"""The server's log on standard error, as text or as JSON lines; it never has text of users."""

import json
import logging
from datetime import UTC, datetime
from typing import Literal

from allyouneed.errors import printable, say
from allyouneed.interfaces.console import notice
from allyouneed.interfaces.server.observation import Exchange

LogFormat = Literal["text", "json"]


class Log(logging.Handler):
    """Writes exchanges, and what uvicorn and the server say.

    Args:
        form: Format of the lines.
        is_quiet: Whether only warnings and errors are written.
    """

    def __init__(self, form: LogFormat, *, is_quiet: bool = False) -> None:
        super().__init__(logging.WARNING if is_quiet else logging.INFO)
        self._form, self._is_quiet = form, is_quiet

    def attach(self) -> None:
        """Take the messages of uvicorn and the server, and no others' exceptions with their texts."""
        for name in ("uvicorn", "allyouneed.server"):
            logger = logging.getLogger(name)
            logger.handlers, logger.propagate = [self], False
            logger.setLevel(logging.WARNING)
        of_forms = logging.getLogger("python_multipart")  # its messages quote what clients send
        of_forms.handlers, of_forms.propagate = [logging.NullHandler()], False

    def emit(self, record: logging.LogRecord) -> None:
        """Write a message of Python's logging, without the exception that it may have."""
        self._write(record.levelname.lower(), {"message": record.getMessage()}, record.getMessage())

    def tell(self, message: str) -> None:
        """Write what the server does: in text as commands do, without a time."""
        if self._form == "text":
            notice(message)
        elif not self._is_quiet:
            self._write("info", {"message": message}, message)

    def exchange(self, exchange: Exchange) -> None:
        """Write an answered request."""
        if self._is_quiet:
            return
        fields = {
            "method": exchange.method,
            "path": exchange.path,
            "status": exchange.status,
            "milliseconds": round(1000 * exchange.seconds, 1),
            "bytes": exchange.num_bytes,
            "id": exchange.id,
        }
        text = (
            f"{exchange.method} {exchange.path} {exchange.status} {fields['milliseconds']} ms "
            f"{exchange.num_bytes} bytes {exchange.id}"
        )
        self._write("info", fields, text)

    def _write(self, level: str, fields: dict[str, object], text: str) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        if self._form == "json":
            say(json.dumps({"time": now, "level": level, **fields}))
        else:
            say(f"{now} {level} {printable(text)}")
