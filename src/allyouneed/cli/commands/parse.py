"""`allyouneed parse`: parses standard input, one sentence per line."""

import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cyclopts import Parameter

from allyouneed.cli.line_output import StreamOutput
from allyouneed.cli.request_lines import STANDARD_INPUT, FailureLog, Unread, input_windows
from allyouneed.cli.shared_options import AtLeastOne, Computing, Share, Whole
from allyouneed.data.lines import Line
from allyouneed.errors import MAX_REPORTED, notice
from allyouneed.storage.publish import require_file, write_text
from allyouneed.tasks.parsing.tree_drawing import draw_trees
from allyouneed.tasks.requests import Answer, Failure, Id, ParseRequest

if TYPE_CHECKING:
    from allyouneed.tasks.parsing.parser import Parse
    from allyouneed.tasks.parsing.trees import Tree

    Stream = Callable[[Iterable[ParseRequest | Failure]], Iterator[Answer[Parse] | Failure]]

_MOST_DRAWN = 100


@Parameter(name="*")
@dataclass(frozen=True)
class TreeLines:
    """Format of input and output lines."""

    tokenized: bool = False
    """Lines are Penn Treebank words separated by spaces; by default they are plain text."""
    pretty: bool = False
    """Write each constituent on its own line, and an empty line after each tree."""
    scores: bool = False
    """Write SCORE TAB TREE: the log-probability divided by the length penalty, and the tree."""
    min_confidence: Share = 0.0
    """Write an empty line for a tree whose symbols' probabilities have a lower geometric mean; the others
    can serve as training data."""
    svg: Path | None = None
    """Draw the first 100 trees into this SVG file."""

    def rows(self, parsed: "Parse") -> Sequence[str]:
        """Output lines for one input line; an empty one if there is no tree."""
        if parsed.tree is None:
            return [""] * (1 + self.pretty)
        tree = parsed.tree.indented() if self.pretty else str(parsed.tree)
        rows = (f"{parsed.score!r}\t{tree}" if self.scores else tree).split("\n")
        return [*rows, ""] if self.pretty else rows


def parse(
    models: list[Path],
    /,
    *,
    lines: TreeLines = TreeLines(),
    unconstrained: bool = False,
    beam_size: Whole | None = None,
    length_penalty: float | None = None,
    max_extra_tokens: Whole | None = None,
    batch_tokens: AtLeastOne | None = None,
    computing: Computing = Computing(),
) -> int:
    """Parse standard input, one sentence per line, into trees on standard output.

    ```
    allyouneed parse runs/parser < sentences.txt > trees.txt
    echo "She can't sleep." | allyouneed parse models/parser --pretty --svg tree.svg
    echo "She ca n't sleep ." | allyouneed parse models/parser --tokenized --scores
    allyouneed parse models/parser --min-confidence 0.8 < news.txt > silver.mrg
    ```

    Writes one tree in Penn brackets per input line, in the same order; an empty line gives an empty line. A
    line that cannot be parsed (because it is not UTF-8, say) gives an empty line and a message on standard
    error, and the exit code is 9.

    Args:
        models: A run, a checkpoint in it, or a model folder; several models form an ensemble.
        lines: Format of input and output lines.
        unconstrained: Search all outputs, as the paper does, not only trees over the words. An output that is
            not a tree is repaired, with a message on standard error.
        beam_size: Number of hypotheses kept per step; by default the model's own setting.
        length_penalty: Exponent alpha of the length penalty; by default the model's own setting.
        max_extra_tokens: Maximum number of symbols of a tree beyond the sub-words of its sentence; by default
            the model's own setting.
        batch_tokens: Maximum sub-words per batch, times the beam size; limits memory. By default 8,192 on a
            CPU, and on an accelerator as many as its memory allows.
        computing: Precision, parallelism and device.
    """
    if lines.svg:
        require_file(lines.svg)
    from allyouneed.hardware.allocator import give_back_freed_memory
    from allyouneed.runs.loading import load_parser

    give_back_freed_memory()
    parser = load_parser(*models, **computing.for_loading())
    stream: Stream = partial(
        parser.answer,
        constrained=not unconstrained,
        batch_tokens=batch_tokens,
        workers=computing.workers,
        beam_size=beam_size,
        length_penalty=length_penalty,
        max_extra_tokens=max_extra_tokens,
    )
    stream([])  # reports wrong options before reading any input
    return _answer(stream, lines)


def _answer(stream: "Stream", options: TreeLines) -> int:
    from allyouneed.tasks.parsing.parser import NO_PARSE

    output, trees = StreamOutput(sys.stdout.fileno()), _Trees(options)
    failures = FailureLog(STANDARD_INPUT, f"{STANDARD_INPUT}:{{}}")
    for lines in input_windows():
        for answer in stream(_request(line, options.tokenized) for line in lines):
            failures.record(answer)
            parsed = NO_PARSE if isinstance(answer, Failure) else answer.result
            output.write(options.rows(trees.kept(answer.id, parsed)))
    trees.finish()
    return failures.exit_code()


def _request(line: Line, tokenized: bool) -> "ParseRequest | Failure":
    if line.error is not None:
        return Unread(line.number, line.error)
    words = [word for word in re.split("[ \t]", line.text) if word]
    return ParseRequest(line.number, words if tokenized else line.text)


class _Trees:
    """Counts of parsed trees, and the first ones for a drawing."""

    def __init__(self, options: TreeLines) -> None:
        self._options = options
        self._num_repaired = self._num_unsure = self._num_written = 0
        self._first: list[Tree] = []

    def kept(self, line: Id, parsed: "Parse") -> "Parse":
        """The parse to write; without its tree if the confidence is too low."""
        if parsed.repaired:
            self._num_repaired += 1
            if self._num_repaired <= MAX_REPORTED:
                reason = "the output was not a tree over these words"
                if parsed.score == -math.inf:
                    reason = "no tree over these words is short enough; raise --max-extra-tokens"
                notice(f"{STANDARD_INPUT}:{line}: #repaired: {reason}")
        if parsed.tree is None:
            return parsed
        if parsed.confidence < self._options.min_confidence:
            self._num_unsure += 1
            return replace(parsed, tree=None)
        self._num_written += 1
        if self._num_written <= _MOST_DRAWN:
            self._first.append(parsed.tree)
        return parsed

    def finish(self) -> None:
        """Draw the first trees if asked to; report the numbers of repaired trees and of those left out."""
        if (path := self._options.svg) and not self._first:
            notice(f"{path}: not written, as there is no tree to draw")
        elif path:
            write_text(path, draw_trees(self._first))
            if self._num_written > _MOST_DRAWN:
                notice(f"{path}: the first {_MOST_DRAWN} of {self._num_written:,} trees are drawn")
        if self._num_repaired:
            notice(f"{STANDARD_INPUT}: {self._num_repaired:,} outputs were repaired")
        if self._num_unsure:
            total = self._num_unsure + self._num_written
            left_out = f"{self._num_unsure:,} of {total:,} trees are left out: below --min-confidence"
            notice(f"{STANDARD_INPUT}: {left_out}")
