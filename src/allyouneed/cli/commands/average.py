"""`allyouneed average`: one model from a run's last checkpoints."""

from pathlib import Path

from allyouneed.cli.shared_options import Whole
from allyouneed.errors import notice


def average(run: Path, /, *, out: Path, last: Whole | None = None) -> None:
    """Average the last checkpoints of a run into one model (paper 6.1).

    ```
    allyouneed average runs/first --out models/first
    allyouneed average runs/first --last 10 --out models/first
    ```

    Args:
        run: A run directory.
        out: The folder of the new model.
        last: Number of checkpoints; by default as in the run's configuration, or all of them if there are
            fewer.
    """
    from allyouneed.runs.starting import average as average_run

    checkpoints = average_run(run, out, last, say=notice)
    newest = checkpoints[-1].name
    if len(checkpoints) > 1:
        print(f"{out}: the average of {len(checkpoints)} checkpoints, {checkpoints[0].name} to {newest}")
    else:
        print(f"{out}: {newest} as it is, as an average takes two checkpoints or more")
