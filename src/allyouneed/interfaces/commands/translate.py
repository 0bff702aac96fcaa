"""`allyouneed translate`: lines in, as many lines out, in their order."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from allyouneed.data.lines import read_each_line, write_line
from allyouneed.errors import LINE_FAILURES_EXIT_CODE, DataError
from allyouneed.interfaces.console import notice
from allyouneed.interfaces.device import Device, torch_device

if TYPE_CHECKING:
    from allyouneed.translation import Translation


def translate(
    model: Path,
    /,
    *,
    beam_size: int | None = None,
    length_penalty: float | None = None,
    length_normalization: Literal["gnmt", "average", "none"] | None = None,
    n_best: int | None = None,
    scores: bool = False,
    batch_tokens: int = 8_192,
    batch_size: int | None = None,
    device: Device = "auto",
) -> int:
    """Translate standard input, line by line, to standard output.

    ```
    allyouneed translate runs/first < test.en > test.de
    echo "A dog runs." | allyouneed translate models/first --beam-size 8 --n-best 4 --scores
    ```

    As many lines come out as go in, in their order. A line that cannot be translated (no UTF-8, too long)
    becomes an empty line and a message on standard error, and the exit code is 9.

    Args:
        model: A run, a checkpoint in it, or a model folder.
        beam_size: Hypotheses kept a step; 1 is greedy search. This and the next two are by default what
            the model's configuration says.
        length_penalty: The exponent alpha of the length penalty.
        length_normalization: What scores are divided by: the paper's ((5 + n) / 6)^alpha, n, or 1.
        n_best: Write the best N translations of each line, as LINE TAB RANK TAB SCORE TAB TEXT; always N
            rows a line, empty ones where there are fewer.
        scores: Write SCORE TAB TEXT; the score is the log-probability divided by the length penalty.
        batch_tokens: Source tokens computed at once, times the beam size: a bound on memory.
        batch_size: The most lines computed at once.
        device: Where to compute.
    """
    from allyouneed.translation import load

    translator = load(model, torch_device(device))
    if sys.stdin.isatty():
        notice("reading from the terminal: one sentence a line, end with Ctrl-D")
    lines = _StandardInput()
    found = translator.stream(
        lines.texts(),
        n_best=1 if n_best is None else n_best,
        batch_tokens=batch_tokens,
        batch_size=batch_size,
        failed=lines.fail,
        beam_size=beam_size,
        length_penalty=length_penalty,
        length_normalization=length_normalization,
    )
    for number, translations in enumerate(found, start=1):
        for row in _rows(number, translations, n_best, scores):
            write_line(sys.stdout.buffer, row)
    return LINE_FAILURES_EXIT_CODE if lines.num_failed else 0


class _StandardInput:
    """The texts of standard input, one for each line, and an account of those that failed."""

    def __init__(self) -> None:
        self.num_failed = 0
        self._number = 0

    def texts(self) -> Iterator[str]:
        """The text of each line; none of one that cannot be read."""
        for line in read_each_line(Path("-")):
            self._number = line.number
            if line.error is not None:
                self._report(line.error)
            yield line.text

    def fail(self, error: DataError) -> None:
        """Say why the line that was read last cannot be translated."""
        self._report(DataError(f"standard input:{self._number}: {error.messages[0]}", label=error.label))

    def _report(self, error: DataError) -> None:
        self.num_failed += 1
        print(*error.lines(), sep="\n", file=sys.stderr)


def _rows(number: int, translations: list["Translation"], n_best: int | None, scores: bool) -> Iterator[str]:
    if n_best is None:
        best = translations[0]
        yield f"{best.score!r}\t{best.text}" if scores else best.text
        return
    for rank in range(1, n_best + 1):
        if rank <= len(translations):
            translation = translations[rank - 1]
            yield f"{number}\t{rank}\t{translation.score!r}\t{translation.text}"
        else:
            yield f"{number}\t{rank}\t\t"
