"""The glossaries of a server: one file each in a folder of the operator, which survive a restart."""

import json
import re
import uuid
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, Final

from allyouneed.data.lines import Line
from allyouneed.data.strict_json import parse_object
from allyouneed.errors import DataError
from allyouneed.storage import publish
from allyouneed.terms.glossary import Glossary

MOST_GLOSSARIES: Final = 1_000
_MOST_BYTES: Final = 1 << 23
_MOST_LOADED: Final = 16
"""Number of glossaries whose terms are in memory."""
_ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SUFFIX: Final = ".json"


@dataclass(frozen=True)
class GlossaryInfo:
    """A glossary without its terms; languages are DeepL's codes in small letters."""

    glossary_id: str
    name: str
    source_lang: str
    target_lang: str
    creation_time: str
    entry_count: int


class GlossaryFolder:
    """Glossaries by id. Several threads may call its methods.

    Raises:
        DataError: A file in the folder is no glossary.
        DiskError: The folder cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._lock = folder, Lock()
        self._infos = dict[str, GlossaryInfo]()
        with publish.disk_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            files = sorted(
                file for file in folder.iterdir() if _ID.fullmatch(file.stem) and file.suffix == _SUFFIX
            )
        for file in files:
            self._infos[file.stem] = _read(file)[0]
        self.glossary = lru_cache(_MOST_LOADED)(self._glossary)
        """Returns the glossary with an id that there is, ready for use; ids never come back."""

    def all(self) -> list[GlossaryInfo]:
        """All glossaries, the oldest first."""
        return sorted(self._infos.values(), key=lambda info: info.creation_time)

    def get(self, glossary_id: str) -> GlossaryInfo | None:
        """The glossary with an id, if there is one."""
        return self._infos.get(glossary_id)

    def entries(self, glossary_id: str) -> list[tuple[str, str]]:
        """The terms of a glossary that there is."""
        return _read(self._file(glossary_id))[1]

    def _glossary(self, glossary_id: str) -> Glossary:
        return as_glossary(self.entries(glossary_id))

    def create(self, name: str, languages: tuple[str, str], entries: list[tuple[str, str]]) -> GlossaryInfo:
        """Store a glossary, all or nothing.

        Raises:
            DataError: There are too many glossaries, or an entry is not usable.
            DiskError: The disk is full or fails.
        """
        as_glossary(entries)
        time = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        info = GlossaryInfo(str(uuid.uuid4()), name, *languages, time, len(entries))
        content = json.dumps({**asdict(info), "entries": entries}, ensure_ascii=False)
        with self._lock:
            if len(self._infos) >= MOST_GLOSSARIES:
                raise DataError(f"more than {MOST_GLOSSARIES:,} glossaries; delete some")
            publish.write_text(self._file(info.glossary_id), content)
            self._infos[info.glossary_id] = info
        return info

    def delete(self, glossary_id: str) -> None:
        """Delete a glossary that there is."""
        with self._lock, publish.disk_errors(self._folder):
            self._file(glossary_id).unlink(missing_ok=True)
            self._infos.pop(glossary_id, None)

    def _file(self, glossary_id: str) -> Path:
        assert _ID.fullmatch(glossary_id)
        return self._folder / f"{glossary_id}{_SUFFIX}"


def as_glossary(entries: Iterable[tuple[str, str]]) -> Glossary:
    """A glossary of sources and targets; raises DataError if one is not usable."""
    lines = (Line(number, "\t".join(entry)) for number, entry in enumerate(entries, start=1))
    return Glossary.of_lines(lines, "entries", has_forms=False)


def _read(file: Path) -> tuple[GlossaryInfo, list[tuple[str, str]]]:
    with publish.disk_errors(file):
        content = file.read_bytes()[: _MOST_BYTES + 1]
    try:
        if len(content) > _MOST_BYTES:
            raise ValueError
        found: dict[str, Any] = parse_object(content.decode())
        entries = [(str(source), str(target)) for source, target in found.pop("entries")]
        return GlossaryInfo(**found), entries
    except (DataError, ValueError, KeyError, TypeError):
        raise DataError(f"{file}: is no glossary that this server wrote; move it away") from None
