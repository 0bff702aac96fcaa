"""The server's own endpoints, under `/api`; their schema is at `/api/openapi.json`."""

import asyncio
import json
from typing import Annotated, Any, Final, Literal, cast

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse
from pydantic import Field

from allyouneed.config.run import SearchSettings
from allyouneed.files.formats import FORMATS
from allyouneed.serve.guard import AUTHORISED
from allyouneed.serve.protocols.protocol import Protocol, media_type, streamed
from allyouneed.serve.refusals import Body, Refusal, StrictRoute
from allyouneed.serve.request_options import MOST_BEAMS, MOST_TEXTS, RequestOptions, Translated
from allyouneed.serve.service import Service
from allyouneed.tasks.translation.outputs import Translation

_LONGEST_TEXT = 1_000_000  # the server's own limit is lower, and may be set
Text = Annotated[str, Field(max_length=_LONGEST_TEXT)]
Texts = Text | Annotated[list[Text], Field(max_length=MOST_TEXTS)]
Language = Annotated[str, Field(min_length=1, max_length=32)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$")]
_FILES_OF_FRAMES: Final = {"audio/wav": ".wav", "audio/x-wav": ".wav", "application/x-npy": ".npy"}
"""Media type of a file of frames -> ending of its name."""
Beams = Annotated[int, Field(ge=1, le=MOST_BEAMS)]


class OptionsBody(Body):
    """The options of a request to translate."""

    source: Language | None = None
    """Code of the source language; "auto": detected, and a text in the target language stays as it is. Not
    needed if it is clear from the rest."""
    target: Language | None = None
    """Code of the target language. Not needed if it is clear from the rest."""
    model: Name | None = None
    """Name of the model, by default the first one of the direction."""
    n_best: Beams = 1
    """Number of translations per text."""
    beam_size: Beams | None = None
    """Number of hypotheses kept per step; by default the model's own setting."""
    length_penalty: Annotated[float, Field(ge=0, le=10)] | None = None
    """Exponent of the length penalty; by default the model's own setting."""
    prefix: Text = ""
    """Whole words that the translation begins with."""
    alignments: bool = False
    """Whether to align words."""

    def options(self) -> RequestOptions:
        """The options as the service takes them."""
        given = self.model_dump(exclude={"text"})
        search = {name: given.pop(name) for name in ("beam_size", "length_penalty")}
        search = {name: value for name, value in search.items() if value is not None}
        return RequestOptions(**given, search=cast(SearchSettings, search))


class TranslateBody(OptionsBody):
    """Texts to translate."""

    text: Texts
    """A text, or several."""


class OneTextBody(OptionsBody):
    """A text to translate."""

    text: Text
    """The text; for alternatives, one sentence without line breaks."""


class ParseBody(Body):
    """Sentences to parse."""

    text: Texts
    """A sentence, or several."""
    model: Name | None = None
    """Name of the parser, by default the first."""


class AttentionBody(Body):
    """A sentence of which the attention is wanted."""

    text: Text
    """The sentence."""
    translation: Text | None = None
    """Its translation, or its tree in brackets; by default the model's own."""
    source: Language | None = None
    """Code of the source language."""
    target: Language | None = None
    """Code of the target language."""
    model: Name | None = None
    """Name of the model; with that of a parser, the sentence is parsed."""


class DetectBody(Body):
    """A text whose language is wanted."""

    text: Text
    """The text."""


def routes(service: Service) -> APIRouter:
    """The endpoints."""
    router = APIRouter(prefix="/api", route_class=StrictRoute, tags=["allyouneed"])
    _translate(router, service)
    _analyse(router, service)

    @router.get("/models")
    async def models(request: Request) -> dict[str, Any]:
        """The models, the directions that they translate, and the limits of requests."""
        nothing: dict[str, Any] = {"models": [], "directions": [], "languages": {}}
        return (listed(service) if request.scope[AUTHORISED] else nothing) | {
            "limits": {
                "characters": service.settings.most_characters,
                "texts": MOST_TEXTS,
                "beam_size": MOST_BEAMS,
            },
            "files": [*FORMATS] if service.documents else [],
            "needs_token": service.settings.token is not None,
        }

    return router


PROTOCOL: Final = Protocol(
    "own", routes, open_paths=frozenset({"/api/models"}), recording_paths=frozenset({"/api/transcribe"})
)


def _translate(router: APIRouter, service: Service) -> None:
    """Add the endpoints that translate."""

    @router.post("/translate")
    async def translate(body: TranslateBody) -> dict[str, Any]:
        """Translate one or several texts of any number of sentences and lines."""
        texts = [body.text] if isinstance(body.text, str) else body.text
        found = await service.translate(texts, body.options())
        return {"results": [result_of(each, body.alignments) for each in found]}

    @router.post("/stream", response_class=StreamingResponse)
    async def stream(body: OneTextBody) -> StreamingResponse:
        """Translate a text; events `certain` have the text so far that cannot change, `done` the result."""
        growing = service.stream(body.text, body.options())
        return await streamed((_told(each, body.alignments) async for each in growing), _refused)

    @router.post("/alternatives")
    async def alternatives(body: OneTextBody) -> dict[str, Any]:
        """Translations that go on differently after the prefix, the likeliest next word first."""
        found = await service.alternatives(body.text, body.options())
        return {"alternatives": [translation_of(each, body.alignments) for each in found]}


def _analyse(router: APIRouter, service: Service) -> None:
    """Add the endpoints that parse, transcribe, show the attention and detect languages."""

    @router.post("/parse")
    async def parse(body: ParseBody) -> dict[str, Any]:
        """Parse one or several sentences into constituency trees."""
        sentences = [body.text] if isinstance(body.text, str) else body.text
        parses = await service.parse(sentences, body.model)
        return {
            "results": [
                {"tree": str(each)}
                | {name: getattr(each, name) for name in ("score", "confidence", "repaired")}
                for each in parses
            ]
        }

    @router.post("/transcribe")
    async def transcribe(request: Request) -> dict[str, Any]:
        """Transcribe the file that the body is: a WAV file, or an array as NumPy saves it."""
        kind = media_type(request)
        if kind not in _FILES_OF_FRAMES:
            raise Refusal(415, "media_type", f"send Content-Type: {' or '.join(_FILES_OF_FRAMES)}")
        found = await service.transcribe(await request.body(), _FILES_OF_FRAMES[kind])
        return translation_of(found, alignments=False)

    @router.post("/attention")
    async def attention(body: AttentionBody) -> dict[str, Any]:
        """The attention weights for a sentence, as the explorer of the page shows them."""
        return await service.attention(
            body.text, body.translation, RequestOptions(body.source, body.target, body.model)
        )

    @router.post("/detect")
    async def detect(body: DetectBody) -> dict[str, Any]:
        """The language of a text, among those of the models."""
        found = await asyncio.to_thread(service.detect, body.text)
        return {"languages": [{"language": code, "confidence": share} for code, share in found]}


def listed(service: Service) -> dict[str, Any]:
    """The models and what they translate as JSON values."""
    return {
        "models": [
            {"name": each.name, "task": each.task, "precision": each.precision}
            | ({"source": each.source, "target": each.target} if each.source else {})
            | ({"languages": each.languages} if each.languages else {})
            for each in service.models.values()
        ],
        "directions": [
            {"source": each.source, "target": each.target, "models": each.models}
            for each in service.directions
            if not each.languages
        ],
        "languages": service.languages,
    }


def translation_of(translation: Translation, alignments: bool) -> dict[str, Any]:
    """A translation as JSON values."""
    aligned = {"alignment": translation.alignment or []} if alignments else {}
    return {"text": translation.text, "score": translation.score} | aligned


def result_of(found: Translated, alignments: bool) -> dict[str, Any]:
    """The translations of a text as JSON values."""
    result: dict[str, Any] = {
        "translations": [translation_of(each, alignments) for each in found.translations],
        "source": found.source,
        "target": found.target,
        "models": found.models,
        "segments": [each._asdict() for each in found.segments],
        "notices": found.notices,
    }
    return result if found.confidence is None else result | {"confidence": found.confidence}


def _refused(refusal: Refusal) -> str:
    error = {"error": {"label": refusal.label, "message": refusal.message}}
    return f"event: error\ndata: {json.dumps(error)}\n\n"


def _told(told: str | Translated, alignments: bool) -> str:
    name: Literal["certain", "done"] = "certain" if isinstance(told, str) else "done"
    content = {"text": told} if isinstance(told, str) else result_of(told, alignments)
    return f"event: {name}\ndata: {json.dumps(content, ensure_ascii=False)}\n\n"
