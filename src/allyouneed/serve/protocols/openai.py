"""The part of OpenAI's protocol that its clients need for chat (https://platform.openai.com/docs/api-reference).

The model is the name of a served model, or a direction such as "en-de". The last message of the user is
translated; all others are ignored, as a translation model follows no instructions but those that name
languages (`openai_instructions.py`). `n` is the number of translations, and `stop` cuts them.
"""

import json
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from allyouneed.config.run import SearchSettings
from allyouneed.serve.ask import Ask, Translated
from allyouneed.serve.directions import AUTO, Direction, closest
from allyouneed.serve.exchanges import current
from allyouneed.serve.protocols.openai_instructions import (
    Languages,
    languages_of,
    read_instruction,
)
from allyouneed.serve.protocols.openai_request import Completion, Wrong, read_completion
from allyouneed.serve.refusal import Refusal
from allyouneed.serve.server_settings import ServerSettings
from allyouneed.serve.service import Service
from allyouneed.tasks.translation.outputs import Translation

Answer = Callable[[Request], Awaitable[Response]]
_NANOSECONDS: Final = 10**9
_METHODS: Final = ["GET", "POST", "PUT", "PATCH", "DELETE"]
_CODES: Final = {
    "no_model": "model_not_found",
    "no_direction": "model_not_found",
    "queue_full": "rate_limit_exceeded",
    "too_long": "context_length_exceeded",
}
"""Labels of refusals that OpenAI names otherwise."""
_MOST_PARTS: Final = 8
"""Number of parts of the name of a direction: two languages, each with a script, a region and a variant."""
_DONE: Final = "data: [DONE]\n\n"


def routes(service: Service, settings: ServerSettings) -> APIRouter:
    """The endpoints."""
    endpoints, router = _Endpoints(service), APIRouter(prefix="/v1")
    for method, path, answer in (
        ("GET", "/models", endpoints.models),
        ("GET", "/models/{name:path}", endpoints.model),
        ("POST", "/chat/completions", endpoints.complete),
    ):
        router.add_api_route(path, _worded(answer), methods=[method], include_in_schema=False)
    router.add_api_route("/{path:path}", _worded(_unknown), methods=_METHODS, include_in_schema=False)
    return router


def worded(refusal: Refusal) -> JSONResponse:
    """A refusal in OpenAI's form."""
    status = 400 if refusal.status == 422 or refusal.label == "too_long" else refusal.status
    return JSONResponse(_error(refusal), status, refusal.headers)


ERROR_FORMS: Final = {"/v1": worded}
"""The form of refusals for the paths of this protocol, and for those below them."""


