"""`allyouneed translate`: lines in, as many lines out, in their order."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from allyouneed.config.run import DecodingPrecision
from allyouneed.data.windows import read_windows
from allyouneed.errors import UsageError, in_flags
from allyouneed.interfaces.account import Account
from allyouneed.interfaces.console import notice
from allyouneed.interfaces.device import Device, torch_device
from allyouneed.interfaces.line_output import LineOutput, StreamOutput, resumed_output
from allyouneed.interfaces.number_options import AtLeastOne, Outputs, Threads
from allyouneed.interfaces.requests import Format, JsonLines, LineRequest, PlainText
from allyouneed.interfaces.search_options import AS_THE_MODEL_SAYS, SearchOptions
from allyouneed.tasks.requests import Failure, TranslationRequest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allyouneed.interfaces.requests import Answered
    from allyouneed.tasks.translation.options import TranslateOptions

    Stream = Callable[[Iterable[TranslationRequest | Failure]], Iterator[Answered]]

_NAME = "standard input"


@Parameter(name="*")
@dataclass(frozen=True)
class LineOptions:
    """What lines hold, and what is written."""

    n_best: Outputs | None = None
    """Write the best N translations of each line, or N samples, as LINE TAB RANK TAB SCORE TAB TEXT; always N
    rows a line, empty ones where there are fewer."""
    scores: bool = False
    """Write SCORE TAB TEXT; the score is the log-probability divided by the length penalty, or with --mbr the
    expected utility."""
    alignments: bool = False
    """Write TAB ALIGNMENT last: pairs such as `0-0 1-2` of words of source and translation."""
    jsonl: bool = False
    """Read an object a line, with text, id, target_prefix; write one, with id and translations or error."""
    target_prefix: str = ""
    """Begin each translation with these words; with --jsonl, where an object has no target_prefix."""
    split_sentences: bool = False
    """Lines are of several sentences: translate each of these by itself, and join the translations."""
    too_long: Literal["split", "error"] = "split"
    """Lines that are too long for the model are translated in parts, with a notice, or fail."""
    resume_output: Path | None = None
    """Write to this file. What an interrupted run has written to it is kept, and continued; give the same
    model, options and input again."""

    def form(self) -> Format:
        """How lines are read and written."""
        if self.jsonl and self.scores:
            raise UsageError("--scores: --jsonl has them always; leave it out")
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
    precision: DecodingPrecision = "float32",
    workers: Threads | None = None,
    threads: Threads = 1,
    device: Device = "auto",
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

    As many lines come out as go in, in their order. A line that cannot be translated (it is no UTF-8, say)
    becomes an empty line and a message on standard error, and the exit code is 9.

    Args:
        models: A run, a checkpoint in it, or a model folder; several translate together, as an ensemble.
        search: How the model translates; its own settings hold where nothing is given.
        lines: What lines hold, and what is written.
        batch_tokens: Source tokens computed at once, times the beam size or the samples of a line: a bound on
            memory.
        batch_size: The most lines computed at once.
        shortlist: A folder that `allyouneed shortlist` has made: translate faster, with its sub-words only.
        precision: Precision of the matrix products. On a CPU, bfloat16 and int8 need instructions for them.
        workers: Batches computed at once; by default as many as there are cores for.
        threads: Threads of a worker; more of them translate a single line sooner.
        device: Device to compute on.
    """
    from allyouneed.hardware.memory import give_back_freed_memory
    from allyouneed.tasks.loading import load_translator

    give_back_freed_memory()
    translator = load_translator(
        *models, device=torch_device(device), precision=precision, threads=threads, shortlist=shortlist
    )
    options: TranslateOptions = {
        **search.settings(),
        "alignments": lines.alignments,
        "batch_tokens": batch_tokens,
        "batch_size": batch_size,
        "workers": workers,
        "split_sentences": lines.split_sentences,
        "too_long": lines.too_long,
    }
    stream: Stream = partial(translator.answer, n_best=lines.n_best or 1, **options)
    _require_prefix(lines.target_prefix, stream)
    return _answer(lines, stream, translator.lost_sentences)


def _require_prefix(prefix: str, stream: "Stream") -> None:
    """Tell what is wrong with the options before anything is waited for."""
    for answer in stream([TranslationRequest(0, "", prefix)]):
        if isinstance(answer, Failure):
            raise answer.error


def _answer(lines: LineOptions, stream: "Stream", lost_sentences: Callable[[str, str], str | None]) -> int:
    """Answer all of standard input; the exit code."""
    form, account = lines.form(), Account(_NAME, f"{_NAME}:{{}}")
    watches = not lines.split_sentences
    with _output(lines.resume_output, form.rows_per_line) as output:
        for window in _windows(form, output.first, lines.target_prefix):
            for asked, answer in zip(window, stream(asked.request for asked in window), strict=True):
                output.write(form.write(asked, account.told(answer)))
                if not watches or isinstance(answer, Failure) or isinstance(asked.request, Failure):
                    continue
                if lost := lost_sentences(asked.request.text, answer.result[0].text):
                    place, lost = f"{_NAME}:{answer.id}", in_flags(lost, ["split_sentences"])
                    notice(f"{place}: {lost} (later texts are not checked)")
                    watches = False
        output.finish()
    return account.exit_code()


def _windows(form: Format, first: int, prefix: str) -> Iterator[list[LineRequest]]:
    """What has come on standard input so far and was not answered before, again and again."""
    if sys.stdin.isatty():
        notice("reading from the terminal: one sentence a line, end with Ctrl-D")
    for lines in read_windows(sys.stdin.buffer, _NAME):
        if window := [form.read(line, _NAME, prefix) for line in lines if line.number >= first]:
            yield window


@contextlib.contextmanager
def _output(resumed: Path | None, rows_per_line: int) -> Iterator[LineOutput]:
    """Standard output, or the file that is to be continued."""
    if resumed is None:
        yield StreamOutput(sys.stdout.fileno())
        return
    with resumed_output(resumed, rows_per_line) as output:
        if output.num_answers:
            notice(f"{resumed}: goes on with line {output.num_answers + 1:,}")
        yield output
