"""Named configurations: the paper's models, the rows of its Table 3, its rivals, and smaller models."""

import difflib
import math
from collections.abc import Callable

from allyouneed.config.model import ModelConfig
from allyouneed.config.run import RunConfig
from allyouneed.errors import UsageError


def base() -> RunConfig:
    """The paper's base model: the defaults of every setting (Table 3, first row)."""
    return RunConfig()


def big() -> RunConfig:
    """The paper's big model (Table 3, last row; 300,000 steps, 20 checkpoints averaged)."""
    return base().replace(
        model={"d_model": 1024, "d_ff": 4096, "num_heads": 16, "dropout": 0.3},
        training={
            "num_steps": 300_000,
            "checkpoint_every_steps": 600,  # ten minutes at the paper's 1.0 s per update
            "keep_checkpoints": 20,
            "average_last": 20,
        },
    )


def base_en_fr() -> RunConfig:
    """The base model for English-French: 32,000 word-pieces (5.1)."""
    return base().replace(model=_vocabularies(32_000), data={"tokenizer": "wordpiece", "vocab_size": 32_000})


def big_en_fr() -> RunConfig:
    """The big model for English-French: dropout 0.1 and 32,000 word-pieces (5.1, 6.1)."""
    return big().replace(
        model={"dropout": 0.1, **_vocabularies(32_000)}, data={"tokenizer": "wordpiece", "vocab_size": 32_000}
    )


def multi30k_tiny() -> RunConfig:
    """A small model for small corpora, sized for Multi30k on two cores."""
    return base().replace(
        model={
            **{"num_layers": 4, "d_model": 128, "d_ff": 256, "num_heads": 4, "dropout": 0.3},
            **_vocabularies(10_000),
        },
        data={"vocab_size": 10_000},
        training={
            **{"batch_tokens": 4_096, "num_steps": 8_000, "learning_rate_factor": 2.5, "warmup_steps": 2_000},
            **{"checkpoint_every_steps": 250, "keep_checkpoints": 10, "average_last": 10},
            "validate_every_steps": 500,
        },
        search={"beam_size": 5},
    )


def parsing_wsj() -> RunConfig:
    """The parser of section 6.3 for the Wall Street Journal part of the Penn Treebank.

    The paper gives layers, d_model, vocabulary, beam, alpha and maximum length. All else is as in the base
    translation model, except dropout and learning rate, whose values the paper does not give. Dropout
    (attention dropout too), warm-up and untied embeddings come from tensor2tensor (transformer_parsing_base),
    which has six layers. Its learning rate is five times that of its base model in the first release and half
    of it in later ones. The settings behind the paper's figures are unknown; the learning rate here is the
    base model's.
    """
    return base().replace(
        model={
            **{"num_layers": 4, "d_model": 1024, "dropout": 0.2, "attention_dropout": 0.2},
            **{"source_vocab_size": 16_000, "target_vocab_size": 128, "tied_embeddings": "none"},
        },
        data={"task": "parsing", "vocab_size": 16_000, "joint_vocabulary": False, "max_tokens": 1_024},
        training={"warmup_steps": 16_000},
        search={"beam_size": 21, "length_penalty": 0.3, "max_extra_tokens": 300},
    )


def parsing_semi() -> RunConfig:
    """The parser of section 6.3 for semi-supervised training: 32,000 sub-words.

    The paper adds 17 million sentences parsed by other parsers; `prepare --silver-trees` adds any such trees.
    tensor2tensor uses its big model for this (transformer_parsing_big: 16 heads, d_ff 4096, less dropout);
    the paper describes one model with two vocabularies.
    """
    return parsing_wsj().replace(model={"source_vocab_size": 32_000}, data={"vocab_size": 32_000})


def parsing_tiny() -> RunConfig:
    """A small parser for a few thousand trees, on two cores.

    Words and brackets are encoded so that output step t must attend to source position t: from so few trees,
    a model does not learn to find the position by itself. Nor does it with normalisation after the sum.
    """
    return parsing_wsj().replace(
        model={
            **{"d_model": 128, "d_ff": 512, "num_heads": 4, "norm": "pre"},
            **{"dropout": 0.3, "attention_dropout": 0.1, "symbol_dropout": 0.1},
            **{"source_vocab_size": 4_000, "tied_embeddings": "target"},
        },
        data={"tokenizer": "words", "vocab_size": 4_000, "tags": "predicted", "brackets": "joined"},
        training={
            **multi30k_tiny().training.model_dump(),
            **{"batch_tokens": 2_048, "micro_batch_tokens": 1_024, "num_steps": 6_000},
            **{"learning_rate_factor": 1.5, "warmup_steps": 1_000},
        },
        search={"beam_size": 5},
    )


