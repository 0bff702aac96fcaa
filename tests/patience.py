"""How long a test waits for another program before it takes it for hanging."""

import asyncio
import subprocess
import time
from collections.abc import Callable

PATIENCE_SECONDS = 300.0
"""Far longer than anything takes on a slow and busy machine: it ends what hangs, and judges nothing."""


def wait_until(
    happened: Callable[[], object],
    said: Callable[[], object] = lambda: "",
    *,
    seconds: float = PATIENCE_SECONDS,
    pause_seconds: float = 0.001,
) -> float:
    """Return as soon as something has happened, with the seconds that it took; fail if it never does.

    Args:
        happened: Whether it has.
        said: What the test fails with.
        seconds: How long to wait. Only tests of the release tier, whose promise is a time, take another one.
        pause_seconds: Time between two looks.
    """
    began = time.monotonic()
    while not happened():
        assert time.monotonic() - began < seconds, said()
        time.sleep(pause_seconds)
    return time.monotonic() - began


async def wait_in_loop(happened: Callable[[], object]) -> None:
    """Let an event loop go on until something has happened in it; fail if it never does."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not happened():
            await asyncio.sleep(0.001)


def outputs_at_the_end(
    process: "subprocess.Popen[bytes]", seconds: float = PATIENCE_SECONDS
) -> tuple[bytes, bytes]:
    """What a program has written to stdout and stderr when it ends; killed, and a failure, if it does not."""
    try:
        return process.communicate(timeout=seconds)
    finally:
        process.kill()
