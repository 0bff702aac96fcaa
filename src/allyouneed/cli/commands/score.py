"""`allyouneed score`: the log-probability of given translations, line by line."""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from itertools import count, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from allyouneed.cli.corpus_options import read_pairs_for
from allyouneed.cli.line_output import StreamOutput
from allyouneed.cli.request_lines import FailureLog, Unread
from allyouneed.cli.shared_options import Computing
from allyouneed.config.run import LengthNormalization
from allyouneed.data.lines import read_each_line, source_name
from allyouneed.data.tab_separated import read_each_pair
from allyouneed.errors import DataError, UsageError, notice
from allyouneed.tasks.requests import Answer, Failure, ScoreRequest

if TYPE_CHECKING:
    from allyouneed.tasks.translation.pair_scores import PairScore


def score(
    models: list[Path],
    /,
    *,
    source: Path | None = None,
    target: Path | None = None,
    pairs: Path | None = None,
    to: str | None = None,
    from_: Annotated[str, Parameter(name="--from")] = "",
    normalized: bool = False,
    tokens: bool = False,
    length_penalty: float | None = None,
    length_normalization: LengthNormalization | None = None,
    computing: Computing = Computing(),
) -> int:
    """Write the log-probability of each target line given its source line (forced decoding).

    ```
    allyouneed score runs/first --source test.en --target test.de > test.log_probs
    allyouneed score runs/first --pairs test.tsv > test.log_probs
    allyouneed score models/a models/b --source test.en --target test.de --tokens | jq .score
    allyouneed score models/speech --pairs test.tsv
    ```

    Writes one line per pair, in the same order: natural logarithms that include the end symbol. A pair that
    cannot be scored (not UTF-8, too long) gives an empty line and a message on standard error, and the exit
    code is 9. A summary on standard error gives the numbers of pairs and tokens and the perplexity.

    Args:
        models: A run, a checkpoint in it, or a model folder; several models form an ensemble.
        source: Source sentences, or for a transcriber paths, one per line; - is standard input.
        target: Their translations, line by line; - is standard input.
        pairs: Lines of source TAB target, or a TMX, instead of `--source` and `--target`; - is stdin.
        to: Code of the language of the translations, for a model of several.
        from_: Code of the language of the sources, for a model that must be told it.
        normalized: Divide the log-probability by the length penalty, which gives the score that search uses.
        tokens: Write a JSON object per line: log_prob, score (divided by the length penalty), tokens
            (sub-words and the end symbol) and token_log_probs.
        length_penalty: Exponent alpha of the length penalty; by default the model's own setting.
        length_normalization: Divisor of scores: the paper's ((5 + n) / 6)^alpha, n, or 1; by default the
            model's own setting.
        computing: Precision, parallelism and device.
    """
    from allyouneed.runs.loading import load_scorer

    if tokens and normalized:
        raise UsageError("--normalized: --tokens writes the normalized score too; leave it out")
    if not (tokens or normalized) and (length_penalty is not None or length_normalization is not None):
        raise UsageError(
            "--length-penalty, --length-normalization: change normalized scores; add --normalized or --tokens"
        )
    requests = _requests(source, target, pairs, models[0])
    scorer = load_scorer(*models, to=to, source=from_, **computing.for_loading())
    answers = scorer.answer_pairs(
        requests,
        workers=computing.workers,
        length_penalty=length_penalty,
        length_normalization=length_normalization,
    )
    return _write(answers, normalized, tokens)


def _write(answers: "Iterator[Answer[PairScore] | Failure]", normalized: bool, tokens: bool) -> int:
    from allyouneed.evaluation.scores import perplexity

    output, failures = StreamOutput(sys.stdout.fileno()), FailureLog("pairs", "line {}")
    log_prob, num_tokens, num_pairs = 0.0, 0, 0
    for answer in map(failures.record, answers):
        if isinstance(answer, Failure):
            output.write([""])
            continue
        pair = answer.result
        number = repr(pair.score if normalized else pair.log_prob)
        output.write([json.dumps(asdict(pair), ensure_ascii=False) if tokens else number])
        log_prob += pair.log_prob
        num_tokens += len(pair.tokens)
        num_pairs += 1
    summary = f"{num_pairs:,} pairs"
    if num_pairs:
        summary += f", {num_tokens:,} target tokens with the end symbols, log-probability {log_prob:.2f}"
        summary += f", perplexity {perplexity(-log_prob, num_tokens).value:.4f}"
    notice(summary)
    return failures.exit_code()


def _requests(
    source: Path | None, target: Path | None, pairs: Path | None, model: Path
) -> Iterator[ScoreRequest | Failure]:
    if pairs is not None and source is None and target is None:
        from allyouneed.data.corpus_files import is_tab_separated  # which takes a while

        if not is_tab_separated(pairs):
            return map(ScoreRequest, count(1), *read_pairs_for(model, pairs))
        return (
            Unread(number, pair) if isinstance(pair, DataError) else ScoreRequest(number, *pair)
            for number, pair in enumerate(read_each_pair(pairs), start=1)
        )
    if pairs is not None or source is None or target is None:
        raise UsageError("give --source and --target, two line-aligned files, or --pairs, one file of both")
    if source == target == Path("-"):
        raise UsageError("--source and --target: only one of them can be standard input; name a file")
    return _of_files(source, target)


def _of_files(source_file: Path, target_file: Path) -> Iterator[ScoreRequest | Failure]:
    number = 0
    for source, target in zip_longest(read_each_line(source_file), read_each_line(target_file)):
        if source is None or target is None:
            files = (source_file, target_file) if source else (target_file, source_file)
            longer, shorter = map(source_name, files)
            raise DataError(
                f"{longer} has a line {number + 1:,}, but {shorter} has {number:,} lines;"
                " give two line-aligned files"
            )
        number = source.number
        if errors := [line.error for line in (source, target) if line.error is not None]:
            messages = [message for error in errors for message in error.messages]
            yield Unread(number, DataError(messages, label=errors[0].label))
        else:
            yield ScoreRequest(number, source.text, target.text)
