"""`allyouneed reproduce`: the paper's experiments at a scale that one can afford, beside its figures."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from allyouneed.errors import SOME_FAILED_EXIT_CODE
from allyouneed.interfaces.console import notice
from allyouneed.interfaces.device import Device, torch_device

if TYPE_CHECKING:
    from allyouneed.training.run_log import Event

_SHOWN_EVERY_STEPS = 500


def reproduce(
    experiment: Literal["table1", "table3", "aop", "scaling", "extrapolation", "variants"],
    /,
    *,
    data: Path | None = None,
    scale: Literal["tiny", "small", "paper"] = "tiny",
    seeds: Annotated[int, Parameter(validator=Number(gte=1))] = 3,
    rows: Annotated[list[str] | None, Parameter(consume_multiple=True)] = None,
    out: Path | None = None,
    device: Device = "auto",
) -> int:
    """Run an experiment of the paper, and print its figures beside ours.

    ```
    allyouneed reproduce table3 --data data
    allyouneed reproduce table3 --data data --rows base heads_1 heads_32 --seeds 5
    allyouneed reproduce aop --data data --scale small
    allyouneed reproduce table1
    ```

    It can be stopped at any time, and goes on where it was with the same command. Each row is a run, or a
    measurement, in OUT/ROW/seed-N; after each, OUT/results.md, .csv and .html are written anew. A row that
    fails, because it diverges for instance, is named with the reason, the others go on, and the exit code is
    9.

    Args:
        experiment: `table1`: types of layers, their cost and their paths, which needs no data; `table3`:
            variations of the model; `aop`: attention over parameters; `scaling`: dot products with and
            without scaling, and additive attention; `extrapolation`: sentences longer than any that was
            trained on; `variants`: what no table of the paper has.
        data: What `allyouneed prepare` has made, with validation text.
        scale: `tiny` is for hours on two cores, `small` for half an hour on a data-centre GPU, `paper` is the
            paper's own. `table1` measures longer sequences at the larger ones.
        seeds: How often rows that are to be compared closely are trained; the others are trained once.
        rows: Which to compute; all if not given. What they are compared with is computed too.
        out: The folder to work in; by default runs/EXPERIMENT-SCALE.
        device: Where to compute.
    """
    from allyouneed.experiments.catalogue import EXPERIMENTS
    from allyouneed.experiments.reproduction import reproduce as run_rows
    from allyouneed.experiments.scales import SCALES
    from allyouneed.interfaces.reproduction_report import as_terminal_table, write_report

    chosen, out = EXPERIMENTS[experiment], out or Path("runs") / f"{experiment}-{scale}"
    computing = run_rows(
        chosen,
        out,
        SCALES[scale],
        torch_device(device),
        data=data,
        num_seeds=seeds,
        only=rows or (),
        report=_show,
        say=notice,
    )
    for results in computing:
        written = write_report(results)
    print("\n".join(as_terminal_table(results)))
    notice(f"written: {', '.join(map(str, written))}")
    return SOME_FAILED_EXIT_CODE if results.failures() else 0


def _show(event: "Event") -> None:
    """What is worth a line while rows are trained."""
    match event["event"]:
        case "start":
            notice(f"{event['parameters']:,} parameters, update {event['step']:,} of {event['num_steps']:,}")
        case "train" if event["step"] % _SHOWN_EVERY_STEPS == 0:
            notice(f"update {event['step']:,}: loss {event['loss']:.2f}")
        case "notice":
            notice(event["text"])
