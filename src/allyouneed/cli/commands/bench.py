"""`allyouneed bench`: compares speed with other software, on this machine."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product, starmap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App

from allyouneed.cli.bench_results import installed, keep, results_so_far, size_of, table
from allyouneed.cli.commands.bench_translate import translate
from allyouneed.cli.progress import progress
from allyouneed.cli.shared_options import SEVERAL, AtLeastOne, Device, torch_device

if TYPE_CHECKING:
    from allyouneed.lab.bench.training_workloads import Shape

ShapeName = Literal["small", "base", "length"]
Peer = Literal["tutorial", "marian"]
Precision = Literal["float32", "bfloat16"]

_REFERENCES = {
    "x Marian": "marian {precision}",
    "x tutorial fp32": "tutorial float32",
    "x Marian fp32": "marian float32",
}
"""Column title -> the entry that rows are compared with; `{precision}` is the row's own."""
_REMARKS = (
    "Medians over rounds, in which all contenders take turns on the same batches; ratios are taken within a",
    "round. GFLOP/s counts matrix products, forward and backward, equally for all; the limit is the rate of",
    "large matrix products. Each contender has its own process and its own allocator settings. allyouneed",
    "splits batches into micro-batches, as `train` does; the others compute them whole.",
)


def train(
    *,
    shape: Annotated[tuple[ShapeName, ...], SEVERAL] = ("small",),
    precision: Annotated[tuple[Precision, ...], SEVERAL] = ("float32", "bfloat16"),
    rounds: AtLeastOne = 5,
    against: Annotated[tuple[Peer, ...], SEVERAL] = ("tutorial", "marian"),
    data: Path | None = None,
    device: Device = "auto",
    out: Path = Path("benchmarks/results/training.json"),
) -> None:
    """Compare training speed with other software, on the same batches.

    ```
    allyouneed bench train
    allyouneed bench train --shape base length --rounds 3 --against marian
    allyouneed bench train --data data --precision bfloat16 --out speed.json
    ```

    In each round, every contender trains a few steps on the same batches of random ids, with dropout and
    label smoothing 0.1 and float32 weights. `tutorial` is `torch.nn.Transformer` as tutorials use it, and
    `marian` is Hugging Face's MarianMTModel (`pip install 'allyouneed[bench]'`).

    Args:
        shape: `small`: 3+3 layers, d_model 256, sentences as in Multi30k. `base`: the paper's base model,
            sentences twice as long. `length`: the small model on 32 and on 1,024 tokens, with its memory.
        precision: Precision of matrix products.
        rounds: Number of rounds, after one that warms up.
        against: Contenders besides this program.
        data: Prepared data whose sentence lengths `small` and `base` use.
        device: Device to compute on.
        out: The result file; results of the measured shapes are replaced in it.
    """
    results = results_so_far(out)

    from allyouneed.lab.bench.contenders import OURS, Entry
    from allyouneed.lab.bench.training_speed import bench_shape, num_turns

    shapes = _shapes(shape, data)
    pairs = product((OURS, *installed(against)), precision)
    entries = [*dict.fromkeys(starmap(Entry, pairs))]
    place = torch_device(device)
    keep(results, out)  # fails before minutes of work, not after
    total = sum(num_turns(each, entries, rounds) for each in shapes.values())
    with progress(total, unit="turns", description="measuring") as bar:
        for name, each in shapes.items():
            results[name] = bench_shape(each, entries, rounds, place, bar.advance)
            keep(results, out)
    for name in shapes:
        print("\n".join(_as_text(name, results[name])), end="\n\n")
    print("\n".join(_REMARKS))


def _shapes(names: Sequence[str], data: Path | None) -> "dict[str, Shape]":
    import numpy as np

    from allyouneed.lab.bench.training_workloads import SHAPES
    from allyouneed.preparation.prepared_data import PreparedData

    shapes = {name: SHAPES[name] for name in names}
    if data is None:
        return shapes
    store = PreparedData(data).train
    lengths = np.stack([store.source_lengths, store.target_lengths], axis=1).astype(np.int64)
    return {name: shape.on_lengths(lengths, f"lengths of {data}") for name, shape in shapes.items()}


def _as_text(name: str, result: Mapping[str, Any]) -> Iterator[str]:
    model, limits = result["model"], result["limit_flops_per_second"]
    yield (
        f"{name}: {size_of(model)}; "
        f"{result['batch_tokens']:,} padded tokens a batch; {result['rounds']} rounds"
    )
    products = (f"{precision} {of['median'] / 1e9:,.0f} GFLOP/s" for precision, of in limits.items())
    environment = result["environment"]
    yield f"{environment['device_name']}, {environment['threads']} threads; limit {', '.join(products)}"
    if settings := result["settings"]:
        yield " ".join(f"{variable}={value}" for variable, value in settings.items())
    for workload in dict.fromkeys(row["workload"] for row in result["rows"]):
        rows = [row for row in result["rows"] if row["workload"] == workload]
        yield from ("", workload, *table([_cells(row) for row in rows]))


def _cells(row: Mapping[str, Any]) -> dict[str, str]:
    """Column title -> cell."""
    cells = {
        "contender": row["contender"],
        "precision": row["precision"],
        "target tokens/s": f"{row['target_tokens_per_second']['median']:,.0f}",
        "GFLOP/s": f"{row['flops_per_second']['median'] / 1e9:,.1f}",
        "of limit": f"{row['share_of_limit']['median']:.1%}",
    }
    for title, reference in _REFERENCES.items():
        ratio = row["times_as_fast_as"].get(reference.format(precision=row["precision"]))
        cells[title] = f"{ratio['median']:.2f}" if ratio else "-"
    if "step_memory_bytes" in row:
        cells["kept of speed"] = f"{row['kept_of_first_workload']['median']:.2f}"
        cells["GiB of a step"] = f"{row['step_memory_bytes'] / 2**30:.2f}"
    return cells


bench = App(
    name="bench",
    help="""Compare training and decoding speed with other software, on this machine.

```
allyouneed bench train
allyouneed bench translate models/first --source test.en --reference test.de
```
""",
)
bench.command(train)
bench.command(translate)
