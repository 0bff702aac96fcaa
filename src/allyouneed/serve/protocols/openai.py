"""The part of OpenAI's protocol that its clients need for chat (https://platform.openai.com/docs/api-reference).

Of instructions, only the languages are followed. The user's text may begin with one, such as "Translate to
German:", which ends in a colon and is not translated. Otherwise the system's messages count: they are never
translated, and choose the languages if they speak of translating and name one target, as in "from English to
German", "English-German", "into German", or `en-de`.
"""

import json
import re
import time
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NoReturn

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from allyouneed.data.language_names import NAMED, language_code
from allyouneed.serve.directions import AUTO, Direction, closest
from allyouneed.serve.models import ServedModel
from allyouneed.serve.protocols.protocol import Answer, Protocol, read_object, router_of, streamed
from allyouneed.serve.refusals import Refusal
from allyouneed.serve.request_options import MOST_BEAMS, RequestOptions, Translated
from allyouneed.serve.service import Service
from allyouneed.tasks.translation.outputs import Translation

_DEMANDING: Final[Mapping[str, tuple[Any, ...]]] = {
    "audio": (),
    "function_call": ("none", "auto"),
    "functions": ([],),
    "logprobs": (False,),
    "modalities": (["text"],),
    "response_format": ({"type": "text"},),
    "tool_choice": ("none", "auto"),
    "tools": ([],),
    "top_logprobs": (0,),
}
"""Settings that ask for what a translator does not do, with the values that do not."""
_MOST_STOPS: Final = 4


class Wrong(Refusal):
    """A refused field; its label is OpenAI's name for the reason, if it has one."""

    def __init__(self, param: str | None, message: str, status: int = 400, label: str = "") -> None:
        super().__init__(status, label, message)
        self.param = param


@dataclass(frozen=True)
class Completion:
    """A request for a chat completion."""

    model: str
    text: str
    """The last message of the user."""
    prompt: str
    """The messages of the system."""
    num_choices: int
    is_streamed: bool
    has_usage: bool
    """Whether a stream ends with the usage."""
    stops: tuple[str, ...]
    """Sequences before the first of which a translation is cut."""

    def cut(self, text: str) -> tuple[str, bool]:
        """Cut a translation at the stop sequence that is complete first; return whether there is one."""
        found = [(start + len(stop), start) for stop in self.stops if (start := text.find(stop)) >= 0]
        return (text[: min(found)[1]], True) if found else (text, False)

    def certain(self, text: str) -> str:
        """The part of an unfinished translation to show: its last characters may begin a stop."""
        shown, is_cut = self.cut(text)
        kept = 0 if is_cut else max(map(len, self.stops), default=1) - 1
        return shown[: max(0, len(shown) - kept)]


def read_completion(given: Mapping[str, Any]) -> Completion:
    """Read a request for a chat completion; fields that have no use for a search are ignored.

    Raises:
        Wrong: A field is missing or has a value that is not supported.
    """
    fields = {name: value for name, value in given.items() if value is not None}
    for name, harmless in _DEMANDING.items():
        if name in fields and fields[name] not in harmless:
            raise Wrong(name, f"'{name}' is not supported with this model.", label="unsupported_parameter")
    is_streamed = _boolean(fields, "stream")
    if not (model := fields.get("model")):
        raise Wrong(None, "you must provide a model parameter")
    if not isinstance(model, str):
        raise _wrong_type("model", "a string")
    return Completion(
        model,
        *_text_and_prompt(fields.get("messages")),
        _num_choices(fields.get("n", 1), is_streamed),
        is_streamed,
        _has_usage(fields.get("stream_options"), is_streamed),
        _stops(fields.get("stop", [])),
    )


def _wrong_type(param: str, expected: str) -> Wrong:
    return Wrong(param, f"Invalid type for '{param}': expected {expected}.", label="invalid_type")


def _text_and_prompt(messages: Any) -> tuple[str, str]:
    """The last message whose role is the user's, and those of the system, or developer as since 2024."""
    if messages is None:
        message = "Missing required parameter: 'messages'."
        raise Wrong("messages", message, label="missing_required_parameter")
    if not isinstance(messages, list) or not all(isinstance(each, dict) for each in messages):
        raise _wrong_type("messages", "an array of objects")
    of_user = [number for number, each in enumerate(messages) if each.get("role") == "user"]
    if not of_user:
        raise Wrong("messages", "'messages' has no message of the role 'user'; its last one is translated.")
    text = _text(messages[of_user[-1]].get("content"), f"messages[{of_user[-1]}].content")
    contents = [each.get("content") for each in messages if each.get("role") in ("system", "developer")]
    parts = [part for each in contents for part in (each if isinstance(each, list) else [each])]
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    return text, "\n".join(text for text in texts if isinstance(text, str))


