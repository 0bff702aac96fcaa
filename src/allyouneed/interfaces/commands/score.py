"""`allyouneed score`: how probable a model finds given translations, line by line."""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from allyouneed.data.lines import read_each_line, write_line
from allyouneed.errors import SOME_FAILED_EXIT_CODE, DataError, UsageError
from allyouneed.interfaces.console import notice, report
from allyouneed.interfaces.device import Device, torch_device
from allyouneed.interfaces.number_options import Threads

if TYPE_CHECKING:
    from allyouneed.tasks.translation.pair_scores import PairScore


def score(
    models: list[Path],
    /,
    *,
    source: Annotated[Path, Parameter(allow_leading_hyphen=True)],
    target: Annotated[Path, Parameter(allow_leading_hyphen=True)],
    normalized: bool = False,
    tokens: bool = False,
    length_penalty: float | None = None,
    length_normalization: Literal["gnmt", "average", "none"] | None = None,
    precision: Literal["float32", "bfloat16", "int8"] = "float32",
    workers: Threads | None = None,
    threads: Threads = 1,
    device: Device = "auto",
) -> int:
    """Write the log-probability of each target line, given its source line: forced decoding.

    ```
    allyouneed score runs/first --source test.en --target test.de > test.log_probs
    allyouneed score models/a models/b --source test.en --target test.de --tokens | jq .score
    ```

    As many lines come out as there are pairs, in their order: natural logarithms, the end symbol included. A
    pair that cannot be scored (no UTF-8, too long) becomes an empty line and a message on standard error,
    and the exit code is 9. Standard error ends with the numbers of pairs and tokens and the perplexity.

    Args:
        models: A run, a checkpoint in it, or a model folder; several score together, as an ensemble.
        source: Sentences, one a line; - is standard input.
        target: The translation of each, line by line with the source; - is standard input.
        normalized: Divide the log-probability by the length penalty: the score by which search ranks.
        tokens: Write a JSON object a line: log_prob, score (divided by the length penalty), tokens,
            token_log_probs; its tokens are the target's sub-words and the end symbol.
        length_penalty: The exponent alpha of the length penalty. This and the next are by default what the
            model's configuration says.
        length_normalization: What scores are divided by: the paper's ((5 + n) / 6)^alpha, n, or 1.
        precision: Of the matrix products. On a CPU, bfloat16 and int8 want instructions for them.
        workers: Batches computed at once; by default as many as there are cores for.
        threads: Threads of a worker.
        device: Where to compute.
    """
    from allyouneed.tasks.loading import load_translator

    if tokens and normalized:
        raise UsageError("--tokens writes the normalized score too; leave out --normalized")
    files = _AlignedFiles(source, target)
    translator = load_translator(*models, device=torch_device(device), precision=precision, threads=threads)
    scores = translator.stream_scores(
        files.pairs(),
        workers=workers,
        failed=files.fail,
        length_penalty=length_penalty,
        length_normalization=length_normalization,
    )
    totals = _Totals()
    for pair in scores:
        write_line(sys.stdout.buffer, "" if pair is None else _row(pair, normalized, tokens))
        totals.add(pair)
    notice(str(totals))
    return SOME_FAILED_EXIT_CODE if files.num_failed else 0


def _row(pair: "PairScore", normalized: bool, tokens: bool) -> str:
    if tokens:
        return json.dumps(asdict(pair), ensure_ascii=False)
    return repr(pair.score if normalized else pair.log_prob)


@dataclass
class _Totals:
    log_prob: float = 0.0
    num_tokens: int = 0
    num_pairs: int = 0

    def add(self, pair: "PairScore | None") -> None:
        if pair is not None:
            self.log_prob += pair.log_prob
            self.num_tokens += len(pair.tokens)
            self.num_pairs += 1

    def __str__(self) -> str:
        from allyouneed.training.meters import perplexity_of

        if not self.num_pairs:
            return "0 pairs"
        perplexity = perplexity_of(-self.log_prob / self.num_tokens)
        return (
            f"{self.num_pairs:,} pairs, {self.num_tokens:,} target tokens with the end symbols,"
            f" log-probability {self.log_prob:.2f}, perplexity {perplexity:.4f}"
        )


class _AlignedFiles:
    """The pairs of lines of two files, and an account of those that failed."""

    def __init__(self, source: Path, target: Path) -> None:
        if source == target == Path("-"):
            raise UsageError("--source and --target: only one of them can be standard input; name a file")
        self._source, self._target = source, target
        self.num_failed = 0
        self._number = 0

    def pairs(self) -> Iterator[tuple[str, str] | None]:
        """The texts of each pair of lines; None where one of them cannot be read."""
        for source, target in zip_longest(read_each_line(self._source), read_each_line(self._target)):
            if source is None or target is None:
                longer, shorter = (self._source, self._target) if source else (self._target, self._source)
                raise DataError(
                    f"{longer} has a line {self._number + 1:,}, but {shorter} has {self._number:,} lines;"
                    " give two files of which each line matches the same line of the other"
                )
            self._number = source.number
            errors = [line.error for line in (source, target) if line.error is not None]
            if errors:
                self._report(
                    DataError([message for e in errors for message in e.messages], label=errors[0].label)
                )
            yield None if errors else (source.text, target.text)

    def fail(self, error: DataError) -> None:
        """Say why the pair that was read last cannot be scored."""
        self._report(DataError(f"line {self._number}: {error.messages[0]}", label=error.label))

    def _report(self, error: DataError) -> None:
        self.num_failed += 1
        report(error)
