"""Documents on standard input, as lines or in HTML or XML, and files in other formats, with messages."""

import contextlib
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from allyouneed.cli.request_lines import STANDARD_INPUT
from allyouneed.errors import DataError, notice

if TYPE_CHECKING:
    from allyouneed.cli.segment_report import SegmentReport
    from allyouneed.markup.marks import MarkedText
    from allyouneed.tasks.translation.line_documents import DocumentTranslator
    from allyouneed.tasks.translation.outputs import Translation
    from allyouneed.tasks.translation.translator import Translator
    from allyouneed.terms.keeping import KeepingTranslator

_MOST_BYTES: Final = 2**25
"""Largest document; its parts are in memory together."""
_FOR_LINES: Final = ("n_best", "alignments", "split_sentences")


@contextlib.contextmanager
def in_documents(translator: "Translator", most_lines: int) -> "Iterator[DocumentTranslator]":
    """A translator of lines as documents; a notice at the end counts those that had to be repaired."""
    from allyouneed.tasks.translation.line_documents import DocumentTranslator

    documents = DocumentTranslator(translator, most_lines)
    yield documents
    if documents.num_repaired:
        _notice(
            f"{documents.num_repaired:,} of {documents.num_documents:,} documents came back with another "
            "number of lines, or cut, and were translated line by line"
        )


def translate_document(
    translator: "KeepingTranslator",
    markup: str,
    attributes: str,
    options: Mapping[str, Any],
    report: "SegmentReport",
) -> int:
    """Translate the document on standard input; return the exit code.

    Args:
        translator: The translator.
        markup: "html" or "xml".
        attributes: Attributes whose texts are translated, too, with commas between them.
        options: Options of `Translator.stream`; those that are for lines have no effect.
        report: Receives each text.

    Raises:
        DataError: The document is not UTF-8, too large, or XML that is not well-formed.
    """
    from allyouneed.tasks.translation.marked_documents import dialect_of, document_parts

    document = _read_document()
    names = frozenset(name.strip().lower() for name in attributes.split(","))
    dialect = dialect_of(markup)._replace(attributes=names - {""})
    kept = {name: value for name, value in options.items() if name not in _FOR_LINES}
    told = False

    def tell(text: "MarkedText", translation: "Translation") -> None:
        nonlocal told
        report.record(text, translation)
        if translation.is_cut and not told:
            from allyouneed.tasks.translation.outputs import CUT

            told = True
            notice(f"{STANDARD_INPUT}: a text: {CUT} (later texts are not checked)")

    try:
        able = partial(translator.stream, tell=_notice), translator.aligns
        for part in document_parts(*able, document, dialect, tell=tell, **kept):
            sys.stdout.buffer.write(part.encode())
    except DataError as error:
        raise DataError(f"{STANDARD_INPUT}: {error.messages[0]}", label=error.label) from None
    sys.stdout.buffer.flush()
    return report.exit_code()


def translate_into(
    translator: "KeepingTranslator",
    source: Path,
    target: Path,
    request: str,
    options: Mapping[str, Any],
    report: "SegmentReport",
) -> int:
    """Translate a file into another; return the exit code. See `files.translation.translate_file`."""
    from allyouneed.cli.progress import progress  # which takes a while
    from allyouneed.files.translation import translate_file

    num_done = 0
    kept = {name: value for name, value in options.items() if name not in _FOR_LINES}
    with contextlib.ExitStack() as stack:
        shown = None

        def watch(done: int, known: int) -> None:
            nonlocal shown, num_done
            if shown is None:
                if done:
                    notice(f"{target}: continuing; {done:,} of the texts are translated")
                shown = stack.enter_context(progress(known, unit="texts", description="translate", done=done))
                num_done = done
            shown.expect(known)
            shown.advance(done - num_done)
            num_done = done

        told: dict[str, Any] = {"tell": partial(_notice, place=str(source)), "record": report.record}
        translate_file(translator, source, target, request=request, watch=watch, **told, **kept)
    notice(f"{target}: written; different texts: {num_done:,}")
    return report.exit_code()


def _notice(message: str, place: str = STANDARD_INPUT) -> None:
    notice(f"{place}: {message}")


def _read_document() -> str:
    if sys.stdin.isatty():
        notice("reading a document from the terminal: end with Ctrl-D")
    content = sys.stdin.buffer.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        most = f"{_MOST_BYTES // 2**20} MiB"
        raise DataError(f"{STANDARD_INPUT}: has more than {most}; translate it in parts", label="E-TOO-LARGE")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{STANDARD_INPUT}:{line}: byte {error.start + 1} is not UTF-8; convert the document to it",
            label="E-UTF8",
        ) from None