def _text(content: Any, param: str) -> str:
    """The text of a message: a string, or parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise _wrong_type(param, "a string or an array of text parts")
    parts = [part for part in content if isinstance(part, dict) and part.get("type") == "text"]
    texts = [part["text"] for part in parts if isinstance(part.get("text"), str)]
    if len(texts) < len(content):
        raise Wrong(param, f"'{param}' has parts that are not text.", label="invalid_value")
    return "".join(texts)


def _num_choices(n: Any, is_streamed: bool) -> int:
    most = 1 if is_streamed else MOST_BEAMS
    if type(n) is not int:
        raise _wrong_type("n", "an integer")
    if not 1 <= n <= most:
        how = "a stream has one choice" if is_streamed else f"expected 1 to {most}"
        raise Wrong("n", f"Invalid value for 'n': {how}.", label="invalid_value")
    return n


def _has_usage(options: Any, is_streamed: bool) -> bool:
    if options is None:
        return False
    if not isinstance(options, dict) or not is_streamed:
        message = "'stream_options' is an object, and only allowed when 'stream' is true."
        raise Wrong("stream_options", message)
    return _boolean(options, "include_usage")


def _stops(value: Any) -> tuple[str, ...]:
    stops = [value] if isinstance(value, str) else value
    if not isinstance(stops, list) or not all(isinstance(each, str) for each in stops):
        raise _wrong_type("stop", "a string or an array of strings")
    if len(stops) > _MOST_STOPS:
        message = f"Invalid 'stop': expected at most {_MOST_STOPS} strings."
        raise Wrong("stop", message, label="array_above_max_length")
    return tuple(filter(None, stops))


def _boolean(fields: Mapping[str, Any], name: str) -> bool:
    value = fields.get(name, False)
    if not isinstance(value, bool):
        raise _wrong_type(name, "a boolean")
    return value


LanguagePair = tuple[str | None, str]
"""Codes of the source language, if it is named, and of the target language."""

_MOST_PROMPT_CHARACTERS: Final = 4_000
"""Number of characters of the system's messages that are looked at: all of a long one would take seconds."""
_NAME: Final = rf"\b(?:{'|'.join(sorted(NAMED, key=len, reverse=True)).replace(' ', '[ ]')})\b"
_LANGUAGE: Final = rf"(?:{_NAME}|\b[a-z]{{2,3}}(?:[-_][a-z0-9]{{2,8}})*\b)"
_PREFIX: Final = re.compile(
    rf"""\s*(?:please\s+)?translate\b(?P<before>[^:.!?\n]{{0,80}}?)
    \b(?:in)?to\s+(?P<target>{_LANGUAGE})(?:\s+language\b)?
    (?:\s+from\s+(?P<source>{_LANGUAGE}))?
    (?:\s+(?:\(|the\b|this\b|these\b)[^:.!?\n]{{0,40}})?
    (?:\s*,\s*please)?\s*:\s*(?P<text>\S.*)""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
_FROM: Final = re.compile(rf"\bfrom\s+({_LANGUAGE})\s*$|({_NAME})", re.IGNORECASE)
_NAMING: Final = re.compile(
    rf"(?:({_NAME})(?:\s+text)?[\s-]+)?\b(?:in)?to[\s-]+({_NAME})"
    rf"|({_NAME})\s*(?:-|–|→|->)\s*({_NAME})|\bfrom\s+({_NAME})",
    re.IGNORECASE,
)


def read_instruction(text: str) -> tuple[LanguagePair | None, str]:
    """The languages of the instruction that a text begins with, and the rest; None and the text without."""
    found = _PREFIX.fullmatch(text)
    target = found and language_code(found["target"])
    if not found or not target:
        return None, text
    sources = {found["source"]} if found["source"] else {a or b for a, b in _FROM.findall(found["before"])}
    source = language_code(sources.pop()) if len(sources) == 1 else None
    return (source, target), found["text"]


def languages_of(prompt: str, directions: Sequence[Direction]) -> LanguagePair | None:
    """The languages that the system's messages name; None if they name none, or several.

    The messages may also name one of the directions that are served, as in "en-de".
    """
    prompt = prompt[:_MOST_PROMPT_CHARACTERS]
    if "translat" not in prompt.lower():
        return None
    words = set(re.findall(r"[\w-]+", prompt))
    named = [each for each in directions if f"{each.source}-{each.target}" in words]
    sources, targets = {each.source for each in named}, {each.target for each in named}
    for before, to, one, other, origin in _NAMING.findall(prompt):
        sources |= {NAMED[name.lower()] for name in (before, one, origin) if name}
        targets |= {NAMED[name.lower()] for name in (to, other) if name}
    if len(targets) != 1 or len(sources) > 1:
        return None
    return next(iter(sources), None), targets.pop()


_NANOSECONDS: Final = 10**9
_METHODS: Final = ["GET", "POST", "PUT", "PATCH", "DELETE"]
_CODES: Final = {
    "no_model": "model_not_found",
    "no_direction": "model_not_found",
    "queue_full": "rate_limit_exceeded",
    "too_long": "context_length_exceeded",
}
_MOST_PARTS: Final = 8
"""Number of parts of the name of a direction: two languages, each with a script, a region and a variant."""
_DONE: Final = "data: [DONE]\n\n"


def routes(service: Service) -> APIRouter:
    """The endpoints."""
    endpoints = _Endpoints(service)
    answers: list[tuple[list[str], str, Answer]] = [
        (["GET"], "/models", endpoints.models),
        (["GET"], "/models/{name:path}", endpoints.model),
        (["POST"], "/chat/completions", endpoints.complete),
        (_METHODS, "/{path:path}", _unknown),
    ]
    return router_of(answers, prefix="/v1")


def error_response(refusal: Refusal) -> JSONResponse:
    """The response for a refusal, in OpenAI's form."""
    status = 400 if refusal.status == 422 or refusal.label == "too_long" else refusal.status
    return JSONResponse(_error(refusal), status, refusal.headers)


PROTOCOL: Final = Protocol("openai", routes, error_response, error_paths=("/v1",))


class _Endpoints:
    def __init__(self, service: Service) -> None:
        self._service = service

    async def models(self, _: Request) -> dict[str, Any]:
        return {"object": "list", "data": [self._described(name) for name in self._named()]}

    async def model(self, request: Request) -> dict[str, Any]:
        return self._described(request.path_params["name"])

    async def complete(self, request: Request) -> dict[str, Any] | Response:
        message = "We could not parse the JSON body of your request."
        asked = read_completion(await read_object(request, lambda _: Wrong(None, message)))
        languages, text = read_instruction(asked.text)
        languages = languages or languages_of(asked.prompt, self._service.directions)
        options = self._directed(self._options(asked.model), languages)
        search = self._service.search_for(asked.num_choices, self._names_of_models(options))
        options = replace(options, n_best=asked.num_choices, search=search)
        if not asked.is_streamed:
            [found] = await self._service.translate([text], options)
            return _completion(asked, found)
        events = _events(asked, self._service.stream(text, options))
        return await streamed(events, lambda refusal: _event(_error(refusal)))

    def _named(self) -> dict[str, RequestOptions]:
        """The options for each name of a model or direction; that of a model comes first."""
        directions = self._service.directions
        by_direction = {
            f"{each.source}-{each.target}": RequestOptions(each.source, each.target)
            for each in directions
            if not each.languages
        }
        models = self._service.models.values()
        translators = [each for each in models if each.source or each.languages]  # no parsers
        by_name = {each.name: RequestOptions(model=each.name) for each in translators}
        return by_name | {name: options for name, options in by_direction.items() if name not in by_name}

    def _options(self, name: str) -> RequestOptions:
        """The options for a name of a model; the codes of a direction may name other variants."""
        if found := self._named().get(name):
            return found
        parts = name.split("-", _MOST_PARTS)
        for number in range(1, len(parts)):
            source, target = "-".join(parts[:number]), "-".join(parts[number:])
            if fitting := closest(self._service.directions, source, target):
                return RequestOptions(fitting[0].source, fitting[0].target)
        message = "The model does not exist; GET /v1/models lists the models and directions."
        raise Wrong("model", message, 404, "model_not_found")

    def _directed(self, options: RequestOptions, languages: LanguagePair | None) -> RequestOptions:
        """The same request in the direction that an instruction names, if it is not that of the model."""
        own = self._service.models[options.model] if options.model is not None else options
        served = self._service.directions
        source, target = languages or (None, None)
        any_direction = Direction("", "", (), own.languages if isinstance(own, ServedModel) else ())
        if any_direction.languages and (not target or closest([any_direction], source, target)):
            return RequestOptions(source or AUTO, target, options.model)
        if closest([Direction(own.source or "", own.target or "", ())], source, target):
            return options
        if fitting := closest(served, source or own.source, target):
            return RequestOptions(fitting[0].source, fitting[0].target)
        if source is None and closest(served, None, target):
            return RequestOptions(AUTO, target)
        message = "No model translates as the messages ask; GET /v1/models lists the directions."
        raise Wrong("messages", message, 404, "model_not_found")

    def _names_of_models(self, options: RequestOptions) -> tuple[str, ...]:
        """The models that may answer: all that translate to the target, if the source is to be detected."""
        if options.model is not None:
            return (options.model,)
        source = None if options.source == AUTO else options.source
        fitting = closest(self._service.directions, source, options.target)
        return tuple(name for each in fitting for name in each.models)

    def _described(self, name: str) -> dict[str, Any]:
        models = [self._service.models[each] for each in self._names_of_models(self._options(name))]
        created = max(model.version.changed for model in models) // _NANOSECONDS
        return {"id": name, "object": "model", "created": created, "owned_by": "allyouneed"}


async def _unknown(request: Request) -> NoReturn:
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


async def _events(asked: Completion, growing: AsyncIterator[str | Translated]) -> AsyncIterator[str]:
    """The chunks of a completion as server-sent events."""
    told = await anext(growing)
    frame = _frame(asked, "chat.completion.chunk") | ({"usage": None} if asked.has_usage else {})
    yield _event(frame | _choice({"role": "assistant", "content": "", "refusal": None}))
    sent = ""
    while isinstance(told, str):
        if len(certain := asked.certain(told)) > len(sent):
            yield _event(frame | _choice({"content": certain[len(sent) :]}))
            sent = certain
        told = await anext(growing)
    text, reason = _ended(asked, told.translations[0])
    if text[len(sent) :]:
        yield _event(frame | _choice({"content": text[len(sent) :]}))
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
