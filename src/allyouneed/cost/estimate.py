"""The cost of a planned run: parameters, FLOPs, memory, and the paper's own figures (Tables 2 and 3)."""

from dataclasses import dataclass

from allyouneed.config.fidelity import Deviation, deviations, nearest_of_paper, sizes
from allyouneed.config.model import ModelConfig
from allyouneed.config.presets import PRESETS
from allyouneed.config.run import RunConfig
from allyouneed.model.sizes import count_parameters
from allyouneed.training.flops import training_flops
from allyouneed.training.memory_estimate import TrainingMemory, chunk_elements, training_memory

VOCAB_SIZE_OF_2017 = 40_960
"""Rows of the embedding in the code of 2017, regardless of the number of tokens in the data."""
P100_TFLOPS = 9.5
"""Sustained single-precision rate in the paper's estimates of cost (6.1)."""
NUM_P100 = 8

_REAL_SHARE = 25_000 / 26_500
"""Share of a batch that is not padding, on sentences with the lengths of WMT's."""


@dataclass(frozen=True)
class PublishedModel:
    """The paper's figures for one of its models."""

    parameters_millions: int
    """Table 3, last column."""
    vocab_size: int = VOCAB_SIZE_OF_2017
    """Size of the vocabulary that gives this number of parameters."""
    training_hours: float | None = None
    """Hours of training on eight P100 (5.2)."""

    @property
    def training_flops(self) -> float | None:
        """Table 2: time x number of GPUs x their sustained rate."""
        hours = self.training_hours
        return None if hours is None else hours * 3600 * NUM_P100 * P100_TFLOPS * 1e12


PUBLISHED = {
    "base": PublishedModel(65, training_hours=12),
    "big": PublishedModel(213, vocab_size=36_000, training_hours=3.5 * 24),
    "table3_dk_16": PublishedModel(58),
    "table3_dk_32": PublishedModel(60),
    "table3_layers_2": PublishedModel(36),
    "table3_layers_4": PublishedModel(50),
    "table3_layers_8": PublishedModel(80),
    "table3_d_model_256": PublishedModel(28),
    "table3_d_model_1024": PublishedModel(168),
    "table3_d_ff_1024": PublishedModel(53),
    "table3_d_ff_4096": PublishedModel(90),
    "aop1": PublishedModel(65),
    "aop2": PublishedModel(65),
}
"""Preset -> the paper's figures for it; the rows that the paper leaves blank are as large as base."""


@dataclass(frozen=True)
class Cost:
    """The cost of a planned run."""

    parameters_by_part: dict[str, int]
    """Embeddings, positions, encoder, decoder; tied matrices count once."""
    flops_per_target_token: int
    tokens_per_update: int
    """Target tokens of an update without padding, an estimate."""
    training_flops: float
    micro_batch_tokens: int
    memory: TrainingMemory
    published: PublishedModel | None
    """Figures of the paper's model of the same sizes; None if there is none."""
    nearest: str
    """Preset of the most similar model of the paper."""
    deviations: list[Deviation]
    """Deviations from the nearest model."""

    @property
    def parameters(self) -> int:
        """Number of parameters of the whole model."""
        return sum(self.parameters_by_part.values())

    @property
    def checkpoint_bytes(self) -> int:
        """Size of a checkpoint on disk."""
        return self.memory.weights

    @property
    def state_bytes(self) -> int:
        """Size on disk of the state that only resuming needs."""
        return self.memory.moments


def cost(config: RunConfig, length: int) -> Cost:
    """Estimate the cost of a run on sentences of `length` tokens."""
    training, counted = config.training, _counted(config.model)
    parameters = count_parameters(config.model)
    flops = flops_per_target_token(config.model, length)
    micro_batch_tokens = training.resolved_micro_batch_tokens()
    tokens_per_update = round(training.batch_tokens * _REAL_SHARE)
    return Cost(
        parameters,
        flops,
        tokens_per_update,
        float(flops * tokens_per_update * training.num_steps),
        micro_batch_tokens,
        training_memory(config, micro_batch_tokens, length, chunk_elements("cpu")),
        next((row for name, row in PUBLISHED.items() if _counted(PRESETS[name]().model) == counted), None),
        nearest_of_paper(config),
        deviations(config),
    )


def flops_per_target_token(config: ModelConfig, length: int) -> int:
    """FLOPs of the matrix products, forward and backward, for one target token and one source token.

    `length` is the number of tokens of source and target, and of keys per query, masked ones included.
    """
    return training_flops(config, 1, length, length, length) // length


def _counted(model: ModelConfig) -> tuple[object, ...]:
    """The settings that determine the paper's number of parameters, to the million."""
    over_parameters = model.parameter_heads, *model.parameter_head_widths, model.parameter_pairs
    learned = model.positions == "learned"
    return *sizes(model), model.feed_forward, over_parameters, learned, model.tied_embeddings
