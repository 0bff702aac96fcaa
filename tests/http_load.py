"""A load of HTTP requests from many connections, made with little processor time (asyncio and no library)."""

import asyncio
import json
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Reply:
    """An answer, and how long it took."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    seconds: float

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


class Connection:
    """A kept connection to a server.

    Args:
        port: Port on 127.0.0.1.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, path: str, content: Any) -> Reply:
        """Send JSON; connect first if there is no connection."""
        body = json.dumps(content).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        return await self._exchange(head.encode() + body)

    async def get(self, path: str) -> Reply:
        """Get a path."""
        return await self._exchange(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\n\r\n".encode())

    async def send_and_leave(self, path: str, content: Any, after_seconds: float) -> None:
        """Send JSON and close the connection without reading the answer."""
        asking = asyncio.ensure_future(self.post(path, content))
        await asyncio.wait([asking], timeout=after_seconds)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        self.close()

    def close(self) -> None:
        """Close the connection."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def _exchange(self, request: bytes) -> Reply:
        began = time.perf_counter()
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        try:
            writer.write(request)
            lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {
                name.lower(): value.strip()
                for name, _, value in (line.partition(":") for line in lines[1:-2])
            }
            body = await reader.readexactly(int(headers["content-length"]))
        except BaseException:
            self.close()
            raise
        if headers.get("connection") == "close":
            self.close()
        return Reply(int(lines[0].split()[1]), headers, body, time.perf_counter() - began)


@dataclass
class Tally:
    """What became of the requests of a load."""

    answered: list[float] = field(default_factory=list)
    """Seconds of each answer."""
    refused: list[float] = field(default_factory=list)
    """Seconds of each refusal (429 or 503)."""
    left: int = 0
    """Number of requests whose client left."""
    wrong: list[str] = field(default_factory=list)
    """What was neither the expected answer nor a refusal."""
    num_texts: int = 0
    """Number of texts that were answered."""

    @staticmethod
    def percentile(seconds: list[float], share: float) -> float:
        """The time within which a share of the requests was answered; 0 without requests."""
        ordered = sorted(seconds)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


async def load(
    port: int,
    path: str,
    num_clients: int,
    seconds: float,
    next_request: Callable[[], tuple[Any, Callable[[Any], str | None], int]],
    *,
    leaving_share: float = 0.0,
    ramp_seconds: float = 0.0,
    tally: Tally | None = None,
) -> Tally:
    """Let clients ask again and again, each after its last answer, for some seconds.

    A client that is refused waits as long as the server says.

    Args:
        port: Port of the server on 127.0.0.1.
        path: Path of the requests.
        num_clients: Number of clients, each with a connection of its own.
        seconds: Time after which no more requests are sent.
        next_request: Makes a request's content, a check of the JSON of its answer (what is wrong, or None),
            and its number of texts.
        leaving_share: Share of the requests whose client leaves before the answer.
        ramp_seconds: Time within which the clients arrive.
        tally: Counts to add to.
    """
    counts = Tally() if tally is None else tally
    end = time.perf_counter() + seconds
    draw = random.Random(1)

    async def client() -> None:
        connection = Connection(port)
        await asyncio.sleep(draw.random() * ramp_seconds)
        while time.perf_counter() < end:
            content, fault, num_texts = next_request()
            if draw.random() < leaving_share:
                await connection.send_and_leave(path, content, draw.random() * 0.3)
                counts.left += 1
                continue
            reply = await connection.post(path, content)
            if reply.status in (429, 503):
                counts.refused.append(reply.seconds)
                connection.close()  # the server would, in the meantime
                await asyncio.sleep(float(reply.headers.get("retry-after", "1")))
                continue
            counts.answered.append(reply.seconds)
            wrong = f"status {reply.status}" if reply.status != 200 else fault(reply.json())
            if wrong:
                counts.wrong.append(wrong)
            else:
                counts.num_texts += num_texts
        connection.close()

    await asyncio.gather(*(client() for _ in range(num_clients)))
    return counts
