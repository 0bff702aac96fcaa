"""Scales of the paper's experiments: full size, and smaller sizes with the same proportions."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from allyouneed.config.run import RunConfig


@dataclass(frozen=True)
class Scale:
    """Changes to the paper's configurations."""

    name: str
    narrower: int
    """Divisor of all widths; numbers of heads do not change."""
    shallower: int
    """Divisor of the number of layers."""
    training: dict[str, Any] = field(default_factory=dict)
    """Training settings that replace the paper's."""
    sized_for: str = ""
    """The hardware and time that the scale is made for."""
    model: dict[str, Any] = field(default_factory=dict)
    """Model settings that replace the paper's, before widths and layers are divided."""
    search: dict[str, Any] = field(default_factory=dict)
    """Search settings that replace the paper's."""
    budget_seconds: float = 12 * 3600
    """Training time of a time-limited row of Table 2; by default that of the paper's base model (5.2)."""
    budget_flops: float = 9.5e17
    """Counted training FLOPs of a FLOPs-limited row of Table 2."""

    def __call__(self, config: RunConfig) -> RunConfig:
        """The configuration at this scale."""
        config = config.replace(model=self.model, search=self.search)
        model = config.model
        d_k, d_v = model.head_widths
        names = {"d_model", "d_ff", "parameter_d_k", "parameter_d_v", "parameter_pairs"}
        widths = {"d_k": d_k, "d_v": d_v} | model.model_dump(include=names)
        scaled: dict[str, Any] = {name: width // self.narrower for name, width in widths.items()}
        fewest = 2 if model.architecture == "recurrent" else 1
        scaled["num_layers"] = max(fewest, model.num_layers // self.shallower)
        return config.replace(model=scaled, training=self.training)

    def changes(self, besides: Collection[str] = ()) -> list[str]:
        """Differences from the paper, in words, except the settings `besides`, which rows set themselves."""
        told = []
        if self.narrower > 1:
            told.append(
                f"all widths (d_model, d_ff, d_k, d_v, n_p) divided by {self.narrower}, heads as they are"
            )
        if self.shallower > 1:
            told.append(f"layers divided by {self.shallower}")
        settings = {"model": self.model, "training": self.training, "search": self.search}
        return told + [
            f"{group}.{k} = {v}"
            for group, of_group in settings.items()
            for k, v in of_group.items()
            if k not in besides
        ]


def _short_run(batch_tokens: int, num_steps: int, warmup_steps: int, factor: float) -> dict[str, Any]:
    return {
        "batch_tokens": batch_tokens,
        "micro_batch_tokens": batch_tokens // 2,  # the fewest that still mix lengths; each one costs time
        "num_steps": num_steps,
        "warmup_steps": warmup_steps,
        "learning_rate_factor": factor,
        "checkpoint_every_steps": max(1, num_steps // 6),
        "keep_checkpoints": 5,
        "validate_every_steps": num_steps,
    }


SCALES = {
    "tiny": Scale(
        "tiny",
        4,
        2,
        _short_run(1_024, 2_000, 400, 1.0),
        "3 hours on two cores, with Multi30k",
        budget_seconds=600,
        budget_flops=3.3e13,
    ),
    "small": Scale(
        "small",
        2,
        2,
        _short_run(8_192, 2_000, 800, 1.5),
        "half an hour on a data-centre GPU, an estimate, with Multi30k",
        budget_seconds=180,
        budget_flops=8e14,
    ),
    "paper": Scale("paper", 1, 1, {}, "12 hours a row on eight P100, with WMT 2014"),
}
"""Name -> scale."""