class _Endpoints:
    """The endpoints that need the service."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def models(self, _: Request) -> Response:
        """The models: all that translate, and all directions."""
        return JSONResponse({"object": "list", "data": [self._described(name) for name in self._asks()]})

    async def model(self, request: Request) -> Response:
        """One of them."""
        return JSONResponse(self._described(request.path_params["name"]))

    async def complete(self, request: Request) -> Response:
        """Translate the last message of the user."""
        asked = read_completion(await request.body())
        languages, text = read_instruction(asked.text)
        languages = languages or languages_of(asked.prompt, self._service.directions)
        ask = self._with_choices(self._directed(self._ask(asked.model), languages), asked.num_choices)
        if not asked.is_streamed:
            [found] = await self._service.translate([text], ask)
            return JSONResponse(_completion(asked, found))
        growing = self._service.stream(text, ask)
        first = await anext(growing)  # a refusal is still an answer with its status
        return StreamingResponse(_events(asked, first, growing), media_type="text/event-stream")

    def _asks(self) -> dict[str, Ask]:
        """What each name of a model or direction asks for; that of a model comes first."""
        directions = self._service.directions
        by_direction = {f"{each.source}-{each.target}": Ask(each.source, each.target) for each in directions}
        translators = [each for each in self._service.models.values() if each.source]  # no parsers
        by_name = {each.name: Ask(model=each.name) for each in translators}
        return by_name | {name: ask for name, ask in by_direction.items() if name not in by_name}

    def _ask(self, name: str) -> Ask:
        """What a name of a model asks for; the codes of a direction may name other variants."""
        if found := self._asks().get(name):
            return found
        parts = name.split("-", _MOST_PARTS)
        for number in range(1, len(parts)):
            source, target = "-".join(parts[:number]), "-".join(parts[number:])
            if fitting := closest(self._service.directions, source, target):
                return Ask(fitting[0].source, fitting[0].target)
        message = "The model does not exist; GET /v1/models lists the models and directions."
        raise Wrong("model", message, 404, "model_not_found")

    def _directed(self, ask: Ask, languages: Languages | None) -> Ask:
        """The same request in the direction that an instruction names, if it is not that of the model."""
        own = self._service.models[ask.model] if ask.model is not None else ask
        served = self._service.directions
        source, target = languages or (None, None)
        if closest([Direction(own.source or "", own.target or "", ())], source, target):
            return ask
        if fitting := closest(served, source or own.source, target):
            return Ask(fitting[0].source, fitting[0].target)
        if source is None and closest(served, None, target):
            return Ask(AUTO, target)
        message = "No model translates as the messages ask; GET /v1/models lists the directions."
        raise Wrong("messages", message, 404, "model_not_found")

    def _names_of_models(self, ask: Ask) -> tuple[str, ...]:
        """The models that may answer: all that translate to the target, if the source is to be detected."""
        if ask.model is not None:
            return (ask.model,)
        source = None if ask.source == AUTO else ask.source
        fitting = closest(self._service.directions, source, ask.target)
        return tuple(name for each in fitting for name in each.models)

    def _with_choices(self, ask: Ask, num_choices: int) -> Ask:
        """The same request for a number of translations, with a beam that has room for them."""
        models = [self._service.models[name].loaded for name in self._names_of_models(ask)]
        is_enough = all(model.config.search.beam_size >= num_choices for model in models)
        search = SearchSettings() if is_enough else SearchSettings(beam_size=num_choices)
        return Ask(ask.source, ask.target, ask.model, num_choices, search=search)

    def _described(self, name: str) -> dict[str, Any]:
        models = [self._service.models[each] for each in self._names_of_models(self._ask(name))]
        created = max(model.version.changed for model in models) // _NANOSECONDS
        return {"id": name, "object": "model", "created": created, "owned_by": "allyouneed"}


def _worded(answer: Answer) -> Answer:
    """An endpoint that words what another refuses."""

    async def send(request: Request) -> Response:
        try:
            return await answer(request)
        except Refusal as refusal:
            current().error = refusal.label or "request"
            return worded(refusal)

    return send


async def _unknown(request: Request) -> Response:
    raise Wrong(None, f"Invalid URL or method ({request.method}); chat completions are supported.", 404)


def _error(refusal: Refusal) -> dict[str, Any]:
    if isinstance(refusal, Wrong):
        code, param = refusal.label or None, refusal.param
    else:
        code, param = _CODES.get(refusal.label, refusal.label), None
        code = "invalid_api_key" if refusal.status == 401 else code
    kind = "server_error" if refusal.status >= 500 else "invalid_request_error"
    kind = "rate_limit_error" if refusal.status == 429 else kind
    return {"error": {"message": refusal.message, "type": kind, "param": param, "code": code}}


def _completion(asked: Completion, found: Translated) -> dict[str, Any]:
    choices: list[dict[str, Any]] = [
        {
            "index": number,
            "message": {"role": "assistant", "content": text, "refusal": None, "annotations": []},
            "logprobs": None,
            "finish_reason": reason,
        }
        for number, (text, reason) in enumerate(_ended(asked, each) for each in found.translations)
    ]
    return _frame(asked, "chat.completion") | {"choices": choices, "usage": _usage(found)}


async def _events(
    asked: Completion, first: str | Translated, growing: AsyncIterator[str | Translated]
) -> AsyncIterator[str]:
    """The chunks of a completion as server-sent events."""
    frame = _frame(asked, "chat.completion.chunk") | ({"usage": None} if asked.has_usage else {})
    yield _event(frame | _choice({"role": "assistant", "content": "", "refusal": None}))
    try:
        told: str | Translated = first
        sent = ""
        while isinstance(told, str):
            if len(certain := asked.certain(told)) > len(sent):
                yield _event(frame | _choice({"content": certain[len(sent) :]}))
                sent = certain
            told = await anext(growing)
        text, reason = _ended(asked, told.translations[0])
        if text[len(sent) :]:
            yield _event(frame | _choice({"content": text[len(sent) :]}))
    except Refusal as refusal:
        current().error = refusal.label
        yield _event(_error(refusal))
        return
    yield _event(frame | _choice({}, reason))
    if asked.has_usage:
        yield _event(frame | {"choices": [], "usage": _usage(told)})
    yield _DONE


def _frame(asked: Completion, kind: str) -> dict[str, Any]:
    identity = f"chatcmpl-{uuid.uuid4().hex}"
    return {"id": identity, "object": kind, "created": int(time.time()), "model": asked.model}


def _choice(delta: Mapping[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
    return {"choices": [choice]}


def _ended(asked: Completion, found: Translation) -> tuple[str, str]:
    """The text of a translation up to a stop sequence, and why it ends."""
    text, is_stopped = asked.cut(found.text)
    return text, "length" if found.is_cut and not is_stopped else "stop"


def _usage(found: Translated) -> dict[str, int]:
    read, written = found.num_tokens
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def _event(content: Mapping[str, Any]) -> str:
    return f"data: {json.dumps(content, ensure_ascii=False)}\n\n"
