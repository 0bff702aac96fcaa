"""The server's log on standard error, as text or as JSON lines; it never has text of users."""

import json
import logging
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Literal

from allyouneed.errors import printable, say
from allyouneed.serve.exchanges import Exchange, current

LogFormat = Literal["text", "json"]
_PLAIN = re.compile(r"[!#-~]+")
"""Values that stand in a line of text as they are; others are quoted, so that none looks like two."""


class Log(logging.Handler):
    """Writes exchanges, and what uvicorn and the server say; if quiet, only warnings and errors."""

    def __init__(self, form: LogFormat, *, is_quiet: bool = False) -> None:
        super().__init__(logging.WARNING if is_quiet else logging.INFO)
        self._form, self._is_quiet = form, is_quiet
        self.num_exchanges = 0

    def attach(self) -> None:
        """Take the messages of uvicorn and the server, and no others' exceptions with their texts."""
        for name in ("uvicorn", "allyouneed.server"):
            logger = logging.getLogger(name)
            logger.handlers, logger.propagate = [self], False
            logger.setLevel(logging.WARNING)
        of_forms = logging.getLogger("python_multipart")  # its messages quote what clients send
        of_forms.handlers, of_forms.propagate = [logging.NullHandler()], False

    def emit(self, record: logging.LogRecord) -> None:
        """Write a message of Python's logging, and whose request it is about, without its exception."""
        exchange = current()
        about = {"client": getattr(record, "client", exchange.client), "id": exchange.id}
        about = {name: value for name, value in about.items() if value}
        self._write(record.levelname.lower(), {"message": record.getMessage(), **about})

    def tell(self, message: str) -> None:
        """Write what the server does."""
        if not self._is_quiet:
            self._write("info", {"message": message})

    def exchange(self, exchange: Exchange) -> None:
        """Write an answered request."""
        self.num_exchanges += 1
        if self._is_quiet:
            return
        fields = {
            "client": exchange.client,
            "method": exchange.method,
            "path": exchange.path,
            "status": exchange.status,
            "host": exchange.host,
            "protocol": exchange.protocol,
            "direction": ",".join(exchange.directions),
            "model": ",".join(exchange.models),
            "characters": exchange.num_admitted + exchange.num_pending,
            "error": exchange.error,
            "milliseconds": round(1000 * exchange.seconds, 1),
            "bytes": exchange.num_bytes,
            "id": exchange.id,
        }
        self._write("info", {name: None if value == "" else value for name, value in fields.items()})

    def _write(self, level: str, fields: Mapping[str, object]) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        if self._form == "json":
            say(json.dumps({"time": now, "level": level, **fields}))
        else:
            say(f"{now} {level} {_in_text(fields)}")


def _in_text(fields: Mapping[str, object]) -> str:
    """Fields in a line: a message as it is, the others as `name=value`, if they have a value."""
    message = [printable(str(fields["message"]))] if "message" in fields else []
    named = {name: str(value) for name, value in fields.items() if name != "message" and value is not None}
    quoted = {name: value if _PLAIN.fullmatch(value) else json.dumps(value) for name, value in named.items()}
    return " ".join([*message, *(f"{name}={value}" for name, value in quoted.items())])
