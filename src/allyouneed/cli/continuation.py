"""`--init-from`, `--replay` and related options: what a run takes from a model and from other data."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cyclopts import Parameter

if TYPE_CHECKING:
    from allyouneed.config.run import RunConfig


@Parameter(name="*")
@dataclass(frozen=True)
class ContinuationOptions:
    """A model to continue, and data to replay; each is short for a setting, which the run records."""

    init_from: Path | None = None
    """Model to continue: a run, a checkpoint or a model folder. The run takes over its architecture, weights
    and settings, unless you give other settings. Prepare the data with its sub-words
    (`--tokenizer-from`)."""
    init_moments: bool = False
    """Take Adam's moments from that model, too; it must be one of the two newest checkpoints of a run."""
    replay: Path | None = None
    """Prepared data of which a share is replayed, such as those of the model, so that it forgets less."""
    replay_share: float | None = None
    """Share of the target tokens of every batch that is replayed, such as 0.2."""

    def applied_to(self, config: "RunConfig") -> "RunConfig":
        """The configuration with the given options."""
        settings: dict[str, Any] = {
            "init_from": None if self.init_from is None else str(self.init_from),
            "init_moments": self.init_moments or None,
            "replay": None if self.replay is None else str(self.replay),
            "replay_share": self.replay_share,
        }
        return config.replace(training={name: value for name, value in settings.items() if value is not None})


NOTHING_CONTINUED = ContinuationOptions()
"""The value if none of the options are given."""
