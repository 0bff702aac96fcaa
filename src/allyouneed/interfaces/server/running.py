"""Runs the server: loads the models, decodes in threads of this process, and replaces models that change."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

import torch

from allyouneed.errors import UserError
from allyouneed.hardware.memory import give_back_freed_memory
from allyouneed.interfaces.console import notice, talk
from allyouneed.interfaces.server.application import create_app
from allyouneed.interfaces.server.decoding import Decoding, serving
from allyouneed.interfaces.server.logs import Log, LogFormat
from allyouneed.interfaces.server.models import ModelSource, load_models, newer
from allyouneed.interfaces.server.process import serve
from allyouneed.interfaces.server.service import Service
from allyouneed.interfaces.server.settings import ServerSettings

_SECONDS_BETWEEN_LOOKS = 2.0


def run(
    sources: Sequence[ModelSource], decoding: Decoding, settings: ServerSettings, log_format: LogFormat
) -> int:
    """Serve models until the process is told to stop; return the exit code.

    Raises:
        UserError: A model cannot be loaded, or the address is not available.
    """
    give_back_freed_memory()
    models = load_models(sources, decoding.precision, decoding.device)
    log = Log(log_format, is_quiet=talk.quiet)
    log.attach()
    with serving(models, decoding, settings) as service:
        app = create_app(
            service,
            settings,
            observers=[log.exchange],
            lifespan=lambda _: _replacing(service, decoding.device),
        )
        return serve(app, settings, stop=service.stop, is_idle=lambda: not service.num_queued_tokens)


@contextlib.asynccontextmanager
async def _replacing(service: Service, device: torch.device) -> AsyncIterator[None]:
    """Look for models that have been replaced while the application runs."""
    looking = asyncio.create_task(_look_for_newer(service, device))
    try:
        yield
    finally:
        looking.cancel()


async def _look_for_newer(service: Service, device: torch.device) -> None:
    while True:
        await asyncio.sleep(_SECONDS_BETWEEN_LOOKS)
        for model in list(service.models.values()):
            try:
                replacement = await asyncio.to_thread(newer, model, device)
            except (UserError, OSError) as error:
                notice(f"{model.path}: not loaded, the former model still serves: {error}")
                continue
            if replacement is not None:
                service.replace(replacement)
                notice(f"{model.path}: replaced, loaded and verified")
