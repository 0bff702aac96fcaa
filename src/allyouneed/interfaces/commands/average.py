"""`allyouneed average`: one model from a run's last checkpoints."""

from pathlib import Path


def average(run: Path, /, *, out: Path, last: int | None = None) -> None:
    """Average the last checkpoints of a run into one model (paper 6.1).

    ```
    allyouneed average runs/first --out models/first
    allyouneed average runs/first --last 10 --out models/first
    ```

    Args:
        run: The run.
        out: The folder of the new model.
        last: How many checkpoints; by default what the run's configuration says.
    """
    from allyouneed.config import RunConfig
    from allyouneed.errors import UsageError
    from allyouneed.training.averaging import average as average_checkpoints
    from allyouneed.training.averaging import last_checkpoints
    from allyouneed.training.run_directory import RunDirectory

    if last is None:
        last = RunConfig.from_toml(RunDirectory(run).config).training.average_last
    if last < 1:
        raise UsageError(f"--last {last}: ask for 1 checkpoint or more")
    checkpoints = last_checkpoints(run, last)
    average_checkpoints(checkpoints, out)
    print(
        f"{out}: the average of {len(checkpoints)} checkpoints, "
        f"{checkpoints[0].name} to {checkpoints[-1].name}"
    )
