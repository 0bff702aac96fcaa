"""`allyouneed bench translate`: compares decoding speed with other software."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from allyouneed.cli.bench_results import installed, keep, results_so_far, size_of, table
from allyouneed.cli.progress import progress
from allyouneed.cli.shared_options import SEVERAL, AtLeastOne, Threads
from allyouneed.config.run import DecodingPrecision
from allyouneed.errors import UsageError

if TYPE_CHECKING:
    from allyouneed.lab.bench.decoding_workloads import DecodingTask

Peer = Literal["ctranslate2", "huggingface"]
ShapeName = Literal["small", "base", "opus", "nllb"]

_SHORT_NAMES = {"ctranslate2": "CT2", "huggingface": "HF"}
_REMARKS = (
    "Medians over rounds, in which all contenders take turns on the same sentences, each in its best layout;",
    "ratios of sentences/s are taken within a round. Layout: processes x workers x threads, and batch size.",
    "Tokens are output tokens with end symbols. ms: time of a single sentence on one thread. Grown: peak",
    "memory minus memory before the model was loaded. Same: share of translations equal to the first row's.",
    "All stop once as many hypotheses have finished as the beam is wide (allyouneed with --early-stopping);",
    "the others divide scores by n^alpha.",
)


@Parameter(name="*")
@dataclass(frozen=True)
class Conditions:
    """Conditions of the measurement.

    Args:
        beam_size: Number of hypotheses kept per step.
        length_penalty: Exponent alpha of the length penalty; by default the model's own setting.
        precision: Precision of matrix products; contenders that lack one are left out.
        against: Contenders besides this program.
        rounds: Number of rounds, after one that warms up.
        threads: Number of threads of each contender; by default one per core.
        lengths: Measure this program's time per output token at lengths from 32 to 256, on random sources as
            long as the outputs, instead of comparing speeds.
        sentences: Number of sentences of a shape.
        length: Length of all outputs of a shape, in tokens with the end symbol.
    """

    beam_size: AtLeastOne = 4
    length_penalty: float | None = None
    precision: Annotated[tuple[DecodingPrecision, ...], SEVERAL] = ("float32", "bfloat16", "int8")
    against: Annotated[tuple[Peer, ...], SEVERAL] = ("ctranslate2", "huggingface")
    rounds: AtLeastOne = 5
    threads: Threads | None = None
    lengths: bool = False
    sentences: AtLeastOne = 256
    length: AtLeastOne = 15


def translate(
    *models: Path,
    source: Path | None = None,
    reference: Path | None = None,
    shape: Annotated[tuple[ShapeName, ...], SEVERAL] = (),
    conditions: Conditions = Conditions(),
    out: Path = Path("benchmarks/results/decoding.json"),
) -> None:
    """Compare decoding speed on a CPU with other software that runs the same model.

    ```
    allyouneed bench translate models/first --source test.en --reference test.de
    allyouneed bench translate --shape base --against ctranslate2 --rounds 3
    allyouneed bench translate models/first --lengths --out speed.json
    ```

    The model is exported to CTranslate2 (`pip install 'allyouneed[ctranslate2]'`) and Hugging Face
    (`pip install 'allyouneed[huggingface]'`), as by `allyouneed export`. Each contender first tries several
    ways to use the threads and several batch sizes. With its best layout it then takes its turn in each
    round.

    Args:
        models: Runs, checkpoints in them, or model folders.
        source: Source sentences, one per line.
        reference: Reference translations, line by line, for BLEU.
        shape: Models with random weights, on random sentences as long as Multi30k's, besides or instead of
            trained models. `base` has the sizes of the paper's base model, `small` 3+3 layers, d_model 256,
            `opus` those of OPUS-MT's models, `nllb` those of NLLB-200 with 600 million parameters, for which
            transformers gets other random weights.
        conditions: Conditions of the measurement.
        out: The result file; results of the measured models are replaced in it.
    """
    if not (models or shape):
        raise UsageError("bench translate: no model; name one, or give --shape base")
    _require_effect(models, source, reference, conditions)
    names = [*(model.resolve().name for model in models), *shape]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(f"bench translate: two are named {twice}; measure one at a time, with another --out")
    results = results_so_far(out)
    keep(results, out)  # fails before minutes of work, not after
    measured = []
    for name, make in _tasks(models, source, reference, shape, conditions):
        key = f"{name}, by length" if conditions.lengths else name
        results[key] = _measure(make, conditions)
        keep(results, out)
        measured.append(key)
    for key in measured:
        text = _lengths_as_text if conditions.lengths else _speeds_as_text
        print("\n".join(text(key, results[key])), end="\n\n")
    if not conditions.lengths:
        print("\n".join(_REMARKS))


def _require_effect(
    models: Sequence[Path], source: Path | None, reference: Path | None, conditions: Conditions
) -> None:
    """Refuse options that are missing, or without effect beside the others."""
    reads = bool(models) and not conditions.lengths
    if reads and source is None:
        raise UsageError("bench translate: no sentences; name a file with --source")
    for name, given in (("source", source), ("reference", reference)):
        if given is not None and not reads:
            raise UsageError(f"--{name}: read for models, without --lengths, only; leave it out")


Make = Callable[[Sequence[str], Mapping[str, object], Path], "DecodingTask"]
"""Peers, search settings, folder for exports -> task."""


def _tasks(
    models: Sequence[Path],
    source: Path | None,
    reference: Path | None,
    shapes: Sequence[str],
    conditions: Conditions,
) -> Iterator[tuple[str, Make]]:
    """Name of each task in the result file, and a function that makes it."""
    from allyouneed.lab.bench.decoding_workloads import MODELS, task_of_model, task_of_shape

    for model in models:
        yield model.resolve().name, partial(task_of_model, model, source, reference)
    for shape in shapes:
        yield shape, partial(task_of_shape, MODELS[shape], conditions.sentences, conditions.length)


def _measure(make: Make, conditions: Conditions) -> dict[str, Any]:
    """The record of a task, of the speeds of all contenders, or of our speed by length."""
    from allyouneed.hardware.processor import available_cores
    from allyouneed.lab.bench import decoding_speed
    from allyouneed.lab.bench.contenders import OURS, Entry
    from allyouneed.lab.bench.decoding_contenders import precisions

    peers = () if conditions.lengths else tuple(installed(conditions.against))
    pairs = product((OURS, *peers), conditions.precision)
    entries = [Entry(name, precision) for name, precision in pairs if precision in precisions(name)]
    if not entries:
        asked = " or ".join(conditions.precision)
        raise UsageError(f"--precision: no contender has {asked} here; name another")
    search: dict[str, object] = {"beam_size": conditions.beam_size, "early_stopping": True}
    if conditions.length_penalty is not None:
        search["length_penalty"] = conditions.length_penalty
    rounds, threads = conditions.rounds, conditions.threads or available_cores()
    with TemporaryDirectory(prefix="allyouneed-bench-") as folder:
        task = make(peers, search, Path(folder))
        if not conditions.lengths:
            total = decoding_speed.num_turns(entries, rounds, threads)
            with progress(total, unit="turns", description="measuring") as bar:
                return decoding_speed.bench_task(task, entries, rounds, threads, bar.advance)
        longest, chosen = decoding_speed.LENGTHS[-1], [precision for _, precision in entries]
        if (most := task.model.most_positions) is not None and most < longest:
            found = f"the model has {most} positions"
            raise UsageError(f"--lengths: {found}, and {longest} are measured; take another model")
        total = decoding_speed.num_turns_of_lengths(chosen, rounds)
        with progress(total, unit="turns", description="measuring") as bar:
            return decoding_speed.bench_lengths(task, chosen, rounds, bar.advance)


def _speeds_as_text(name: str, result: Mapping[str, Any]) -> Iterator[str]:
    search, environment = result["search"], result["environment"]
    yield (
        f"{name}: {size_of(result['model'])}; {result['sentences']:,} sentences, beam {search['beam_size']}, "
        f"length penalty {search['length_penalty']}; {result['rounds']} rounds"
    )
    versions = (f"{name} {environment[name]}" for name in _PACKAGES if name in environment)
    yield ", ".join([f"{environment['cpu']}, {environment['threads']} threads", *versions])
    yield from _kernels(environment)
    yield ""
    yield from table([_cells(row, search["beam_size"]) for row in result["rows"]])


def _kernels(environment: Mapping[str, Any]) -> Iterator[str]:
    from allyouneed.lab.bench.decoding_speed import FORCED

    forced = [f"{name}={environment[name]}" for name in FORCED if name in environment]
    if "instructions" in environment:
        yield f"kernels: {environment['instructions']}" + f" ({', '.join(forced)})" * bool(forced)


_PACKAGES = ("torch", "ctranslate2", "transformers")


def _cells(row: Mapping[str, Any], beam_size: int) -> dict[str, str]:
    """Column title -> cell."""
    layout, latency = row["layout"], row["latency_seconds"]
    cells = {
        "contender": row["contender"],
        "precision": row["precision"],
        "layout": "x".join(str(layout[part]) for part in ("processes", "workers", "threads"))
        + f" {layout['batch']:,} {layout['unit'].split()[-1]}",
        "sentences/s": f"{row['sentences_per_second']['median']:,.1f}",
        "tokens/s": f"{row['target_tokens_per_second']['median']:,.0f}",
    }
    for other, ratio in row["times_as_fast_as"].items():
        peer, precision = other.split()
        if peer in _SHORT_NAMES:
            cells[f"x {_SHORT_NAMES[peer]} {precision}"] = f"{ratio['median']:.2f}"
    return cells | {
        "ms": f"{1e3 * latency['median']:,.1f}",
        "ms p99": f"{1e3 * latency['p99']:,.1f}",
        "grown MiB": f"{row['grown_memory_bytes'] / 2**20:,.0f}",
        "peak MiB": f"{row['peak_memory_bytes'] / 2**20:,.0f}",
        "BLEU": "-" if row["bleu"] is None else f"{row['bleu']:.2f}",
        "same": f"{row['same_as_first']:.1%}",
    }


def _lengths_as_text(name: str, result: Mapping[str, Any]) -> Iterator[str]:
    yield (
        f"{name}: {size_of(result['model'])}; batches of {result['batch']}, beam {result['beam_size']}, "
        f"one thread; {result['rounds']} rounds"
    )
    yield from _kernels(result["environment"])
    yield ""
    yield from table(
        [
            {
                "precision": row["precision"],
                "tokens": f"{row['length']}",
                "ms a token": f"{1e3 * row['seconds_per_token']['median']:.3f}",
                "x the shortest": f"{row['times_the_shortest']['median']:.2f}",
            }
            for row in result["rows"]
        ]
    )
