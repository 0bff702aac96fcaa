"""Translates documents in HTML or XML, whose tags stay in place within their sentences."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Unpack

from allyouneed.errors import DataError, UsageError
from allyouneed.markup.dialect import DIALECTS, Dialect, xml_fault
from allyouneed.markup.document import Attributes, Document
from allyouneed.markup.marks import Links, MarkedText
from allyouneed.tasks.requests import TranslateOptions
from allyouneed.tasks.translation.outputs import TranslatedPart, Translation, join_parts

Stream = Callable[..., Iterator[list[Translation]]]


def dialect_of(markup: str | Dialect) -> Dialect:
    """The dialect of a name, "html" or "xml"; raises UsageError for another."""
    if isinstance(markup, Dialect):
        return markup
    if markup not in DIALECTS:
        raise UsageError(f"markup {markup!r}: take {' or '.join(DIALECTS)}", settings=["markup"])
    return DIALECTS[markup]


def translate_documents(
    stream: Stream,
    aligns: bool,
    documents: Sequence[str],
    markup: str | Dialect,
    **options: Unpack[TranslateOptions],
) -> list[Translation]:
    """The translations of documents, with the tokens of all sentences and the mean of their scores.

    The arguments, but for `documents`, and exceptions are those of `document_parts`.
    """
    results: list[Translation] = []
    for document in documents:
        found: list[Translation] = []

        def tell(_: MarkedText, translation: Translation, into: list[Translation] = found) -> None:
            into.append(translation)

        text = "".join(document_parts(stream, aligns, document, markup, tell=tell, **options))
        parts = [TranslatedPart([each], "") for each in found] or [TranslatedPart([Translation("", 0.0)], "")]
        [joined] = join_parts(parts, [" "] * (len(parts) + 1))
        results.append(replace(joined, text=text, alignment=None, links=None))
    return results


def document_parts(
    stream: Stream,
    aligns: bool,
    document: str,
    markup: str | Dialect,
    *,
    tell: Callable[[MarkedText, Translation], object] = lambda *_: None,
    **options: Unpack[TranslateOptions],
) -> Iterator[str]:
    """The parts of a translated document, in order, each as soon as it is there.

    Args:
        stream: Translates texts, as `Translator.stream`.
        aligns: Whether it can align words; without, they are taken to be in the same order.
        document: A document, or a part of one.
        markup: What its tags mean: "html", "xml", or a dialect made of one of these.
        tell: Called with each text and its translation, without its tags.
        **options: Options of `Translator.stream`.

    Raises:
        DataError: The document is XML that is not well-formed; the message gives the place.
        UsageError: An option is unknown, out of range, or has no effect.
    """
    dialect = dialect_of(markup)
    if dialect.has_empty_tags and (fault := xml_fault(document)):
        raise DataError(f"{fault}; correct it, or translate it as html", label="E-XML")

    def translated(parsed: Document) -> Iterator[str]:
        texts = parsed.texts
        needs_links = aligns and any(text.needs_links for text in texts)
        wanted: TranslateOptions = {"split_sentences": True, **options, "alignments": needs_links}

        def translations() -> Iterator[tuple[str, Links | None]]:
            for text, (best, *_) in zip(texts, stream([text.text for text in texts], **wanted), strict=True):
                tell(text, best)
                yield best.text, best.links

        return parsed.written(translations())

    if dialect.attributes:
        document = "".join(translated(Attributes(document, dialect)))
    return translated(Document(document, dialect))
