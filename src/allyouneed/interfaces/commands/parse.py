"""`allyouneed parse`: sentences in, as many trees out, in their order."""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cyclopts import Parameter

from allyouneed.config.run import DecodingPrecision
from allyouneed.data.lines import Line
from allyouneed.data.windows import read_windows
from allyouneed.errors import MAX_REPORTED
from allyouneed.interfaces.account import Account, Unread
from allyouneed.interfaces.console import notice
from allyouneed.interfaces.device import Device, torch_device
from allyouneed.interfaces.line_output import StreamOutput
from allyouneed.interfaces.number_options import AtLeastOne, Share, Threads, Whole
from allyouneed.interfaces.reports.tree_drawing import draw_trees
from allyouneed.storage.publish import require_file, write_text
from allyouneed.tasks.requests import Answer, Failure, Id, ParseRequest

if TYPE_CHECKING:
    from allyouneed.tasks.parsing.parser import Parse
    from allyouneed.tasks.parsing.trees import Tree

    Stream = Callable[[Iterable[ParseRequest | Failure]], Iterator[Answer[Parse] | Failure]]

_NAME = "standard input"

_MOST_DRAWN = 100


@Parameter(name="*")
@dataclass(frozen=True)
class LineOptions:
    """What lines hold, and what is written."""

    tokenized: bool = False
    """Lines are of words as the Penn Treebank has them, with spaces between. Otherwise they are split into
    such words first."""
    pretty: bool = False
    """Write each constituent on a line of its own, and an empty line behind each tree."""
    scores: bool = False
    """Write SCORE TAB TREE; the score is the log-probability divided by the length penalty."""
    min_confidence: Share = 0.0
    """Leave the line of a tree empty where the geometric mean of the probabilities of its symbols is smaller:
    what is left is worth training on."""
    svg: Path | None = None
    """Draw the trees into this file, too, one below another; the first 100 of them."""

    def rows(self, parsed: "Parse") -> Sequence[str]:
        """The lines that answer a line."""
        tree = parsed.tree.indented() if self.pretty and parsed.tree else str(parsed)
        rows = (f"{parsed.score!r}\t{tree}" if self.scores else tree).split("\n")
        return [*rows, ""] if self.pretty else rows


def parse(
    models: list[Path],
    /,
    *,
    lines: LineOptions = LineOptions(),
    unconstrained: bool = False,
    beam_size: Whole | None = None,
    length_penalty: float | None = None,
    max_extra_tokens: Whole | None = None,
    batch_tokens: AtLeastOne = 8_192,
    precision: DecodingPrecision = "float32",
    workers: Threads | None = None,
    threads: Threads = 1,
    device: Device = "auto",
) -> int:
    """Parse standard input, a sentence a line, to trees on standard output.

    ```
    allyouneed parse runs/parser < sentences.txt > trees.txt
    echo "She can't sleep." | allyouneed parse models/parser --pretty --svg tree.svg
    echo "She ca n't sleep ." | allyouneed parse models/parser --tokenized --scores
    allyouneed parse models/parser --min-confidence 0.8 < news.txt > silver.mrg
    ```

    One tree in Penn brackets comes out for each line, over its words, in the order of the lines; of an empty
    line an empty one. A line that cannot be parsed (it is no UTF-8, say) becomes an empty line and a message
    on standard error, and the exit code is 9.

    Args:
        models: A run, a checkpoint in it, or a model folder; several parse together, as an ensemble.
        lines: What lines hold, and what is written.
        unconstrained: Search among all outputs, as the paper does, in place of trees over the words only. An
            output that is no tree is repaired, which is told on standard error.
        beam_size: Hypotheses kept a step; the model's own setting holds where nothing is given.
        length_penalty: The exponent alpha of the length penalty; likewise.
        max_extra_tokens: The most symbols of a tree beyond the sub-words of its sentence; likewise.
        batch_tokens: Sub-words computed at once, times the beam size: a bound on memory.
        precision: Precision of the matrix products. On a CPU, bfloat16 and int8 need instructions for them.
        workers: Batches computed at once; by default as many as there are cores for.
        threads: Threads of a worker; more of them parse a single line sooner.
        device: Device to compute on.
    """
    if lines.svg:
        require_file(lines.svg)
    from allyouneed.hardware.memory import give_back_freed_memory
    from allyouneed.tasks.loading import load_parser

    give_back_freed_memory()
    parser = load_parser(*models, device=torch_device(device), precision=precision, threads=threads)
    stream: Stream = partial(
        parser.answer,
        constrained=not unconstrained,
        batch_tokens=batch_tokens,
        workers=workers,
        beam_size=beam_size,
        length_penalty=length_penalty,
        max_extra_tokens=max_extra_tokens,
    )
    stream([])  # whatever is wrong with an option is told before anything is waited for
    return _answer(stream, lines)


def _answer(stream: "Stream", options: LineOptions) -> int:
    """Answer all of standard input; the exit code."""
    if sys.stdin.isatty():
        notice("reading from the terminal: one sentence a line, end with Ctrl-D")
    output, account, trees = (
        StreamOutput(sys.stdout.fileno()),
        Account(_NAME, f"{_NAME}:{{}}"),
        _Trees(options),
    )
    for lines in read_windows(sys.stdin.buffer, _NAME):
        for answer in stream(_request(line, options.tokenized) for line in lines):
            told = account.told(answer)
            output.write(options.rows(trees.kept(told.id, _parse_of(told))))
    if options.svg:
        trees.draw(options.svg)
    trees.tell()
    return account.exit_code()


def _request(line: Line, tokenized: bool) -> "ParseRequest | Failure":
    """What is to be parsed of a line."""
    if line.error is not None:
        return Unread(line.number, line.error)
    words = [word for word in re.split("[ \t]", line.text) if word]
    return ParseRequest(line.number, words if tokenized else line.text)


def _parse_of(answer: "Answer[Parse] | Failure") -> "Parse":
    from allyouneed.tasks.parsing.parser import NO_PARSE

    return NO_PARSE if isinstance(answer, Failure) else answer.result


class _Trees:
    """What became of the trees."""

    def __init__(self, options: LineOptions) -> None:
        self._options = options
        self._num_repaired = self._num_unsure = self._num_written = 0
        self._first: list[Tree] = []

    def kept(self, line: Id, parsed: "Parse") -> "Parse":
        """What is to be written: no tree, where the parser is not sure enough of it."""
        if parsed.repaired:
            self._num_repaired += 1
            if self._num_repaired <= MAX_REPORTED:
                notice(f"{_NAME}:{line}: #repaired: the output was no tree over these words")
        if parsed.tree is None:
            return parsed
        if parsed.confidence < self._options.min_confidence:
            self._num_unsure += 1
            return replace(parsed, tree=None)
        self._num_written += 1
        if self._num_written <= _MOST_DRAWN:
            self._first.append(parsed.tree)
        return parsed

    def draw(self, path: Path) -> None:
        """Draw the first trees that were written."""
        write_text(path, draw_trees(self._first))
        if self._num_written > _MOST_DRAWN:
            notice(f"{path}: the first {_MOST_DRAWN} of {self._num_written:,} trees are drawn")

    def tell(self) -> None:
        """Say how many were repaired, or left out."""
        if self._num_repaired:
            notice(f"{_NAME}: {self._num_repaired:,} outputs were repaired")
        if self._num_unsure:
            total = self._num_unsure + self._num_written
            notice(f"{_NAME}: {self._num_unsure:,} of {total:,} trees are left out: below --min-confidence")
