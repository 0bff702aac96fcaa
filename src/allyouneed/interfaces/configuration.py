"""`--preset`, `--config` and `--set`: the options of every command that takes a configuration."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

if TYPE_CHECKING:
    from allyouneed.config import RunConfig


@Parameter(name="*")
@dataclass(frozen=True)
class ConfigurationOptions:
    """What a configuration is made of, each part over the one before."""

    preset: str | None = None
    """A named configuration: base (the default), big, multi30k_tiny, ...; `plan --all` lists them."""
    config: Path | None = None
    """A TOML file of settings, over the preset."""
    set_: Annotated[list[str] | None, Parameter(name="--set", consume_multiple=True)] = None
    """Settings as group.key=value, over both."""

    def resolve(self, otherwise: "RunConfig") -> "RunConfig":
        """The configuration asked for; `otherwise` stands in for a preset where none is named."""
        from allyouneed.presets import preset

        chosen = otherwise if self.preset is None else preset(self.preset)
        if self.config is not None:
            chosen = chosen.with_toml(self.config)
        return chosen.with_settings(self.set_ or ())


NOTHING_ASKED = ConfigurationOptions()
"""As if none of the options were given."""
