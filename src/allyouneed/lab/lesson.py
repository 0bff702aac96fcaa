"""A task for `docs/learn` that a small Transformer learns in seconds: to write a sequence backwards."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from allyouneed.config.model import ModelConfig
from allyouneed.config.run import SearchConfig, TrainingConfig
from allyouneed.inference.generate import generate
from allyouneed.inference.torch_engine import TorchEngine, pad
from allyouneed.model.encoder_decoder import EncoderDecoder
from allyouneed.model.transformer import Transformer
from allyouneed.symbols import END, PADDING, START, UNKNOWN
from allyouneed.training.loss import label_smoothed_cross_entropy
from allyouneed.training.optimizer import adam, inverse_square_root

VOCAB_SIZE = 16
"""Control symbols, and eleven others to write."""

Sequences = Sequence[Sequence[int]]
Build = Callable[[ModelConfig], EncoderDecoder]


def sequences(seed: int, count: int, longest: int = 5) -> list[list[int]]:
    """Random sequences of three symbols to `longest`; another seed gives others."""
    draw = np.random.default_rng(seed)
    lengths = draw.integers(3, longest + 1, count)
    return [draw.integers(UNKNOWN + 1, VOCAB_SIZE, length).tolist() for length in lengths]


def small_model(build: Build = Transformer, **settings: Any) -> EncoderDecoder:
    """A model of one layer of two heads, d_model 32; `settings` are those of `ModelConfig`."""
    sizes = {"d_model": 32, "d_ff": 64, "num_layers": 1, "num_heads": 2, "dropout": 0.0}
    vocabularies = dict.fromkeys(("source_vocab_size", "target_vocab_size"), VOCAB_SIZE)
    torch.manual_seed(1)
    return build(ModelConfig(**{**sizes, **vocabularies, **settings}))


def batch_of(sources: Sequences) -> tuple[Tensor, Tensor, Tensor]:
    """Sources, inputs of the decoder, and the tokens that it is to write: the sources backwards."""
    device = torch.device("cpu")
    targets = [source[::-1] for source in sources]
    return (
        pad([[*source, END] for source in sources], device),
        pad([[START, *target] for target in targets], device),
        pad([[*target, END] for target in targets], device),
    )


def losses_in_training(
    model: EncoderDecoder, num_steps: int = 200, smoothing: float = 0.1, **settings: Any
) -> Iterator[float]:
    """Train a model, one step (section 5) for each loss that is asked for: in nats per token, unsmoothed.

    `settings` are those of `TrainingConfig`.
    """
    training = TrainingConfig(**{"warmup_steps": 60, **settings})
    optimizer = adam(list(model.parameters()), training)
    for step in range(1, num_steps + 1):
        source, target_input, gold = batch_of(sequences(step, 32))
        is_real = gold != PADDING
        logits = model.project(model(source, target_input))[is_real]
        smoothed, unsmoothed = label_smoothed_cross_entropy(logits, gold[is_real], smoothing)
        optimizer.zero_grad()
        (smoothed / is_real.sum()).backward()
        optimizer.param_groups[0]["lr"] = inverse_square_root(step, model.config.d_model, training)
        optimizer.step()
        yield float(unsmoothed / is_real.sum())


def share_right(model: EncoderDecoder, count: int = 100) -> float:
    """The share of sequences never trained on that the model writes backwards without an error, greedily."""
    unseen = sequences(0, count)
    found = generate(TorchEngine(model.eval()), unseen, SearchConfig(beam_size=1))
    return sum(best.ids == source[::-1] for [best], source in zip(found, unseen, strict=True)) / count
