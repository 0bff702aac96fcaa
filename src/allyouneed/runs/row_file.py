"""A file of rows about lines, tab separated, that a killed process leaves for the next one to go on with."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from allyouneed.data.lines import encode_lines, read_lines
from allyouneed.errors import DataError
from allyouneed.storage.publish import disk_errors, lock_output

_LINES_AT_ONCE = 2_048

MakeRows = Callable[[slice], Iterable[Sequence[str]]]
"""Makes the row of each line of a part of the text; no value has a tab or a line break."""


@dataclass(frozen=True)
class RowFile:
    """A row for each line of a text, in their order; one column has the line itself."""

    file: Path
    column: int
    """Column of the line, from 0."""
    text: Path
    """File of the text, to be named in messages."""

    def complete(
        self,
        lines: Sequence[str],
        make_rows: MakeRows,
        watch: Callable[[int], AbstractContextManager[Callable[[int], None]]],
    ) -> None:
        """Write the rows that are missing.

        Args:
            lines: The whole text.
            make_rows: Makes the rows of a part of it.
            watch: Shows the progress, given the number of rows to write.

        Raises:
            DataError: The text has changed since the file was begun.
            LockedError: Another process is writing the file.
        """
        with disk_errors(self.file), self.file.open("a+b") as rows:
            lock_output(rows.fileno(), self.file)
            num_done = self._num_done(rows, lines)
            with watch(len(lines) - num_done) as advance:
                for start in range(num_done, len(lines), _LINES_AT_ONCE):
                    part = slice(start, min(start + _LINES_AT_ONCE, len(lines)))
                    rows.write(encode_lines(["\t".join(row) for row in make_rows(part)]))
                    rows.flush()
                    advance(part.stop - start)

    def numbers(self, column: int) -> Iterator[float]:
        """The number in a column of each row; raises DataError for a row that has none there."""
        for number, line in enumerate(read_lines(self.file), start=1):
            try:
                yield float(line.split("\t")[column])
            except (IndexError, ValueError):
                message = f"has no number in column {column + 1}; correct the line"
                raise DataError(f"{self.file}:{number}: {message}") from None

    def _num_done(self, rows: BinaryIO, lines: Sequence[str]) -> int:
        """The number of complete rows, which are of these lines; a torn one is removed."""
        rows.seek(0)
        whole, end, _ = rows.read().rpartition(b"\n")
        rows.truncate(len(whole + end))
        written = [row.split("\t") for row in whole.decode(errors="replace").split("\n")] if end else []
        if [row[self.column :][:1] for row in written] != [[line] for line in lines[: len(written)]]:
            raise DataError(
                f"{self.text}: has changed since its translation began; restore it, or train a new run"
            )
        return len(written)
