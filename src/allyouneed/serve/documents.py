"""Files that clients send to be translated, until they have fetched the results."""

import asyncio
import logging
import secrets
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Self

from allyouneed.errors import DataError, UsageError
from allyouneed.files.formats import FileFormat, format_of
from allyouneed.files.translating import Translate, Translations, distinct
from allyouneed.markup.marks import MarkedText
from allyouneed.serve.directions import AUTO, Route
from allyouneed.serve.refusals import INTERNAL, Refusal
from allyouneed.serve.request_options import RequestOptions, Translated

_AT_A_TIME: Final = 32
_CHARACTERS_AT_A_TIME: Final = 4_000
"""Number of texts, and of their characters, that are translated together: other requests wait for them."""
_SECONDS_KEPT: Final = 3_600.0
"""How long a result waits to be fetched."""
MOST_DOCUMENTS: Final = 32
"""Maximum number of files in translation, or waiting to be fetched."""
_MOST_AT_ONCE: Final = 4
"""Number of files that are translated at the same time; others wait."""
_MOST_BYTES_IN_ALL: Final = 2**27
"""Size of the files that are in translation, or wait for it."""
_SECONDS_TO_RETRY: Final = 1.0
_LONGEST_LOOKED_INTO: Final = 2_000
"""Number of characters by which a language is detected."""

_log = logging.getLogger("allyouneed.server")


@dataclass(eq=False)
class SentDocument:
    """A file in translation, or its result."""

    name: str
    size: int
    """Number of bytes."""
    document_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    key: str = field(default_factory=lambda: secrets.token_hex(32).upper())
    """The secret with which a client gets it."""
    begun: float = field(default_factory=time.monotonic)
    num_characters: int = 0
    """Size of all texts; those that are equal are translated once."""
    num_to_translate: int = 0
    num_done: int = 0
    error: Refusal | None = None
    task: "asyncio.Task[None] | None" = field(default=None, repr=False)
    has_ended: bool = False
    is_forgotten: bool = False
    """Whether nobody waits for it any more."""

    @property
    def seconds_remaining(self) -> int:
        """An estimate, by the speed so far."""
        speed = self.num_done / max(0.1, time.monotonic() - self.begun)
        return round((self.num_to_translate - self.num_done) / speed) if speed else 0


