"""`--preset`, `--fidelity`, `--config` and `--set`: the options of commands that take a configuration."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

if TYPE_CHECKING:
    from allyouneed.config.run import RunConfig


@Parameter(name="*")
@dataclass(frozen=True)
class ConfigurationOptions:
    """Sources of a configuration; each overrides the ones before."""

    preset: str | None = None
    """A named configuration: base (the default; for trees parsing_wsj), big, ...; `plan --all` lists them."""
    fidelity: Literal["paper", "released-2017", "released-later"] | None = None
    """Recipe applied to the preset: the paper's (the default), or that of the authors' code."""
    config: Path | None = None
    """A TOML file of settings that override both."""
    set_: Annotated[list[str] | None, Parameter(name="--set")] = None
    """Settings as group.key=value that override everything else."""

    def resolve(self, otherwise: "RunConfig") -> "RunConfig":
        """The resulting configuration; `otherwise` replaces the preset if none is named.

        Raises:
            UsageError: A setting is unknown or out of range, or the task is unknown.
        """
        from allyouneed.config.fidelity import with_recipe
        from allyouneed.config.presets import preset
        from allyouneed.tasks.catalogue import task_named

        chosen = otherwise if self.preset is None else preset(self.preset)
        if self.fidelity is not None:
            chosen = with_recipe(self.fidelity, chosen)
        if self.config is not None:
            chosen = chosen.with_toml(self.config)
        chosen = chosen.with_settings(self.set_ or ())
        task_named(chosen.data.task)
        return chosen


def one_setting_each(tokens: Sequence[str]) -> Iterator[str]:
    """Rewrite command-line tokens so that `--set a=1 b=2 RUN` becomes `--set a=1 --set b=2 RUN`."""
    begun = goes_on = False
    for token in tokens:
        goes_on = goes_on and "=" in token and not token.startswith("-")
        if goes_on:
            yield "--set"
        yield token
        goes_on |= begun or token.startswith("--set=")
        begun = token == "--set" and not begun


NOTHING_ASKED = ConfigurationOptions()
"""The value if none of the options are given."""
