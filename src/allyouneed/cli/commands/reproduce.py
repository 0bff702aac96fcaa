"""`allyouneed reproduce`: the paper's experiments at an affordable scale, beside its figures."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from allyouneed.cli.run_reporter import run_reporter
from allyouneed.cli.shared_options import AtLeastOne, Device, torch_device
from allyouneed.errors import SOME_FAILED_EXIT_CODE, UsageError, notice

if TYPE_CHECKING:
    from allyouneed.lab.paper.experiment import Inputs


@Parameter(name="*")
@dataclass(frozen=True)
class ExperimentInputs:
    """Inputs of an experiment."""

    data: Path | None = None
    """Data from `allyouneed prepare`, with validation text; for `table4`, trees."""
    text: Annotated[list[Path] | None, Parameter(consume_multiple=True)] = None
    """Raw text, one sentence per line, which `table4` parses for its semi-supervised row."""
    model: Path | None = None
    """For `figures`: a run, a checkpoint in it, or a model folder, instead of data to train on."""
    test_source: Path | None = None
    """For Table 2: test text to score on, as the paper does, instead of the validation text."""
    test_reference: Path | None = None
    """Its reference translation, line by line."""
    test_trees: Path | None = None
    """For `table4`: test trees to score on, instead of the validation trees."""
    silver_trees: Path | None = None
    """For `table4`: trees that another parser made of raw text, for its row `other_parser`."""

    def inputs(self) -> "Inputs":
        """The inputs as the experiments take them."""
        from allyouneed.lab.paper.experiment import Inputs

        files = {name: getattr(self, name) for name in ("test_source", "test_reference", "test_trees")}
        test = {name: file for name, file in files.items() if file is not None}
        return Inputs(self.data, self.text or (), self.model, test, self.silver_trees)


@Parameter(name="*")
@dataclass(frozen=True)
class KeptRows:
    """Finished rows as small files."""

    taken_from: Annotated[Path | None, Parameter(name="--from")] = None
    """Folder written by `--keep`, whose rows of this experiment and scale are reused, whatever OUT is called.
    Without `--data`, an experiment that needs data trains no further rows."""
    keep: Path | None = None
    """A folder to keep finished rows in, below the name of the folder OUT: small files for each row and seed,
    enough to compare it, so that a table can be computed on several machines."""


def reproduce(
    experiment: str,
    /,
    *,
    given: ExperimentInputs = ExperimentInputs(),
    scale: Literal["quick", "tiny", "small", "paper"] = "tiny",
    seeds: AtLeastOne | None = None,
    rows: Annotated[list[str] | None, Parameter(consume_multiple=True)] = None,
    out: Path | None = None,
    kept: KeptRows = KeptRows(),
    device: Device = "auto",
) -> int:
    """Run an experiment of the paper, and print the paper's figures beside ours, and a verdict.

    ```
    allyouneed reproduce table3 --data data --scale small --rows base heads_1 heads_32 --seeds 5
    allyouneed reproduce table2 --data data --test-source test.en --test-reference test.de
    allyouneed reproduce table4 --data trees --text news.txt --test-trees test.mrg
    allyouneed reproduce table3 --data data --from rows --keep rows
    allyouneed reproduce figures --model models/first
    allyouneed reproduce table1 --scale quick
    allyouneed reproduce index --out runs
    ```

    Stop it at any time; the same command resumes it. OUT/ROW/seed-N holds each row; OUT/results.md, .csv and
    .html show the results so far. If rows fail, the exit code is 9.

    Args:
        experiment: `table1`: cost and path lengths of layer types (needs no data); `table2` (English-German)
            and `table2-en-fr`: the Transformer and its rivals at equal cost; `table3`: variations of the
            model; `table4`: constituency parsing; `table4-grammar`: the paper's own form of it, from more and
            more trees of the demo's grammar (needs no data); `aop`: attention over parameters; `scaling`: dot
            products with and without scaling, and additive attention; `extrapolation`: sentences longer than
            any in training; `long`: documents, and restricted self-attention; `paths`: which networks find
            what lies far back (needs no data); `variants`: variants in no table of the paper; `blockwise`:
            several tokens at once; `figures`: Figures 3 to 5; `index`: the verdicts below OUT, as a page.
        given: Inputs of the experiment.
        scale: `quick` (early learning, three hours on two cores; for `table1` a minute), `tiny` (until
            longer training changes little), `small` (half an hour on a GPU, an estimate) or `paper`; some
            experiments have fewer.
        seeds: Number of runs of each row that is compared: 3 by default, 1 for Table 2.
        rows: Rows to compute, along with the rows they are compared with; by default all.
        out: The folder to work in; by default runs/EXPERIMENT-SCALE.
        kept: Finished rows as small files.
        device: Device to compute on.
    """
    folder = out or Path("runs" if experiment == "index" else f"runs/{experiment}-{scale}")
    if experiment == "index":
        return _index(
            folder,
            unused=(
                given != ExperimentInputs(),
                seeds,
                rows,
                scale != "tiny",
                kept != KeptRows(),
                device != "auto",
            ),
        )
    return _experiment(experiment, folder, scale, given, seeds, rows or (), kept, device)


def _experiment(
    name: str,
    out: Path,
    scale: str,
    given: ExperimentInputs,
    seeds: int | None,
    rows: Sequence[str],
    kept: KeptRows,
    device: Device,
) -> int:
    from allyouneed.lab.paper.pages.results_page import as_terminal_table, write_report
    from allyouneed.lab.paper.pages.results_table import results_table
    from allyouneed.lab.paper.reproduction import EXPERIMENTS
    from allyouneed.lab.paper.reproduction import reproduce as run_rows
    from allyouneed.tasks.attention_figures import draw_in_every_form

    if name not in EXPERIMENTS:
        raise UsageError(f"reproduce {name}: name one of {', '.join(EXPERIMENTS)}, or index")
    experiment = EXPERIMENTS[name]
    if kept.taken_from is not None and given == ExperimentInputs() and experiment.require is not None:
        given_too = {"rows": bool(rows), "seeds": seeds is not None, "device": device != "auto"}
        if unused := [option for option, is_given in given_too.items() if is_given]:
            raise UsageError(
                f"{' '.join(unused)}: no row is computed without data; leave it out, or give data",
                settings=[*unused, "data"],
            )
    computing = run_rows(
        experiment,
        out,
        experiment.scale(scale),
        torch_device(device),
        given.inputs(),
        num_seeds=seeds,
        only=rows,
        taken_from=kept.taken_from,
        keep=kept.keep,
        reporter=run_reporter,
        draw=draw_in_every_form,
        say=notice,
    )
    for results in computing:
        written = write_report(results)
    print(*as_terminal_table(results_table(results)), sep="\n")
    notice(f"written: {', '.join(map(str, written))}")
    return SOME_FAILED_EXIT_CODE if results.failures() else 0


def _index(folder: Path, unused: Sequence[object]) -> int:
    from allyouneed.lab.paper.pages.results_page import write_index

    if any(unused):
        raise UsageError("reproduce index: collects tables; it takes no option but out", settings=["out"])
    notice(f"written: {write_index(folder)}")
    return 0
