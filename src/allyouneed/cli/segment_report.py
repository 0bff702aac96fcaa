"""The report on a translation: what was kept, moved, repaired or lost, text by text."""

import contextlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Self

from allyouneed.errors import SOME_FAILED_EXIT_CODE, UsageError, notice
from allyouneed.storage.publish import disk_errors, require_file
from allyouneed.tasks.requests import Id

if TYPE_CHECKING:
    from allyouneed.markup.marks import MarkedText
    from allyouneed.tasks.translation.outputs import Translation


class SegmentReport:
    """Writes a JSON object per text, with its spans, terms and tags.

    Args:
        file: The file to append to; None writes nothing, and no loss counts.
    """

    def __init__(self, file: BinaryIO | None, path: Path | None = None) -> None:
        self._file, self._path, self._num_lost = file, path, 0

    @classmethod
    @contextlib.contextmanager
    def appended_to(cls, path: Path | None, others: Iterable[Path | None]) -> Iterator[Self]:
        """Open a report, if there is to be one, which is none of the other files that are read or written."""
        if path is None:
            yield cls(None)
            return
        if path.resolve() in {each.resolve() for each in others if each}:
            raise UsageError(f"--report: {path} is read or written as another file; name a new one")
        require_file(path)
        with disk_errors(path), path.open("ab") as file:
            yield cls(file, path)

    def record(self, text: "MarkedText | str", best: "Translation", line: Id | None = None) -> None:
        """Write what became of the parts of a text.

        Args:
            text: The text; with its tags, if it may have some.
            best: Its best translation.
            line: Number of its line, if it is one.
        """
        if self._file is None:
            return
        content: dict[str, Any] = {} if line is None else {"line": line}
        content |= {"source": text if isinstance(text, str) else text.text, "target": best.text}
        content["kept"] = [asdict(part) for part in best.kept or ()]
        if best.is_from_memory:
            content["is_from_memory"] = True
        if not isinstance(text, str) and text.marks:
            content["tags"] = text.fates(best.text, best.links)._asdict()
        self._num_lost += sum(part.fate == "lost" for part in best.kept or ())
        self._file.write(json.dumps(content, ensure_ascii=False).encode() + b"\n")
        self._file.flush()

    def exit_code(self) -> int:
        """The exit code of the program; first says where to read what was lost."""
        if not self._num_lost:
            return 0
        lost = "1 term was" if self._num_lost == 1 else f"{self._num_lost:,} terms were"
        notice(f'{self._path}: {lost} lost; see the fate "lost"')
        return SOME_FAILED_EXIT_CODE
