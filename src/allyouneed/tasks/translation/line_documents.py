"""Documents: consecutive lines translated together (paper 7), with a separator between them."""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from allyouneed.data.tokenizer import split_symbol
from allyouneed.errors import DataError
from allyouneed.tasks.requests import Answer, Failure, TranslationRequest
from allyouneed.tasks.translation.outputs import Translation
from allyouneed.tasks.translation.translator import Translator

SEPARATOR = "¶"
"""The word between two lines of a document, on both sides. Documents to train on are lines joined by it."""

_Asked = TranslationRequest | Failure
_Answered = Answer[list[Translation]] | Failure


def joined(lines: Iterable[str]) -> str:
    """The document of some lines."""
    return f" {SEPARATOR} ".join(lines)


def parted(document: str) -> list[str]:
    """The lines of a document."""
    return [line.strip() for line in document.split(SEPARATOR)]


class DocumentTranslator:
    """Translates lines as documents, with a model that was trained on some.

    A document ends before a blank line or one in other languages, after `most_lines` lines, and before it has
    more tokens than the pairs that the model was trained on. If a translation has another number of lines
    than its document, or was cut, these lines are translated one by one.
    """

    def __init__(self, translator: Translator, most_lines: int) -> None:
        self._translator, self._most_lines = translator, most_lines
        tokenizer, _ = translator.tokenizers
        self._separator_tokens, self._symbols = len(tokenizer.encode(SEPARATOR)), tokenizer.languages
        self.num_documents = self.num_repaired = 0
        """Number of documents of several lines so far, and of those that were translated line by line."""

    def answer(self, requests: Iterable[_Asked], **options: Any) -> Iterator[_Answered]:
        """An answer or a failure for each line, in order; see `Translator.answer`.

        The score of a line is that of its document, whose notices are with the first line.
        """
        waiting: deque[list[_Asked]] = deque()

        def asked() -> Iterator[_Asked]:
            for document in self._documents(requests):
                waiting.append(document)
                yield self._as_one(document)

        for answer in self._translator.answer(asked(), **options):
            document = waiting.popleft()
            yield from [answer] if len(document) == 1 else self._lines(document, answer, options)

    def _lines(
        self, document: list[_Asked], answer: _Answered, options: dict[str, Any]
    ) -> Iterator[_Answered]:
        self.num_documents += 1
        if isinstance(answer, Answer) and not answer.result[0].is_cut:
            whole, lines = answer.result[0], parted(answer.result[0].text)
            if len(lines) == len(document):
                notices = answer.notices
                for each, line in zip(document, lines, strict=True):
                    yield Answer(each.id, [Translation(line, whole.score)], notices)
                    notices = ()
                return
        self.num_repaired += 1
        yield from self._translator.answer(document, **options)

    def _documents(self, requests: Iterable[_Asked]) -> Iterator[list[_Asked]]:
        """The lines of each document; a line that cannot be joined to others is a document of its own."""
        document: list[_Asked] = []
        room, most_tokens = 0, self._translator.config.data.max_tokens
        for request in requests:
            size = self._num_tokens(request)
            is_full = size is None or size > room or len(document) == self._most_lines
            if document and (is_full or self._languages(request) != self._languages(document[0])):
                yield document
                document = []
            if size is None:
                yield [request]
                continue
            room = (room if document else most_tokens) - size
            document.append(request)
        if document:
            yield document

    def _languages(self, request: _Asked) -> tuple[str, str, str] | None:
        """The symbol of a line, and the codes of its target and source; None for a failure."""
        if isinstance(request, Failure):
            return None
        symbol, _ = split_symbol(request.text, self._symbols)
        return symbol.strip(), request.to, request.source

    def _as_one(self, document: list[_Asked]) -> _Asked:
        first, *others = document
        if not others or isinstance(first, Failure):
            return first
        of_lines = (each.text for each in others if isinstance(each, TranslationRequest))
        lines = (split_symbol(text, self._symbols)[1] for text in of_lines)
        return replace(first, text=joined([first.text, *lines]))

    def _num_tokens(self, request: _Asked) -> int | None:
        """Number of tokens of a line with its separator; None if it is blank, has one, or cannot be read."""
        if isinstance(request, Failure) or SEPARATOR in request.text:
            return None
        try:
            found = len(self._translator.encode(request.text))
        except DataError:
            return None
        return found + self._separator_tokens if found else None
