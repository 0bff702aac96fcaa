"""`allyouneed transcribe`: transcribes the files named on standard input, one per line."""

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from allyouneed.cli.line_output import StreamOutput
from allyouneed.cli.request_lines import STANDARD_INPUT, FailureLog, Unread, input_windows
from allyouneed.cli.shared_options import AtLeastOne, Computing, SearchOptions
from allyouneed.data.lines import Line
from allyouneed.tasks.requests import Answer, Failure, TranscribeRequest

if TYPE_CHECKING:
    from allyouneed.tasks.translation.outputs import Translation

    Stream = Callable[[Iterable[TranscribeRequest | Failure]], Iterator[Answer[Translation] | Failure]]


def transcribe(
    models: list[Path],
    /,
    *,
    search: Annotated[SearchOptions, Parameter(name="*")] = SearchOptions(),
    scores: bool = False,
    batch_tokens: AtLeastOne | None = None,
    batch_size: AtLeastOne | None = None,
    computing: Computing = Computing(),
) -> int:
    """Transcribe the files of frames or speech that standard input names, one path per line.

    ```
    allyouneed transcribe runs/speech < paths.txt > texts
    cut -f 1 test.tsv | allyouneed transcribe models/digits --beam-size 1
    ```

    Writes one text per line of input, in the same order. A file that cannot be read (an array that is not
    finite, say, or speech that is not at 16 kHz) gives an empty line and a message on standard error, and the
    exit code is 9.

    Args:
        models: A run, a checkpoint in it, or a model folder; several models form an ensemble.
        search: Search settings; by default the model's own.
        scores: Write SCORE TAB TEXT: the log-probability divided by the length penalty, and the text.
        batch_tokens: Maximum frames per batch, times the beam size; default 8,192, on a GPU more.
        batch_size: Maximum files per batch.
        computing: Precision, parallelism and device.
    """
    from allyouneed.hardware.allocator import give_back_freed_memory
    from allyouneed.runs.loading import load_transcriber

    give_back_freed_memory()
    transcriber = load_transcriber(*models, **computing.for_loading())
    asked: dict[str, Any] = {"batch_tokens": batch_tokens, "batch_size": batch_size, **search.settings()}
    asked["workers"] = computing.workers
    stream: "Stream" = partial(transcriber.answer, **asked)
    stream([])  # reports wrong options before reading any input
    output, failures = StreamOutput(sys.stdout.fileno()), FailureLog(STANDARD_INPUT, f"{STANDARD_INPUT}:{{}}")
    for lines in input_windows():
        for answer in map(failures.record, stream(map(_request, lines))):
            if isinstance(answer, Failure):
                output.write([""])
            else:
                text = answer.result.text
                output.write([f"{answer.result.score!r}\t{text}" if scores else text])
    return failures.exit_code()


def _request(line: Line) -> TranscribeRequest | Failure:
    if line.error is not None:
        return Unread(line.number, line.error)
    return TranscribeRequest(line.number, line.text)
