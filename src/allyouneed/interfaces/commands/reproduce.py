"""`allyouneed reproduce`: the paper's experiments at an affordable scale, beside its figures."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from allyouneed.errors import SOME_FAILED_EXIT_CODE
from allyouneed.interfaces.console import notice
from allyouneed.interfaces.device import Device, torch_device
from allyouneed.interfaces.number_options import AtLeastOne
from allyouneed.interfaces.reports.run_reporter import run_reporter

Name = Literal[
    "table1", "table2", "table3", "table4", "aop", "scaling", "extrapolation", "variants", "figures"
]


@Parameter(name="*")
@dataclass(frozen=True)
class Given:
    """Inputs of an experiment."""

    data: Path | None = None
    """Data from `allyouneed prepare`, with validation text; for `table4`, trees."""
    text: Annotated[list[Path] | None, Parameter(consume_multiple=True)] = None
    """Raw text, one sentence per line, which `table4` parses for its semi-supervised row."""
    model: Path | None = None
    """For `figures`: a run, a checkpoint in it, or a model folder, instead of data to train on."""


def reproduce(
    experiment: Name,
    /,
    *,
    given: Given = Given(),
    scale: Literal["tiny", "small", "paper"] = "tiny",
    seeds: AtLeastOne | None = None,
    rows: Annotated[list[str] | None, Parameter(consume_multiple=True)] = None,
    out: Path | None = None,
    device: Device = "auto",
) -> int:
    """Run an experiment of the paper, and print the paper's figures beside ours.

    ```
    allyouneed reproduce table3 --data data --scale small --rows base heads_1 heads_32 --seeds 5
    allyouneed reproduce table4 --data trees --text news.txt
    allyouneed reproduce figures --model models/first
    allyouneed reproduce table1
    ```

    Stop it at any time; the same command resumes it. OUT/ROW/seed-N holds each row; OUT/results.md, .csv and
    .html show the results so far. If rows fail, the exit code is 9.

    Args:
        experiment: `table1`: cost and path lengths of layer types (needs no data); `table2`: the Transformer
            and its rivals at equal cost; `table3`: variations of the model; `table4`: constituency parsing;
            `aop`: attention over parameters; `scaling`: dot products with and without scaling, and additive
            attention; `extrapolation`: sentences longer than any in training; `variants`: model variants
            that are in no table of the paper; `figures`: Figures 3 to 5.
        given: Inputs of the experiment.
        scale: `tiny` (hours on two cores), `small` (half an hour on a GPU, an estimate) or `paper`.
        seeds: Number of runs of each row that is compared closely: 3 by default, 1 for `table2`.
        rows: Rows to compute, along with the rows they are compared with; by default all.
        out: The folder to work in; by default runs/EXPERIMENT-SCALE.
        device: Device to compute on.
    """
    from allyouneed.interfaces.reports.attention_figures import draw_in_every_form
    from allyouneed.interfaces.reports.reproduction import as_terminal_table, write_report
    from allyouneed.paper.catalogue import EXPERIMENTS
    from allyouneed.paper.experiment import Inputs
    from allyouneed.paper.reproduction import reproduce as run_rows

    chosen = EXPERIMENTS[experiment]
    computing = run_rows(
        chosen,
        out or Path("runs") / f"{experiment}-{scale}",
        chosen.scale(scale),
        torch_device(device),
        Inputs(given.data, given.text or (), given.model),
        num_seeds=seeds,
        only=rows or (),
        reporter=run_reporter,
        draw=draw_in_every_form,
        say=notice,
    )
    for results in computing:
        written = write_report(results)
    print(*as_terminal_table(results), sep="\n")
    notice(f"written: {', '.join(map(str, written))}")
    return SOME_FAILED_EXIT_CODE if results.failures() else 0