def frames_tiny() -> RunConfig:
    """A small model of frames, such as those of speech or handwriting, that writes bytes; for two cores."""
    return base().replace(
        model={
            **{"num_layers": 4, "d_model": 128, "d_ff": 512, "num_heads": 4, "norm": "pre", "dropout": 0.1},
            **{"front": "convolutions", "tied_embeddings": "target"},
            **{"source_vocab_size": 80, "target_vocab_size": 261},
        },
        data={
            "task": "frames",
            "tokenizer": "byte",
            "vocab_size": 80,
            "joint_vocabulary": False,
            "max_tokens": 3_000,
        },
        training={
            **multi30k_tiny().training.model_dump(),
            **{"batch_tokens": 12_000, "num_steps": 6_000},
            **{"learning_rate_factor": 1.5, "warmup_steps": 1_000},
        },
        search={"beam_size": 4, "length_penalty": 0.6},
    )


def demo() -> RunConfig:
    """The model of `allyouneed demo`; it learns the demo grammar in minutes on two cores."""
    return base().replace(
        model={
            **{"num_layers": 2, "d_model": 128, "d_ff": 512, "num_heads": 4, "dropout": 0.1},
            **_vocabularies(2_000),
        },
        data={"vocab_size": 2_000},
        training={
            **{"batch_tokens": 2_048, "micro_batch_tokens": 1_024, "num_steps": 2_000},
            **{"learning_rate_factor": 1.5, "warmup_steps": 400},
            **{"checkpoint_every_steps": 100, "validate_every_steps": 500},
        },
    )


def laptop() -> RunConfig:
    """A small model that translates after minutes of training on one core (docs/start.md, "Which preset").

    Few tokens per update and a short warm-up make for many updates at a high rate in little time.
    """
    return demo().replace(
        model=_vocabularies(4_000),
        data={"vocab_size": 4_000},
        training={
            "batch_tokens": 1_024,
            "num_steps": 20_000,
            "learning_rate_factor": 0.8,
            "checkpoint_every_steps": 200,
            "validate_every_steps": 1_000,
            "precision": "float32",  # 1.6 times as fast as bfloat16 here (docs/experiments/multi30k.md)
        },
    )


SIZES: dict[str, dict[str, int]] = {
    "tiny": {"num_layers": 4, "d_model": 128, "d_ff": 256, "num_heads": 4},
    "small": {"num_layers": 4, "d_model": 192, "d_ff": 768, "num_heads": 6},
    "compact": {"num_layers": 4, "d_model": 256, "d_ff": 1024, "num_heads": 8},
    "medium": {"num_layers": 5, "d_model": 384, "d_ff": 1536, "num_heads": 6},
    "base": {"num_layers": 6, "d_model": 512, "d_ff": 2048, "num_heads": 8},
    "big": {"num_layers": 6, "d_model": 1024, "d_ff": 4096, "num_heads": 16},
}
"""Name of a size -> settings of the model, smallest first; `train --budget` takes one of them."""


def modern(size: str) -> RunConfig:
    """A model of one of the `SIZES`, and what has been found better than the paper's recipe since.

    Normalisation comes before the sub-layers, self-attention turns queries and keys by their positions
    (rotary), and the learning rate falls in a straight line to 0 at the end of the run
    (docs/experiments/budget.md).
    """
    return base().replace(
        model={"norm": "pre", "positions": "rotary", "dropout": 0.2, **SIZES[size]},
        training={"schedule": "linear_decay", "batch_tokens": 2_048},
        search={"beam_size": 5},
    )


STUDENTS: dict[str, dict[str, int]] = {
    "small": {"num_layers": 6, "num_decoder_layers": 2, "d_model": 512, "d_ff": 2048},
    "tiny": {"num_layers": 6, "num_decoder_layers": 2, "d_model": 256, "d_ff": 1024},
    "micro": {"num_layers": 4, "num_decoder_layers": 1, "d_model": 128, "d_ff": 256},
}
"""Name of a student's shape -> settings of the model; see `student_of`."""
_WIDTH_OF_HEAD = 32
_WIDTH_STEP = 64
"""Divisor of a student's width, which Bergamot's products in int8 need."""


