"""Translates a file into another one, and goes on where an interrupted run has stopped."""

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

from allyouneed.errors import DataError, UsageError
from allyouneed.files.formats import FORMATS, format_of
from allyouneed.files.translating import Translate, Translations, distinct
from allyouneed.markup.marks import Links, MarkedText
from allyouneed.storage.publish import disk_errors, lock_output, replaced_file, require_file
from allyouneed.tasks.translation.outputs import Translation
from allyouneed.tasks.translation.translator import Translator
from allyouneed.terms.keeping import KeepingTranslator, Kept

MOST_BYTES: Final = 1 << 28
"""Largest file; it is in memory while it is translated."""
_AT_A_TIME: Final = 256
"""Number of texts whose translations are written down together."""

Watch = Callable[[int, int], object]
"""Called with the number of texts that are translated, and of those known so far."""
Record = Callable[[MarkedText, Translation], object]
"""Called with each text and its translation."""


def translate_file(
    translator: Translator | KeepingTranslator,
    source: Path,
    target: Path,
    *,
    request: str = "",
    watch: Watch = lambda done, known: None,
    tell: Callable[[str], object] = lambda message: None,
    record: Record = lambda text, translation: None,
    **options: Any,
) -> None:
    """Translate the texts of a file; everything else stays as it is.

    What is translated so far is beside the target until that is complete: the same call goes on from there.

    Args:
        translator: The translator.
        source: The file, whose suffix tells its format.
        target: Where to write, of the same format.
        request: What else translations depend on; another one begins anew.
        watch: Called as translations are made.
        tell: Called with messages about what translations lack.
        record: Called with each text and its translation, except those that an interrupted call has made.
        **options: Options of `Translator.stream`.

    Raises:
        UsageError: The format is not known, or the target is of another one, or exists.
        DataError: The file cannot be read; the message names the place.
        DiskError: The target cannot be written.
        LockedError: Another process is translating into it.
    """
    found = format_of(source.name)
    if FORMATS.get(target.suffix.lower()) is not found:
        raise UsageError(f"{target}: is not of the format of {source.name}; give it the same ending")
    if os.path.lexists(target):
        raise UsageError(f"{target}: exists; remove it, or name another file")
    require_file(target)
    content = _content(source)
    keeping = KeepingTranslator(translator, Kept()) if isinstance(translator, Translator) else translator
    if found.has_placeholders:
        keeping = keeping.with_spans()
    with _Done.beside(target, hashlib.sha256(content + request.encode()).hexdigest()) as done:
        answers = _Answers(keeping, options, done, watch, tell, record)
        languages = keeping.config.data
        try:
            translated = found.translated(
                content, Translate(answers, languages.source_language, languages.target_language)
            )
        except DataError as error:
            raise DataError(f"{source}: {error.messages[0]}", label=error.label) from None
        if os.path.lexists(target):
            raise UsageError(f"{target}: has appeared meanwhile; remove it, and repeat the command")
        with replaced_file(target) as aside:
            aside.write_bytes(translated)
        done.found.clear()  # no longer needed


def _content(source: Path) -> bytes:
    try:
        with source.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise DataError(f"{source}: cannot be read ({error.strerror}); name a file") from None
    if len(content) > MOST_BYTES:
        raise DataError(f"{source}: more than {MOST_BYTES >> 20} MiB; divide it", label="E-TOO-LARGE")
    return content


class _Answers:
    """Translates texts, those that are equal once, and writes down what is done."""

    def __init__(
        self,
        translator: KeepingTranslator,
        options: dict[str, Any],
        done: "_Done",
        watch: Watch,
        tell: Callable[[str], object],
        record: Record,
    ) -> None:
        self._translator, self._options, self._tell, self._record = translator, options, tell, record
        self._done, self._watch = done, watch

    def __call__(self, texts: Sequence[MarkedText]) -> Translations:
        missing = list[MarkedText](), list[MarkedText]()
        for text in distinct(texts):
            needs_links = text.needs_links and self._translator.aligns
            if not self._done.has(text.text, needs_links):
                missing[needs_links].append(text)
        self._translate(missing[True], needs_links=True)
        self._translate(missing[False], needs_links=False)
        return [self._done.found[text.text] for text in texts]

    def _translate(self, texts: list[MarkedText], *, needs_links: bool) -> None:
        num_before, pending = self._done.num, list[tuple[str, Translation]]()
        options = {**self._options, "split_sentences": True, "alignments": needs_links}
        self._watch(num_before, num_before + len(texts))
        answers = self._translator.stream([text.text for text in texts], tell=self._tell, **options)
        for text, (best, *_) in zip(texts, answers, strict=True):
            pending.append((text.text, best))
            self._record(text, best)
            if len(pending) == _AT_A_TIME:
                self._done.add(pending)
                pending = []
            self._watch(self._done.num + len(pending), num_before + len(texts))
        self._done.add(pending)


class _Done:
    """Translations of texts, in a file whose first line tells what they belong to."""

    def __init__(self, file: BinaryIO, request: str) -> None:
        self._file = file
        self.found: dict[str, tuple[str, Links | None]] = {}
        head = json.dumps({"request": request}).encode() + b"\n"
        size = len(head)
        if file.readline() == head:
            for line in file:
                try:
                    text, translation, links = json.loads(line)
                except ValueError:  # torn
                    break
                self.found[text] = translation, links and [tuple(link) for link in links]
                size += len(line)
        else:
            file.seek(0)
            file.truncate()
            file.write(head)
        file.truncate(size)
        file.seek(size)

    @classmethod
    @contextlib.contextmanager
    def beside(cls, target: Path, request: str) -> "Iterator[_Done]":
        """Open the translations for a target, or begin them; the file goes if it has none at the end."""
        path = target.with_name(f".{target.name}.translations")
        with disk_errors(path), path.open("a+b") as file:
            lock_output(file.fileno(), target)
            file.seek(0)
            done = cls(file, request)
            try:
                yield done
            finally:
                if not done.found:
                    path.unlink()

    @property
    def num(self) -> int:
        """Number of texts."""
        return len(self.found)

    def has(self, text: str, needs_links: bool) -> bool:
        """Whether the translation of a text is there, with its alignment if that is needed."""
        return text in self.found and (not needs_links or self.found[text][1] is not None)

    def add(self, translations: Sequence[tuple[str, Translation]]) -> None:
        """Write down translations."""
        for text, found in translations:
            self.found[text] = found.text, found.links
            line = json.dumps([text, found.text, found.links], ensure_ascii=False)
            self._file.write(line.encode() + b"\n")
        self._file.flush()
