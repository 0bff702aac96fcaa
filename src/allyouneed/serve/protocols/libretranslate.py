"""The protocol of LibreTranslate 1.9 (https://docs.libretranslate.com), for its clients."""

import asyncio
from collections.abc import Sequence
from itertools import islice
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from allyouneed.config.run import SearchSettings
from allyouneed.data.words import has_letters
from allyouneed.serve.ask import Ask
from allyouneed.serve.directions import AUTO, Direction, Route, to_itself
from allyouneed.serve.html_text import HtmlText
from allyouneed.serve.protocols.answers import Answer, always, in_json
from allyouneed.serve.protocols.libretranslate_languages import UNKNOWN, Languages, detection
from allyouneed.serve.protocols.libretranslate_request import read_fields, require_sizes
from allyouneed.serve.protocols.libretranslate_specification import SPECIFICATION
from allyouneed.serve.refusal import Refusal
from allyouneed.serve.server_settings import ServerSettings
from allyouneed.serve.service import Service

OPEN_PATHS: Final = frozenset({"/languages", "/frontend/settings", "/health", "/spec"})
"""Paths for which clients send no token even if they have one."""
_NO_KEY: Final = Refusal(400, "no_key", "Please contact the server operator to get an API key")
_WRONG_KEY: Final = Refusal(403, "wrong_key", "Invalid API key")
_MOST_DETECTIONS: Final = 3
_MILLISECONDS_BETWEEN_KEYS: Final = 500
_NO_FILES: Final = "Files translation are disabled on this server."
_NO_SUGGESTIONS: Final = "Suggestions are disabled on this server."


def routes(service: Service, settings: ServerSettings) -> APIRouter:
    """The endpoints."""
    endpoints, router = _Endpoints(service, settings), APIRouter()
    answers: list[tuple[str, str, Answer]] = [
        ("POST", "/translate", endpoints.translate),
        ("POST", "/detect", endpoints.detect),
        ("GET", "/languages", endpoints.languages),
        ("GET", "/frontend/settings", endpoints.frontend_settings),
        ("GET", "/health", always({"status": "ok"})),
        ("GET", "/spec", always(SPECIFICATION)),
        ("POST", "/suggest", _switched_off(403, _NO_SUGGESTIONS)),
        ("POST", "/translate_file", _switched_off(403, _NO_FILES)),
        ("GET", "/download_file/{name}", _switched_off(400, _NO_FILES)),
    ]
    for method, path, answer in answers:
        methods = [method, "HEAD"] if method == "GET" else [method]
        router.add_api_route(path, in_json(answer, worded), methods=methods, include_in_schema=False)
    return router


def worded(refusal: Refusal) -> JSONResponse:
    """A refusal in LibreTranslate's form.

    Args:
        refusal: One of 401 is of a missing token if its label begins with "no", else of a wrong one.
    """
    if refusal.status == 401:
        refusal = _NO_KEY if refusal.label.startswith("no") else _WRONG_KEY
    status = 400 if refusal.status == 422 or refusal.label == "no_direction" else refusal.status
    message = f"Slowdown: {refusal.message}" if status == 429 else refusal.message
    return JSONResponse({"error": message}, status, refusal.headers)


ERROR_FORMS: Final = dict.fromkeys(
    (
        "/translate",
        "/detect",
        "/languages",
        "/frontend",
        "/spec",
        "/suggest",
        "/translate_file",
        "/download_file",
    ),
    worded,
)
"""The form of refusals for the paths of this protocol, and for those below them."""