def student_of(shape: str, teacher: ModelConfig) -> RunConfig:
    """A model of one of the shapes of `STUDENTS`, no wider than its teacher, but 64 wide or more.

    The encoder, which reads a sentence at once, is deep. The decoder is shallow and recurrent (SSRU), one of
    its heads learns the alignment, and its search is greedy, as in the students of Bergamot. A Transformer of
    the same width has its variants, such as the place of normalisation, from its teacher.

    Raises:
        UsageError: There is no such shape.
    """
    if shape not in STUDENTS:
        raise UsageError(f"shape {shape}: unknown; take {', '.join(STUDENTS)}", settings=["shape"])
    model = STUDENTS[shape]
    d_model = min(model["d_model"], max(_WIDTH_STEP, teacher.d_model // _WIDTH_STEP * _WIDTH_STEP))
    form: dict[str, object] = {"num_heads": d_model // _WIDTH_OF_HEAD}
    if teacher.d_model == d_model and _suits_students(teacher):
        unused = dict.fromkeys(("attention_dropout", "feed_forward_dropout", "symbol_dropout"), 0.0)
        form = teacher.model_dump() | unused
    return modern("tiny").replace(
        model={
            **form,
            **model,
            "d_model": d_model,
            "d_ff": model["d_ff"] * d_model // model["d_model"],
            "autoregression": "ssru",
            "dropout": 0.1,
            "guided_alignment": 0.2,
            "guided_layer": None,
        },
        search={"beam_size": 1, "alignment_head": 1},
    )


def _suits_students(model: ModelConfig) -> bool:
    """Whether a recurrent unit may take the place of self-attention, and layers that do nothing be added."""
    is_plain = model.architecture == "transformer" and model.feed_forward == "network"
    return is_plain and model.neighbourhood is None and model.source_end


def compact() -> RunConfig:
    """About 10 million parameters: for some hundred thousand pairs and a night on two cores."""
    return modern("compact").replace(
        model=_vocabularies(8_000),
        data={"vocab_size": 8_000},
        training={"batch_tokens": 4_096, "num_steps": 30_000, **warm_up(3_000, highest=1.8e-3, d_model=256)},
    )


def medium() -> RunConfig:
    """About 25 million parameters: for a million pairs and days on two cores, or an hour on a GPU."""
    return modern("medium").replace(
        model={"dropout": 0.1, **_vocabularies(16_000)},
        data={"vocab_size": 16_000},
        training={"batch_tokens": 8_192, "num_steps": 40_000, **warm_up(4_000, highest=1.2e-3, d_model=384)},
    )


def recurrent_gnmt() -> RunConfig:
    """GNMT for English-German (Wu et al. 2016): 8 layers of 1,024 units, 32,000 word-pieces, alpha 0.2.

    The learning rate peaks at 0.0002, as in that paper. There is no gradient clipping, no SGD phase after
    Adam, and no refinement by reinforcement learning.
    """
    return base().replace(
        model={
            **{"architecture": "recurrent", "num_layers": 8, "d_model": 1024, "dropout": 0.2},
            **_vocabularies(32_000),
        },
        data={"tokenizer": "wordpiece", "vocab_size": 32_000},
        training={"learning_rate_factor": 0.4, "label_smoothing": 0.0},
        search={"length_penalty": 0.2},
    )


def convolutional_convs2s() -> RunConfig:
    """ConvS2S for English-German (Gehring et al. 2017): 15 layers of width 3, 40,000 sub-words, dropout 0.2.

    All layers are as wide as the first nine layers in that paper, where four layers of 1,024 units and two of
    2,048 (kernel width 1) follow. Adam replaces Nesterov's method, and gradients are not clipped.
    """
    return base().replace(
        model={
            **{"architecture": "convolutional", "num_layers": 15, "kernel_width": 3, "dropout": 0.2},
            **{"positions": "learned", **_vocabularies(40_000)},
        },
        data={"vocab_size": 40_000},
        training={"learning_rate_factor": 0.7, "label_smoothing": 0.0},
        search={"beam_size": 5, "length_normalization": "average"},
    )


def bytenet() -> RunConfig:
    """ByteNet (Kalchbrenner et al. 2016): 30 blocks of width 3, d = 800 inside, 1,600 between them.

    Its input is sub-words instead of bytes. As in that paper, the learning rate peaks at 0.0003, and search
    keeps 12 hypotheses and does not normalise by length.
    """
    return base().replace(
        model={
            **{"architecture": "bytenet", "num_layers": 30, "d_model": 1600, "kernel_width": 3},
            "dropout": 0.0,
        },
        training={"learning_rate_factor": 0.75, "label_smoothing": 0.0},
        search={"beam_size": 12, "length_normalization": "none"},
    )


def experts() -> RunConfig:
    """The mixture-of-experts translator of Shazeer et al. 2017: 3 layers, 2,048 experts, 4 per token.

    LSTM layers have d_model units, and gating has a single level: see `model/experts.py`.
    """
    return recurrent_gnmt().replace(
        model={
            **{"feed_forward": "experts", "num_experts": 2_048, "experts_per_token": 4},
            **{"num_layers": 3, "d_model": 512, "d_ff": 2048},
        }
    )


def warm_up(steps: int, *, highest: float, d_model: int) -> dict[str, float]:
    """The settings of a warm-up that ends at the `highest` learning rate, by equation 3."""
    return {
        "warmup_steps": steps,
        "learning_rate_factor": float(f"{highest * math.sqrt(steps * d_model):.3g}"),
    }


def _vocabularies(size: int) -> dict[str, int]:
    return {"source_vocab_size": size, "target_vocab_size": size}


def _table3(label_smoothing: float = 0.1, **model: object) -> Callable[[], RunConfig]:
    """Make the preset of a row of Table 3; checkpoints are not averaged."""
    return lambda: base().replace(
        model=model, training={"label_smoothing": label_smoothing, "average_last": 1}
    )


_OF_PAPER = base, base_en_fr, big, big_en_fr, parsing_semi, parsing_wsj
_RIVALS = bytenet, convolutional_convs2s, experts, recurrent_gnmt
_OTHERS = compact, demo, frames_tiny, laptop, medium, multi30k_tiny, parsing_tiny

PRESETS: dict[str, Callable[[], RunConfig]] = {
    **dict(sorted((make.__name__, make) for make in (*_OF_PAPER, *_RIVALS, *_OTHERS))),
    # Rows A: number of heads, with d_k and d_v adjusted to keep the amount of computation the same.
    "table3_heads_1": _table3(num_heads=1, d_k=512, d_v=512),
    "table3_heads_4": _table3(num_heads=4, d_k=128, d_v=128),
    "table3_heads_16": _table3(num_heads=16, d_k=32, d_v=32),
    "table3_heads_32": _table3(num_heads=32, d_k=16, d_v=16),
    # Rows B: width of the keys only.
    "table3_dk_16": _table3(d_k=16),
    "table3_dk_32": _table3(d_k=32),
    # Rows C: size.
    "table3_layers_2": _table3(num_layers=2),
    "table3_layers_4": _table3(num_layers=4),
    "table3_layers_8": _table3(num_layers=8),
    "table3_d_model_256": _table3(d_model=256, d_k=32, d_v=32),
    "table3_d_model_1024": _table3(d_model=1024, d_k=128, d_v=128),
    "table3_d_ff_1024": _table3(d_ff=1024),
    "table3_d_ff_4096": _table3(d_ff=4096),
    # Rows D: dropout and label smoothing.
    "table3_dropout_00": _table3(dropout=0.0),
    "table3_dropout_02": _table3(dropout=0.2),
    "table3_smoothing_00": _table3(label_smoothing=0.0),
    "table3_smoothing_02": _table3(label_smoothing=0.2),
    # Row E: learned positions instead of sinusoids.
    "table3_learned_positions": _table3(positions="learned"),
    # Attention over parameters instead of the feed-forward network: a table of the paper's source. Its text
    # gives the second 8 heads, but then the sub-layer would have half the stated number of parameters.
    "aop1": _table3(feed_forward="parameters", parameter_heads=8, parameter_pairs=1_536),
    "aop2": _table3(feed_forward="parameters", parameter_heads=16, parameter_pairs=512),
}
"""Name on the command line -> configuration."""

PAPER_PRESETS = [name for name, make in PRESETS.items() if make not in (*_OTHERS, *_RIVALS)]
"""Presets that the paper describes, base first."""


def purpose_of(name: str) -> str:
    """The preset in one line; "" for the rows of Table 3."""
    return (PRESETS[name].__doc__ or "").partition("\n")[0]


def preset(name: str) -> RunConfig:
    """The configuration named `name`; raises UsageError if there is none."""
    if name not in PRESETS:
        nearest = difflib.get_close_matches(name, PRESETS, n=1)
        remedy = f"did you mean {nearest[0]}?" if nearest else f"presets: {', '.join(PRESETS)}"
        raise UsageError(f"preset {name}: unknown; {remedy}", settings=["preset"])
    return PRESETS[name]()
