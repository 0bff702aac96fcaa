"""`allyouneed translate`: translates standard input, line by line."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from allyouneed.errors import UsageError, in_flags
from allyouneed.interfaces.account import Account
from allyouneed.interfaces.computing import AS_USUAL, Computing
from allyouneed.interfaces.console import notice
from allyouneed.interfaces.line_output import LineOutput, StreamOutput, resumed_output
from allyouneed.interfaces.number_options import AtLeastOne, Outputs
from allyouneed.interfaces.requests import STANDARD_INPUT, Format, JsonLines, PlainText, input_windows
from allyouneed.interfaces.search_options import AS_THE_MODEL_SAYS, SearchOptions
from allyouneed.tasks.requests import Failure, TranslationRequest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allyouneed.interfaces.requests import Answered
    from allyouneed.tasks.translation.options import TranslateOptions

    Stream = Callable[[Iterable[TranslationRequest | Failure]], Iterator[Answered]]


@Parameter(name="*")
@dataclass(frozen=True)
class LineOptions:
    """Format of input and output lines."""

    n_best: Outputs | None = None
    """Write the N best translations of each line, or N samples, as LINE TAB RANK TAB SCORE TAB TEXT; always N
    rows per line, padded with empty ones."""
    scores: bool = False
    """Write SCORE TAB TEXT: the log-probability divided by the length penalty or, with --mbr, the expected
    utility."""
    alignments: bool = False
    """Append TAB ALIGNMENT: pairs of source and target words, such as `0-0 1-2`."""
    jsonl: bool = False
    """Read one JSON object per line (text, id, target_prefix) and write one (id, translations or error)."""
    target_prefix: str = ""
    """First words of each translation; with --jsonl, of objects without a target_prefix."""
    split_sentences: bool = False
    """Split each line into sentences, translate them separately, and join the translations."""
    too_long: Literal["split", "error"] = "split"
    """Lines too long for the model: translate them in parts, with a notice, or report an error."""
    resume_output: Path | None = None
    """Write to this file, and continue it if an earlier run was interrupted; repeat the same model, options
    and input."""

    def form(self) -> Format:
        """How lines are read and written."""
        if self.jsonl and self.scores:
            raise UsageError("--scores: --jsonl always writes scores; leave it out")
        return JsonLines() if self.jsonl else PlainText(self.n_best, self.scores, self.alignments)


def translate(
    models: list[Path],
    /,
    *,
    search: Annotated[SearchOptions, Parameter(name="*")] = AS_THE_MODEL_SAYS,
    lines: LineOptions = LineOptions(),
    batch_tokens: AtLeastOne = 8_192,
    batch_size: AtLeastOne | None = None,
    shortlist: Path | None = None,
    computing: Computing = AS_USUAL,
) -> int:
    """Translate standard input, line by line, to standard output.

    ```
    allyouneed translate runs/first < test.en > test.de
    echo "A dog runs." | allyouneed translate models/first --beam-size 8 --n-best 4 --scores
    allyouneed translate models/first --split-sentences --resume-output book.de < book.en
    echo '{"id": 7, "text": "A dog runs."}' | allyouneed translate models/first --jsonl
    allyouneed translate runs/seed1 runs/seed2 runs/seed3 < test.en > test.de
    allyouneed translate runs/first --mbr 64 --top-p 0.95 < test.en > test.de
    ```

    Writes one line per input line, in the same order. A line that cannot be translated (because it is not
    UTF-8, say) gives an empty line and a message on standard error, and the exit code is 9.

    Args:
        models: A run, a checkpoint in it, or a model folder; several models form an ensemble.
        search: Search settings; by default the model's own.
        lines: Format of input and output lines.
        batch_tokens: Maximum source tokens per batch, times the beam size or the samples per line; limits
            memory.
        batch_size: Maximum lines per batch.
        shortlist: A folder made by `allyouneed shortlist`; restricts outputs to its sub-words, for speed.
        computing: Precision, parallelism and device.
    """
    from allyouneed.hardware.memory import give_back_freed_memory
    from allyouneed.tasks.loading import load_translator

    give_back_freed_memory()
    translator = load_translator(*models, shortlist=shortlist, **computing.for_loading())
    options: TranslateOptions = {
        **search.settings(),
        "alignments": lines.alignments,
        "batch_tokens": batch_tokens,
        "batch_size": batch_size,
        "workers": computing.workers,
        "split_sentences": lines.split_sentences,
        "too_long": lines.too_long,
    }
    stream: Stream = partial(translator.answer, n_best=lines.n_best or 1, **options)
    for answer in stream([TranslationRequest(0, "", lines.target_prefix)]):  # reports wrong options at once
        if isinstance(answer, Failure):
            raise answer.error
    return _answer(lines, stream, translator.lost_sentences)


def _answer(lines: LineOptions, stream: "Stream", lost_sentences: Callable[[str, str], str | None]) -> int:
    """Translate standard input and return the exit code."""
    form, account = lines.form(), Account(STANDARD_INPUT, f"{STANDARD_INPUT}:{{}}")
    watches = not lines.split_sentences
    with _output(lines.resume_output, form.rows_per_line) as output:
        for window in input_windows():
            requests = [
                form.read(line, lines.target_prefix) for line in window if line.number >= output.first
            ]
            for asked, answer in zip(requests, stream(asked.request for asked in requests), strict=True):
                output.write(form.write(asked, account.told(answer)))
                if not watches or isinstance(answer, Failure) or isinstance(asked.request, Failure):
                    continue
                if lost := lost_sentences(asked.request.text, answer.result[0].text):
                    place, lost = f"{STANDARD_INPUT}:{answer.id}", in_flags(lost, ["split_sentences"])
                    notice(f"{place}: {lost} (later texts are not checked)")
                    watches = False
        output.finish()
    return account.exit_code()


@contextlib.contextmanager
def _output(resumed: Path | None, rows_per_line: int) -> Iterator[LineOutput]:
    """Standard output, or the file to continue."""
    if resumed is None:
        yield StreamOutput(sys.stdout.fileno())
        return
    with resumed_output(resumed, rows_per_line) as output:
        if output.num_answers:
            notice(f"{resumed}: continuing at line {output.num_answers + 1:,}")
        yield output
