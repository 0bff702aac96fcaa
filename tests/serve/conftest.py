"""A service of tiny models, and a server of it on a free port of loopback."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from tests.cli.conftest import run_command  # noqa: F401 - a fixture of the commands
from tests.patience import PATIENCE_SECONDS, wait_until

from allyouneed.serve.access import ServerSettings
from allyouneed.serve.models import ModelSource, ServedModel, load_models
from allyouneed.serve.process import DecodingThreads, configured, serving
from allyouneed.serve.service import Service

DECODING = DecodingThreads(number=2, batch_tokens=8_192, device="cpu")
SETTINGS = ServerSettings(most_wait_seconds=PATIENCE_SECONDS, request_seconds=PATIENCE_SECONDS)

StartServer = Callable[..., str]


@pytest.fixture(scope="session")
def models(toy_model: Path, toy_parser: Path) -> list[ServedModel]:
    """From English to German, from German to French, and a parser."""
    sources = [
        ModelSource(toy_model, ("en", "de")),
        ModelSource(toy_model, ("de", "fr")),
        ModelSource(toy_parser),
    ]
    loaded = load_models(sources, "cpu")
    return [replace(model, name=name) for model, name in zip(loaded, ("ende", "defr", "trees"), strict=True)]


@pytest.fixture
def service(models: list[ServedModel]) -> Iterator[Service]:
    """A service that refuses nothing for want of time."""
    with serving(models, DECODING, SETTINGS) as service:
        yield service


@contextlib.contextmanager
def running(app: Any, settings: ServerSettings = SETTINGS) -> Iterator[str]:
    """Serve an application in a thread; yield its address."""
    config = configured(app, settings)
    config.port = 0
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until(lambda: server.started)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture
def start_server(models: list[ServedModel]) -> Iterator[StartServer]:
    """Start a server with some settings; the result is its address."""
    from allyouneed.serve.application import create_app

    with contextlib.ExitStack() as stack:

        def start(**changes: Any) -> str:
            settings = replace(SETTINGS, **changes)
            service = stack.enter_context(serving(models, DECODING, settings))
            return stack.enter_context(running(create_app(service, settings), settings))

        yield start


@pytest.fixture
def client(start_server: StartServer) -> Iterator[httpx.Client]:
    """A client of a server with the usual settings."""
    with httpx.Client(base_url=start_server(), timeout=PATIENCE_SECONDS) as client:
        yield client
