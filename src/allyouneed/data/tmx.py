"""Reads sentence pairs from translation memories (TMX 1.1 to 1.4b), unit by unit."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple
from xml.parsers import expat

from allyouneed.data.compressed import BLOCK_BYTES, open_compressed
from allyouneed.data.corpus import CleaningReport, DropReason, Pair, counts_of
from allyouneed.data.lines import LineCounts, reading_errors, too_large
from allyouneed.errors import MAX_REPORTED, DataError, UsageError
from allyouneed.language_codes import are_same, distance, language_parts, plain_code

_BEGIN: Final = re.compile(
    rb"(\xff\xfe|\xfe\xff|\xef\xbb\xbf)?\s*(<\?xml[^>\t]*\?>[ \r\n]*<|<!DOCTYPE tmx|<tmx[ \r\n>])"
)
_BEGIN_BYTES: Final = 1_000
_CODES: Final = {"bpt", "ept", "it", "ph", "ut"}
"""Elements of a segment that hold the codes of another format, such as tags of HTML."""
_LINE_ENDS: Final = re.compile(r"[ \t\r\n]*[\t\r\n][ \t\r\n]*")
_MOST_BYTES: Final = 1 << 24
"""Bytes in which a unit must end, to bound memory."""
_MOST_NESTED: Final = 100
"""Number of elements within each other, to bound memory."""

Languages = tuple[str | None, str | None]
"""The codes of the source language and of the target language."""


class _Unit(NamedTuple):
    line: int
    """The number of the line where it begins."""
    variants: list[tuple[str, str]]
    """The code and the text of each variant."""


def is_xml(file: Path) -> bool:
    """Whether a file, plain or compressed, is XML, in UTF-8 or UTF-16; what cannot be read twice is not."""
    with reading_errors(str(file), LineCounts()):
        if not file.is_file():
            return False
        with open_compressed(file) as stream:
            head = stream.read(_BEGIN_BYTES)
    return b"\0\0" not in head[:4] and _BEGIN.match(head.replace(b"\0", b"")) is not None


def read_tmx(
    file: Path, report: CleaningReport, languages: Languages, *, max_bytes: int | None = None
) -> Iterator[Pair]:
    """Read a pair from each unit: the text closest to each language, the first of several.

    A code stands for its language with any region, in its script; but if it has one itself, and the file has
    just that code, it stands for that. A pair has the number of the line where its unit begins, or the next
    number if several units share a line. Units without one of the languages yield a dropped pair.

    Raises:
        UsageError: A language is not given.
        DataError: The file is no TMX or malformed, declares entities, has more than `max_bytes`, or has no
            unit in both languages.
    """
    sides = _codes_of(file, languages, max_bytes)
    number = num_pairs = 0
    for line, variants in _units(file, counts_of(file, report), max_bytes):
        number = max(number + 1, line)
        source, target = (_text_in(side, variants) for side in sides)
        if source is None or target is None:
            yield Pair("", "", number, str(file), DropReason.NO_TRANSLATION)
        else:
            num_pairs += 1
            yield Pair(source, target, number, str(file))
    if not num_pairs:
        raise DataError(f"{file}: no unit has both {' and '.join(map(str, languages))}; check the languages")


def _codes_of(file: Path, languages: Languages, max_bytes: int | None) -> list[dict[str, int]]:
    """The codes in a file that stand for each of two languages, and how far each is from it."""
    units = _units(file, LineCounts(), max_bytes)
    present = {code: None for _, variants in units for code, _ in variants if code}
    if not present:
        raise DataError(f"{file}: has no units with languages; give a translation memory with some")
    names = ", ".join(sorted(present)[:MAX_REPORTED])
    settings = ["source_language", "target_language"]
    if not all(languages):
        raise UsageError(
            f"{file}: is a translation memory in {names}; choose two by source_language and target_language",
            settings=settings,
        )
    found = [_fitting(wanted or "", present) for wanted in languages]
    for wanted, codes in zip(languages, found, strict=True):
        if not codes:
            raise DataError(f"{file}: has no text of the language {wanted}; it has {names}")
    if found[0].keys() & found[1].keys():
        raise DataError(
            f"{file}: {languages[0]} and {languages[1]} are the same here; it has {names}; choose two by "
            "source_language and target_language",
            settings=settings,
        )
    return found


def _fitting(wanted: str, present: Iterable[str]) -> dict[str, int]:
    """The codes in a file that stand for a language, and how far each is from it."""
    apart = {code: far for code in present if (far := distance(wanted, code)) is not None}
    fitting = {code: far for code, far in apart.items() if are_same(wanted, code)} or apart
    exact = [code for code in fitting if plain_code(code) == plain_code(wanted)]
    exact = exact or [code for code, far in fitting.items() if not far]
    return dict.fromkeys(exact, 0) if exact and len(language_parts(wanted)) > 1 else fitting


def _text_in(codes: dict[str, int], variants: list[tuple[str, str]]) -> str | None:
    """The text of a unit whose code is the closest of these, the first of several."""
    fitting = [variant for variant in variants if variant[0] in codes]
    return min(fitting, key=lambda variant: codes[variant[0]])[1] if fitting else None


def _units(file: Path, counts: LineCounts, max_bytes: int | None) -> Iterator[_Unit]:
    reader, num_bytes, num_before_unit = _Reader(file), 0, 0
    with reading_errors(str(file), counts), open_compressed(file) as stream:
        while block := stream.read(BLOCK_BYTES):
            num_bytes += len(block)
            if max_bytes is not None and num_bytes > max_bytes:
                raise too_large(str(file), counts.num_lines, max_bytes)
            if units := reader.read(block):
                num_before_unit = num_bytes
                yield from units
            elif num_bytes - num_before_unit > _MOST_BYTES:
                raise reader.fault(f"more than {_MOST_BYTES:,} bytes without the end of a unit; split it")
            counts.num_lines = reader.num_lines
        yield from reader.read(b"", is_end=True)
        counts.num_lines = reader.num_lines


class _Reader:
    """Parses a file, which messages name, block by block."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._add
        self._parser.EntityDeclHandler = self._refuse_entity
        self._parser.SkippedEntityHandler = self._refuse_entity
        self._units: list[_Unit] = []
        self._unit, self._language = _Unit(1, []), ""
        self._text: list[str] | None = None
        self._num_open = self._num_open_in_code = 0

    @property
    def num_lines(self) -> int:
        return self._parser.CurrentLineNumber - (self._parser.CurrentColumnNumber == 0)

    def read(self, block: bytes, *, is_end: bool = False) -> list[_Unit]:
        """The units that end in the next block; raises DataError if the file is malformed, or no TMX."""
        self._units = []
        try:
            self._parser.Parse(block, is_end)
        except expat.ExpatError as error:
            raise DataError(
                f"{self._file}:{error.lineno}:{error.offset + 1}: malformed XML, "
                f"{expat.ErrorString(error.code)}; correct it, or export the file again"
            ) from None
        except (LookupError, ValueError) as error:
            raise self.fault(
                f"{error}; convert it to UTF-8 with iconv, and say so in its first line"
            ) from None
        return self._units

    def fault(self, fault: str) -> DataError:
        line, column = self._parser.CurrentLineNumber, self._parser.CurrentColumnNumber + 1
        return DataError(f"{self._file}:{line}:{column}: {fault}")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        name = tag.rpartition(":")[2]
        if not self._num_open and name != "tmx":
            raise self.fault(f"<{tag}>, but a translation memory begins with <tmx>; convert the file to TMX")
        self._num_open += 1
        if self._num_open > _MOST_NESTED:
            raise self.fault(f"more than {_MOST_NESTED} elements within each other; check the file")
        if self._num_open_in_code or (self._text is not None and name in _CODES):
            self._num_open_in_code += 1
        elif name == "tu":
            self._unit = _Unit(self._parser.CurrentLineNumber, [])
        elif name == "tuv":
            self._language = attributes.get("xml:lang") or attributes.get("lang", "")
        elif name == "seg":
            self._text = []

    def _end(self, tag: str) -> None:
        self._num_open -= 1
        name = tag.rpartition(":")[2]
        if self._num_open_in_code:
            self._num_open_in_code -= 1
        elif name == "seg" and self._text is not None:
            text = _LINE_ENDS.sub(" ", "".join(self._text)).strip(" ")
            self._unit.variants.append((self._language, text))
            self._text = None
        elif name == "tu":
            self._units.append(self._unit)

    def _add(self, text: str) -> None:
        if self._text is not None and not self._num_open_in_code:
            self._text.append(text)

    def _refuse_entity(self, name: str, *_: object) -> None:
        raise self.fault(f"the entity {name}, which is not read; replace it by its text")
