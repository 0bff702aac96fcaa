"""Encodes texts part by part, and joins the translations of the parts."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from allyouneed.data.sentences import Divided, TextPart
from allyouneed.errors import DataError
from allyouneed.tasks.requests import Answer, Failure, Id, TranslationRequest
from allyouneed.tasks.translation.outputs import Part, Translation, join_parts, space_between_sentences


class EncodedText(NamedTuple):
    """A request as token ids, without end symbols."""

    id: Id
    divided: Divided
    prefix: list[int]
    """Prefix of the translation of the first part that is searched."""


def encode_text(
    divide: Callable[[str], Divided],
    encode_prefix: Callable[[str], list[int]],
    request: TranslationRequest | Failure,
) -> EncodedText | Failure:
    """Encode a request; on error, return a failure. Failures are passed on."""
    if isinstance(request, Failure):
        return request
    try:
        return EncodedText(request.id, divide(request.text), encode_prefix(request.prefix))
    except DataError as error:
        return Failure(request.id, error)


def parts_of(encoded: Iterable[EncodedText | Failure]) -> Iterator[tuple[TextPart, list[int]]]:
    """Each part of each text, with the prefix of its translation; a failure has an empty part."""
    for text in encoded:
        if isinstance(text, Failure):
            yield TextPart([]), []
            continue
        first = text.divided.first
        for number, part in enumerate(text.divided.parts):
            yield part, text.prefix if number == first else []


def joined_answers(
    encoded: Iterable[EncodedText | Failure], translated: Iterator[Part], language: str
) -> Iterator[Answer[list[Translation]] | Failure]:
    """The answer to each text.

    Args:
        encoded: Encoded texts; failures are passed on.
        translated: Translations of the parts that `parts_of` gives for the same texts.
        language: Code of the target language, which decides whether a space separates sentences.
    """
    space = space_between_sentences(language)
    for text in encoded:
        if isinstance(text, Failure):
            next(translated)
            yield text
        else:
            parts = list(islice(translated, len(text.divided.parts)))
            yield Answer(text.id, join_parts(parts, text.divided.separators(space)), text.divided.notices)
