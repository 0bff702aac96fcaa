"""A server whose languages are those that clients of LibreTranslate ask for."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from tests.patience import PATIENCE_SECONDS
from tests.serve.conftest import DECODING, running

from allyouneed.serve.access import ServerSettings
from allyouneed.serve.models import ModelSource, ServedModel, load_models
from allyouneed.serve.process import serving
from allyouneed.serve.protocols import libretranslate
from allyouneed.serve.protocols.protocol import ErrorForms, answer_errors
from allyouneed.tasks.translation.translator import Translator

Offline = Callable[[str], str]
Serve = Callable[[ServerSettings], AbstractContextManager[httpx.Client]]


@pytest.fixture(scope="session")
def spanish(toy_model: Path) -> list[ServedModel]:
    """A model under the names of several directions."""
    pairs = ("en", "es"), ("es", "en"), ("es", "pt_BR"), ("en", "de")
    return load_models([ModelSource(toy_model, pair) for pair in pairs], "cpu")


@pytest.fixture(scope="session")
def offline(spanish: list[ServedModel]) -> Offline:
    """Translates without a server."""
    translator = spanish[0].loaded
    assert isinstance(translator, Translator)
    return lambda text: translator.translate([text])[0].text


@pytest.fixture(scope="session")
def serve(spanish: list[ServedModel]) -> Serve:
    """Starts servers."""

    @contextmanager
    def start(settings: ServerSettings) -> Iterator[httpx.Client]:
        with serving(spanish, DECODING, settings) as service:
            app = FastAPI()
            app.include_router(libretranslate.routes(service))
            answer_errors(app, ErrorForms([libretranslate.PROTOCOL]))
            with running(app) as url, httpx.Client(base_url=url, timeout=PATIENCE_SECONDS) as client:
                yield client

    return start
