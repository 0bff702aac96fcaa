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
    """Divisor of d_model, d_ff and n_p, and by default of the number of heads; then only a single head gets
    other widths."""
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
    budget_flops: float = 9.5e17
    """Counted training FLOPs of a run of Table 2; by default those of the paper's base model."""
    fewer_heads: int | None = None
    """Divisor of the number of heads, if it is not `narrower`: what is left of it divides d_k and d_v."""

    def __call__(self, config: RunConfig) -> RunConfig:
        """The configuration at this scale."""
        config = config.replace(model=self.model, search=self.search)
        model = config.model
        widths = model.model_dump(include={"d_model", "d_ff", "parameter_pairs"})
        scaled: dict[str, Any] = {name: width // self.narrower for name, width in widths.items()}
        d_k, d_v = model.head_widths
        scaled["num_heads"], scaled["d_k"], scaled["d_v"] = self._heads(model.num_heads, d_k, d_v)
        names = "parameter_heads", "parameter_d_k", "parameter_d_v"
        heads = self._heads(model.parameter_heads, model.parameter_d_k, model.parameter_d_v)
        scaled |= zip(names, heads, strict=True)
        fewest = 2 if model.architecture == "recurrent" else 1
        scaled["num_layers"] = max(fewest, model.num_layers // self.shallower)
        return config.replace(model=scaled, training=self.training)

    def _heads(self, num_heads: int, *widths: int) -> tuple[int, ...]:
        """Fewer heads of the same widths; a single head is narrower instead."""
        # Deviation: below the paper's scale there are fewer heads, so that d_k is as printed, or closer.
        fewer = max(1, num_heads // (self.fewer_heads or self.narrower))
        return fewer, *(num_heads * width // (self.narrower * fewer) for width in widths)

    def changes(self, besides: Collection[str] = ()) -> list[str]:
        """Differences from the paper, in words, except the settings `besides`, which rows set themselves."""
        told = []
        if self.fewer_heads is not None:
            told.append(
                f"d_model, d_ff and n_p divided by {self.narrower}, the number of heads by "
                f"{self.fewer_heads}, d_k and d_v by {self.narrower // self.fewer_heads} (if heads cannot be "
                "divided, one narrower head)"
            )
        elif self.narrower > 1:
            told.append(
                f"d_model, d_ff, n_p and the number of heads divided by {self.narrower}, d_k and d_v kept "
                "(if heads cannot be divided, one narrower head)"
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


def _run(batch_tokens: int, num_steps: int, warmup_steps: int, factor: float) -> dict[str, Any]:
    return {
        "batch_tokens": batch_tokens,
        "micro_batch_tokens": batch_tokens // 2,  # the fewest that still mix lengths; each one costs time
        "num_steps": num_steps,
        "warmup_steps": warmup_steps,
        "learning_rate_factor": factor,
        "checkpoint_every_steps": max(1, num_steps // 10),
        "keep_checkpoints": 5,
        "validate_every_steps": num_steps,
    }


SCALES = {
    "quick": Scale(
        "quick",
        4,
        2,
        _run(1_024, 2_000, 120, 0.5),
        "3 hours on two cores, with Multi30k",
        budget_flops=3.3e13,
    ),
    # Chosen on the base row alone: docs/experiments/table3.md.
    "tiny": Scale(
        "tiny",
        4,
        2,
        _run(2_048, 1_800, 360, 1.0) | {"checkpoint_every_steps": 60, "validate_every_steps": 180},
        "six hours on two cores, with half of Multi30k",
        budget_flops=3.3e13,
        fewer_heads=2,
    ),
    "small": Scale(
        "small",
        2,
        2,
        _run(8_192, 2_000, 120, 0.5),
        "half an hour on a data-centre GPU, an estimate, with Multi30k",
        budget_flops=8e14,
    ),
    "paper": Scale("paper", 1, 1, {}, "12 hours a row on eight P100, with WMT 2014"),
}
"""Name -> scale. `quick` shows early learning; `tiny` trains until longer training changes little."""
