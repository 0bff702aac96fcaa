"""`allyouneed bench train`: how fast a training step is, beside other software."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from allyouneed.interfaces.device import Device, torch_device
from allyouneed.interfaces.number_options import SEVERAL, AtLeastOne
from allyouneed.interfaces.progress import progress
from allyouneed.interfaces.reports.bench_results import installed, keep, results_so_far, size_of, table

if TYPE_CHECKING:
    from allyouneed.bench.training_workloads import Shape

ShapeName = Literal["small", "base", "length"]
Peer = Literal["tutorial", "marian", "opennmt"]
Precision = Literal["float32", "bfloat16"]

_REFERENCES = {
    "x Marian": "marian {precision}",
    "x tutorial fp32": "tutorial float32",
    "x Marian fp32": "marian float32",
}
"""Title of a column -> the entry that it compares a row of some precision with."""
_REMARKS = (
    "Medians of rounds in which all take turns on the same batches; ratios are taken within a round. GFLOP/s",
    "are counted matrix products, forward and backward, the same for all; the limit is large products alone.",
    "Each has a process of its own, and no setting of the allocator but its own; allyouneed computes batches",
    "in micro-batches, as `train` does, the others in one piece.",
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
    """Measure how fast training is, beside other software on the same batches.

    ```
    allyouneed bench train
    allyouneed bench train --shape base length --rounds 3 --against marian
    allyouneed bench train --data data --precision bfloat16 --out speed.json
    ```

    Everyone takes turns, in rounds, each turn a few steps of training on the same batches of random ids;
    dropout and label smoothing are 0.1, weights float32. `tutorial` is `torch.nn.Transformer` as tutorials
    use it, `marian` the MarianMTModel of Hugging Face (`pip install 'allyouneed[bench]'`), `opennmt` that of
    OpenNMT-py 3.0 (`pip install OpenNMT-py`).

    Args:
        shape: `small`: 3+3 layers, d_model 256, sentences as in Multi30k. `base`: the paper's base model,
            sentences twice as long. `length`: the small model on 32 tokens and on 1,024, and its memory.
        precision: Precision of the matrix products.
        rounds: How many, besides one that warms up.
        against: Whom to measure besides this program.
        data: Prepared data from which `small` and `base` take the lengths of sentences.
        device: Device to compute on.
        out: The file of results; of those that it holds, the shapes that are measured are replaced.
    """
    results = results_so_far(out)

    from allyouneed.bench.contenders import OURS, Entry
    from allyouneed.bench.training import bench_shape, num_turns

    shapes = _shapes(shape, data)
    entries = [Entry(name, each) for name in (OURS, *installed(against)) for each in precision]
    place = torch_device(device)
    keep(results, out)  # before minutes of work for nothing
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

    from allyouneed.bench.training_workloads import SHAPES
    from allyouneed.tasks.prepared_data import PreparedData

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
    """Title of a column -> what stands there."""
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
