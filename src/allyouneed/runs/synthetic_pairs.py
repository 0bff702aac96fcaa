"""Pairs of a text and a model's translations of it, in a file that another process can go on with."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from allyouneed.data.lines import read_lines
from allyouneed.data.monolingual_text import MonolingualText
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.errors import DataError
from allyouneed.preparation.prepared_data import PreparedData
from allyouneed.runs.row_file import RowFile

if TYPE_CHECKING:
    from allyouneed.tasks.translation.translator import Translator

_MEASURED_LINES, _COMPARED_LINES = 256, 1_000


@dataclass(frozen=True)
class SyntheticPairs:
    """Lines of `source TAB target`, of which one side is text and the other its translation."""

    file: Path
    side: str
    """The side of the text: "source" or "target"."""
    text: MonolingualText
    prepared: PreparedData
    """Data that the pairs are to be learned beside."""

    def require_suitable(self) -> None:
        """Raise DataError if the text has no letters of its side, or only lines that are too long."""
        text, side, data = self.text, self.side, self.prepared
        if not text.shares_letters(islice(read_lines(data.text("train", side)), _COMPARED_LINES)):
            raise DataError(
                f"{text.file}: has none of the letters of the {side} side of {data.directory}; give text in "
                f"the {side} language"
            )
        if not self.fitting(text.sample):
            raise DataError(
                f"{text.file}: has lines of more than {data.config.max_tokens} tokens only; give one "
                "sentence a line"
            )

    def choose(self, translator: "Translator", most_seconds: float) -> tuple[int, float]:
        """The number of lines that can be translated in a time, by the measured speed, and their seconds."""
        sample = self.fitting(self.text.sample)[:_MEASURED_LINES]
        began = time.monotonic()
        _translations(translator, sample)
        pace = (time.monotonic() - began) / len(sample)
        number = min(self.text.num_lines, max(1, int(most_seconds / pace)))
        return number, pace * number

    def write(
        self,
        translator: "Translator",
        number: int,
        watch: Callable[[int], AbstractContextManager[Callable[[int], None]]],
    ) -> int:
        """Write the first lines of the text with their translations, or the rest of them.

        Args:
            translator: The model.
            number: Number of lines. Those that are too long to train on are left out.
            watch: Shows the progress, given the number of lines to translate.

        Returns:
            The number of pairs in the file.

        Raises:
            DataError: The text has changed since the file was begun.
            LockedError: Another process is writing the file.
        """
        lines, is_target = self.fitting(self.text.first(number)), self.side == "target"

        def make_rows(part: slice) -> Iterator[tuple[str, ...]]:
            columns = lines[part], _translations(translator, lines[part])
            return zip(*columns[:: -1 if is_target else 1], strict=True)

        RowFile(self.file, int(is_target), self.text.file).complete(lines, make_rows, watch)
        return len(lines)

    def fitting(self, lines: list[str]) -> list[str]:
        """The lines that are short enough to train on, with a tag."""
        tokenizer = getattr(self.prepared.units, self.side)
        assert isinstance(tokenizer, Tokenizer)
        is_short = tokenizer.encode_corpus(lines).lengths < self.prepared.config.max_tokens
        return [line for line, fits in zip(lines, is_short.tolist(), strict=True) if fits]


def _translations(translator: "Translator", lines: Sequence[str]) -> list[str]:
    """Greedy translations: on small corpora they teach more than samples (Edunov et al., 2018)."""
    return [found.text.replace("\t", " ") for found in translator.translate(lines, beam_size=1)]
