"""Chooses what reads and what proposes the blocks of blockwise decoding, or says why a model has none."""

from allyouneed.config.run import SearchConfig
from allyouneed.errors import UsageError
from allyouneed.inference.engine import Engine
from allyouneed.inference.native_engine import NativeEngine
from allyouneed.inference.speculation import (
    BlockReader,
    HeadProposer,
    Speculation,
    StudentProposer,
    loose_criteria,
)

_OF_STUDENT = 4
"""Number of tokens verified at once by default, if a student proposes them."""


def speculation_of(engine: Engine, config: SearchConfig) -> Speculation:
    """Start an empty decoding in blocks.

    Raises:
        UsageError: The model, or the student, cannot read blocks, or nothing proposes tokens.
    """
    reader, size = block_reader(engine), config.block_size
    if engine.student is not None:
        student = StudentProposer(block_reader(engine.student), (size or _OF_STUDENT) - 1)
        return Speculation(reader, student, config, engine.block_counts)
    heads = engine.config.block
    if heads == 1:
        raise UsageError(
            "blockwise: the model has no heads that propose tokens; name a student (draft), or train heads "
            "with init_from and model.block=6",
            settings=["blockwise", "draft", "init_from"],
        )
    if size is not None and size > heads:
        raise UsageError(
            f"block_size {size}: the model has heads for blocks of {heads} (model.block); lower it",
            settings=["block_size"],
        )
    return Speculation(reader, HeadProposer(reader, (size or heads) - 1), config, engine.block_counts)


def require_effect(config: SearchConfig, has_rules: bool) -> None:
    """Raise UsageError for criteria looser than greedy search beside what decides for every sentence."""
    deciding = {
        "min_length": config.min_length > 1,
        "no_repeat_ngram_size": config.no_repeat_ngram_size > 0,
        "repetition_penalty": config.repetition_penalty != 1,
        "sampling": config.sampling,
        "the rules of the task": has_rules,
    }
    loose, others = loose_criteria(config), [name for name, decides in deciding.items() if decides]
    if loose and others:
        raise UsageError(
            f"{', '.join(loose)}: has no effect beside {', '.join(others)}; leave it out", settings=loose
        )


def block_reader(engine: Engine) -> BlockReader:
    """Start an empty decoding that reads blocks; raises UsageError if the engine has none."""
    if len(engine.members) > 1 or engine.has_shortlist or engine.config.architecture != "transformer":
        raise UsageError(
            "blockwise: is for a single Transformer and all of its vocabulary, not for an ensemble, a "
            "shortlist or another architecture; leave out one",
            settings=["blockwise"],
        )
    if isinstance(engine, NativeEngine):
        from allyouneed.inference.native_blocks import NativeBlocks

        return NativeBlocks(engine)
    from allyouneed.inference.torch_blocks import TorchBlocks
    from allyouneed.inference.torch_engine import TorchEngine
    from allyouneed.model.transformer import Transformer

    assert isinstance(engine, TorchEngine)
    assert isinstance(engine.model, Transformer)
    if engine.config.autoregression == "ssru":
        raise UsageError(
            "blockwise: PyTorch cannot take back what a recurrent unit has read; take device cpu, whose "
            "kernels can",
            settings=["blockwise", "device"],
        )
    return TorchBlocks(engine.model)