class _Endpoints:
    """The endpoints that need the service."""

    def __init__(self, service: Service, settings: ServerSettings) -> None:
        self._service, self._settings = service, settings
        self._languages = Languages(service.languages, service.directions)

    async def translate(self, request: Request) -> dict[str, Any]:
        """Translate a text or a list of them, as text or as HTML."""
        fields = await read_fields(request)
        texts, source, target = fields.texts(), fields.language("source"), fields.language("target")
        num_alternatives = fields.num_alternatives()
        require_sizes(texts, self._settings.most_characters)
        given = None if source.lower() == AUTO else self._languages.direction(source, target)
        self._languages.require(target)
        passages = await asyncio.to_thread(_Passages, _listed(texts), fields.is_html())
        route = Route(given) if given else await self._detect(passages.parts, target)
        hypotheses = passages.joined(
            await self._translations(passages.parts, route.direction, num_alternatives + 1)
        )
        answer: dict[str, list[Any]] = {"translatedText": [best for best, *_ in hypotheses]}
        if given is None:
            detected = detection(route.direction.source, route.confidence or 0.0)
            answer["detectedLanguage"] = [detected] * len(hypotheses)
        if num_alternatives:
            answer["alternatives"] = [_alternatives(each) for each in hypotheses]
        return answer if isinstance(texts, list) else {name: values[0] for name, values in answer.items()}

    async def detect(self, request: Request) -> list[dict[str, Any]]:
        """The languages of a text, or of several together."""
        texts = _listed((await read_fields(request)).texts())
        detected = await asyncio.to_thread(
            self._service.detect, self._joined(texts)
        )  # takes a second at first
        found = [detection(*each) for each in detected[:_MOST_DETECTIONS]]
        return [each for each in found if each["confidence"]] or found[:1] or [detection(UNKNOWN, 0)]

    async def languages(self, _: Request) -> list[dict[str, Any]]:
        """The languages, each with those that it is translated to."""
        return self._languages.description()

    async def frontend_settings(self, _: Request) -> dict[str, Any]:
        """What LibreTranslate's page and the clients that imitate it ask for."""
        needs_key = self._settings.token is not None
        return {
            "charLimit": self._settings.most_characters,
            "frontendTimeout": _MILLISECONDS_BETWEEN_KEYS,
            "apiKeys": needs_key,
            "keyRequired": needs_key,
            "suggestions": False,
            "filesTranslation": False,
            "supportedFilesFormat": [],
            "language": {
                "source": {"code": AUTO, "name": "Auto Detect"},
                "target": self._languages.first_target(),
            },
        }

    async def _detect(self, texts: Sequence[str], target: str) -> Route:
        """The direction of texts in the same language, which is detected."""
        if not any(map(has_letters, texts)):
            return Route(to_itself(UNKNOWN))
        return await asyncio.to_thread(self._service.route, self._joined(texts), target)

    def _joined(self, texts: Sequence[str]) -> str:
        return "\n".join(texts)[: self._settings.most_characters]

    async def _translations(self, texts: Sequence[str], direction: Direction, n_best: int) -> list[list[str]]:
        """The translations of each text, best first."""
        if not direction.models:
            return [[text] for text in texts]
        search = self._search(direction, n_best)
        ask = Ask(direction.source, direction.target, n_best=n_best, search=search)
        translated = await self._service.translate_all(texts, ask)
        return [[hypothesis.text for hypothesis in each.translations] for each in translated]

    def _search(self, direction: Direction, n_best: int) -> SearchSettings:
        """The models' own settings, but for a beam that is too small."""
        models = [self._service.models[name].loaded for name in direction.models]
        is_enough = all(model.config.search.beam_size >= n_best for model in models)
        return SearchSettings() if is_enough else SearchSettings(beam_size=n_best)


class _Passages:
    """The parts of texts that are translated: the texts themselves, or what is between the tags of HTML."""

    def __init__(self, texts: list[str], are_html: bool) -> None:
        self._documents = [HtmlText(text) for text in texts] if are_html else None
        self.parts = [part for each in self._documents for part in each.texts] if self._documents else texts

    def joined(self, hypotheses: list[list[str]]) -> list[list[str]]:
        """The translations of each text from those of its parts; HTML has no alternatives."""
        if self._documents is None:
            return hypotheses
        best = (hypothesis for hypothesis, *_ in hypotheses)
        return [[each.with_translations(list(islice(best, len(each.texts))))] for each in self._documents]


def _switched_off(status: int, message: str) -> Answer:
    async def refuse(_: Request) -> Any:
        raise Refusal(status, "switched_off", message)

    return refuse


def _listed(texts: str | list[str]) -> list[str]:
    return [texts] if isinstance(texts, str) else texts


def _alternatives(hypotheses: Sequence[str]) -> list[str]:
    """The translations besides the best one, once each."""
    _, *others = dict.fromkeys(hypotheses)
    return [other for other in others if other]