class Documents:
    """The files of a server's clients, in a folder; a context, which removes it at its end.

    Args:
        translate: Translates texts.
        route: Chooses the direction of a text whose language is to be detected, by the target language.
    """

    def __init__(
        self,
        translate: Callable[[list[str], RequestOptions], Awaitable[list[Translated]]],
        route: Callable[[str, str], Route],
    ) -> None:
        self._translate_all, self._route = translate, route
        self._folder = tempfile.TemporaryDirectory(prefix="allyouneed-documents-")
        self._documents: dict[str, SentDocument] = {}
        # their own threads, which wait for translations that need those of the event loop
        self._threads = ThreadPoolExecutor(_MOST_AT_ONCE, thread_name_prefix="document")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for document in [*self._documents.values()]:
            document.is_forgotten = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._folder.cleanup()

    def begin(self, name: str, content: bytes, options: RequestOptions) -> SentDocument:
        """Begin to translate a file, whose name tells its format.

        Raises:
            Refusal: The format is not known (415), or there are too many files (429).
        """
        try:
            found = format_of(name)
        except UsageError as error:
            raise Refusal(415, "format", error.messages[0]) from None
        num_bytes = sum(each.size for each in self._documents.values()) + len(content)
        if len(self._documents) >= MOST_DOCUMENTS or num_bytes > _MOST_BYTES_IN_ALL:
            raise Refusal(429, "too_many_documents", "too many files are in translation; try again later")
        document = SentDocument(name, len(content))
        self._documents[document.document_id] = document
        document.task = asyncio.create_task(self._translate(document, found, content, options))
        return document

    def get(self, document_id: str, key: str) -> SentDocument | None:
        """The document of an id and a key."""
        found = self._documents.get(document_id)
        return found if found and _are_equal(found.key, key) else None

    def with_key(self, key: str) -> SentDocument | None:
        """The document of a key."""
        return next((each for each in self._documents.values() if _are_equal(each.key, key)), None)

    def take(self, document: SentDocument) -> bytes:
        """The translated file, which is removed.

        Raises:
            Refusal: Another request has just fetched it (404).
        """
        if self._documents.pop(document.document_id, None) is None:
            raise Refusal(404, "no_document", "the file has been fetched")
        content = self._path(document).read_bytes()
        self._path(document).unlink()
        return content

    def forget(self, document: SentDocument) -> None:
        """Stop the translation of a file, and remove it."""
        document.is_forgotten = True
        if document.task:
            document.task.cancel()
        self._documents.pop(document.document_id, None)
        self._path(document).unlink(missing_ok=True)

    def _path(self, document: SentDocument) -> Path:
        return Path(self._folder.name) / document.document_id

    async def _translate(
        self, document: SentDocument, found: FileFormat, content: bytes, options: RequestOptions
    ) -> None:
        try:
            await self._translate_content(document, found, content, options)
        except (DataError, UsageError) as error:
            document.error = Refusal(400, error.label or "document", f"{document.name}: {error.messages[0]}")
        except OSError:
            message = "the file cannot be stored: the server's disk is full or fails"
            document.error = Refusal(507, "disk", message)
        except Refusal as refusal:
            document.error = refusal
        except Exception:
            _log.exception("a file of the type %s", Path(document.name).suffix)
            document.error = Refusal(500, INTERNAL.label, INTERNAL.message)
        finally:
            document.has_ended, document.size = True, 0
            asyncio.get_running_loop().call_later(_SECONDS_KEPT, self.forget, document)

    async def _translate_content(
        self, document: SentDocument, found: FileFormat, content: bytes, options: RequestOptions
    ) -> None:
        if options.source == AUTO:
            run = asyncio.get_running_loop().run_in_executor
            if sample := await run(self._threads, _sample_of, found, content, options.target or ""):
                direction = (await asyncio.to_thread(self._route, sample, options.target or "")).direction
                target = options.target if direction.models else direction.target
                options = replace(options, source=direction.source, target=target)
        if options.source != options.target:  # else it is in the target language already
            content = await self._translated(document, found, content, options)
        await asyncio.to_thread(self._path(document).write_bytes, content)

    async def _translated(
        self, document: SentDocument, found: FileFormat, content: bytes, options: RequestOptions
    ) -> bytes:
        loop = asyncio.get_running_loop()
        options = replace(options, keep=found.has_placeholders, most_characters=len(content))

        def answer(texts: Sequence[MarkedText]) -> Translations:
            if document.is_forgotten:
                raise asyncio.CancelledError
            asked = distinct(texts)
            document.num_characters += sum(len(text.text) for text in texts)
            document.num_to_translate += sum(len(text.text) for text in asked)
            result = asyncio.run_coroutine_threadsafe(self._answers(document, asked, options), loop)
            answers = dict(zip((text.text for text in asked), result.result(), strict=True))
            return [answers[text.text] for text in texts]

        translate = Translate(answer, options.source or "", options.target or "")
        return await loop.run_in_executor(self._threads, found.translated, content, translate)

    async def _answers(
        self, document: SentDocument, texts: Sequence[MarkedText], options: RequestOptions
    ) -> Translations:
        answers = list[Translations]()
        for batch in _batches(texts):
            asked = replace(options, links=any(text.needs_links for text in batch))
            made = await self._patiently(document, [text.text for text in batch], asked)
            answers.append(made)
            document.num_done += sum(len(text.text) for text in batch)
        return [each for made in answers for each in made]

    async def _patiently(
        self, document: SentDocument, texts: list[str], options: RequestOptions
    ) -> Translations:
        """Translate texts as soon as there is room, fewer at a time if that takes too long."""
        while True:
            if document.is_forgotten:
                raise asyncio.CancelledError
            try:
                found = await self._translate_all(texts, options)
            except Refusal as refusal:
                if refusal.status == 504 and len(texts) > 1:
                    halves = texts[: len(texts) // 2], texts[len(texts) // 2 :]
                    made = [await self._patiently(document, half, options) for half in halves]
                    return [each for half in made for each in half]
                if refusal.status != 429:
                    raise
                await asyncio.sleep(_SECONDS_TO_RETRY)
            else:
                best = (each.translations[0] for each in found)
                return [(each.text, each.links) for each in best]


def _batches(texts: Sequence[MarkedText]) -> Iterator[list[MarkedText]]:
    batch, size = list[MarkedText](), 0
    for text in texts:
        if batch and (len(batch) == _AT_A_TIME or size + len(text.text) > _CHARACTERS_AT_A_TIME):
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += len(text.text)
    if batch:
        yield batch


def _are_equal(key: str, given: str) -> bool:
    return secrets.compare_digest(key.encode(), given.encode(errors="replace"))


def _sample_of(found: FileFormat, content: bytes, target: str) -> str:
    """The first texts of a file, which is whole and harmless."""
    texts = list[str]()

    def answer(asked: Sequence[MarkedText]) -> Translations:
        texts.extend(text.text for text in asked)
        return [(text.text, None) for text in asked]

    found.translated(content, Translate(answer, "", target))
    return "\n".join(texts)[:_LONGEST_LOOKED_INTO]
