"""The settings of a run: frozen, validated, saved as TOML. The defaults are the paper's base model."""

import operator
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypedDict

import tomli_w
from pydantic import Field, PositiveFloat, model_validator

from allyouneed.config.model import ModelConfig, Positions, Probability
from allyouneed.config.settings import Config, line_of, read_toml, toml_value
from allyouneed.errors import UsageError
from allyouneed.language_codes import Direction
from allyouneed.symbols import MAX_ENTRIES

Precision = Literal["auto", "float32", "tf32", "bfloat16"]
DecodingPrecision = Literal["float32", "bfloat16", "int8"]
LengthNormalization = Literal["gnmt", "average", "none"]

Count = Annotated[int, Field(ge=1, le=2**63 - 1)]
"""A count, for example of steps; a huge value stands for "never"."""
Place = Annotated[str, Field(min_length=1, max_length=4_096)]
"""A path, absolute or relative to the working directory; with bounds, only Unicode is valid."""
BatchTokens = Annotated[int, Field(ge=1, le=10**9)]

_MICRO_BATCHES = 4
MAY_CHANGE = {
    *("num_steps", "budget_flops", "budget_seconds", "checkpoint_every_steps", "checkpoint_every_minutes"),
    *("keep_checkpoints", "average_last", "validate_every_steps", "patience", "init_from", "replay"),
    "compiled",
}
"""Training settings that may change when a run resumes; the updates do not depend on them, apart from the
rounding and the dropout masks of compiled code. The contents of a model and of data that are in another place
are compared."""


class DataConfig(Config):
    """Preparation of the data (paper 5.1)."""

    task: str = "translation"
    """Task: "translation", "parsing" into constituency trees (6.3), or "frames", vectors into text (7)."""
    tokenizer: Literal["bpe", "wordpiece", "byte", "sentencepiece", "words"] = "bpe"
    """Sub-word units: byte-level byte-pair encoding, word-pieces over bytes, plain bytes, or SentencePiece's
    unigrams; for parsing also words, with a fixed number of ids each (`tasks/parsing/word_features.py`)."""
    vocab_size: Annotated[int, Field(ge=0, le=MAX_ENTRIES)] = 37_000
    """Entries of each vocabulary, control symbols included; 0: 504 to 32,000, by the number of pairs."""
    joint_vocabulary: bool = True
    """Share one vocabulary between both languages, as the paper does for English-German."""
    vocab_sample_bytes: Annotated[int, Field(ge=0, le=10**12)] = 4 * 2**20
    """Bytes of distinct words to learn each vocabulary from; a larger corpus is sampled. Each byte takes
    about 150 bytes of memory. 0 uses all of the text. Words end at white space; in languages without spaces,
    such as Chinese and Japanese, whole sentences count as words."""
    # Deviation: the paper drops no pairs; see docs/paper.md.
    max_tokens: Positions = 256
    """Maximum tokens per side; longer pairs are dropped."""
    max_length_ratio: PositiveFloat = 4.0
    """Maximum ratio between the token counts of the two sides; pairs above it are dropped if one side has
    more than 20 tokens."""
    bpe_dropout: Probability = 0.0
    """Probability that a merge of `bpe` is left out in training text (Provilkov et al., 2020), so that a word
    is segmented in several ways."""
    placeholders: Annotated[bool, Field(exclude_if=operator.not_)] = False
    """Put symbols in place of words in some training pairs: the model learns to keep placeholders
    (docs/terms.md)."""
    annotate_terms: Annotated[bool, Field(exclude_if=operator.not_)] = False
    """Write translations after words in some training sources: the model learns to use given terms
    (docs/terms.md)."""
    source_language: str = ""
    """Code of the source language, such as "en", if known; selects the rules for splitting sentences."""
    target_language: str = ""
    """Code of the target language, such as "de" or "zh"; BLEU counts the tokens of this language."""
    directions: Annotated[
        tuple[Annotated[Direction, Field(strict=False)], ...], Field(strict=False, exclude_if=operator.not_)
    ] = ()
    """Directions such as [["en", "de"], ["en", "fr"]] of a model of several; `prepare` sets them."""
    language_symbols: Annotated[
        Literal["target", "both"], Field(exclude_if=lambda value: value == "target")
    ] = "target"
    """Symbols of a model of several languages: that of the language to write before each source, or that of
    its own language before each source and each translation, as in M2M-100 and NLLB."""
    tags: Literal["normalised", "predicted", "endings", "words"] = "normalised"
    """Symbol of a word in a tree: the same for all words, its part of speech, its last letter, or its part of
    speech and the word itself."""
    brackets: Literal["labelled", "plain", "joined"] = "labelled"
    """End of a constituent in a tree: `)NP`, `)`, or one symbol for all at a word (docs/parsing.md)."""


class TrainingConfig(Config):
    """Training (paper 5.1 to 5.4)."""

    # Deviation: 5.1 counts real tokens, about 25,000 a side; this bounds a batch with its padding.
    batch_tokens: BatchTokens = 26_500
    """Maximum tokens per side and update, padding included; about 25,000 are then real, as in 5.1."""
    micro_batch_tokens: BatchTokens | None = None
    """Maximum tokens per side computed at once, padding included; default: chosen at the start and saved."""
    packed_tokens: BatchTokens | None = None
    """Maximum tokens per side computed at once on an NVIDIA GPU in bfloat16, where micro-batches are packed
    in a row, without padding; default: as many of a batch as its memory holds, saved at the start. Elsewhere
    without effect, unless training.compiled is "on"."""
    compiled: Literal["auto", "on", "off"] = "auto"
    """Whether `torch.compile` computes packed micro-batches, filled up to a fixed size with tokens of weight
    zero; "auto": by one process on an NVIDIA GPU; "on": elsewhere, too, with packed_tokens, for small batches
    only, as packing without flash attention takes the square of their memory. Where it cannot, the log says
    why, and they are computed without it."""
    num_steps: Count = 100_000
    """Number of updates in the whole run (5.2)."""
    optimizer: Literal["adam"] = "adam"
    """Optimizer (5.3)."""
    schedule: Literal["inverse_square_root", "linear_decay"] = "inverse_square_root"
    """Schedule of the learning rate: equation 3 (5.3), or its warm-up and then a straight line that reaches 0
    after `num_steps`."""
    learning_rate_factor: PositiveFloat = 1.0
    """Factor in front of equation 3."""
    warmup_steps: Count = 4_000
    """Steps over which the learning rate grows (5.3)."""
    adam_beta1: Probability = 0.9
    """Decay of Adam's first moment (5.3)."""
    adam_beta2: Probability = 0.98
    """Decay of Adam's second moment (5.3)."""
    adam_epsilon: PositiveFloat = 1e-9
    """Adam's epsilon (5.3)."""
    label_smoothing: Probability = 0.1
    """Probability spread evenly over the vocabulary (5.4)."""
    label_smoothing_over: Literal["all", "others"] = "all"
    """Entries that share the smoothing: all, or all but the right one."""
    budget_flops: PositiveFloat | None = None
    """Budget of FLOPs in matrix products, over all updates; the run ends when it is spent."""
    budget_seconds: PositiveFloat | None = None
    """Budget of wall time in seconds, validations and checkpoints included; the run ends when it is spent."""
    planned_seconds: PositiveFloat | None = None
    """Wall time in seconds that `num_steps` was chosen for, as by `train --budget`. A run that would miss
    it moves its end, once, at a checkpoint."""
    moved_end: Annotated[tuple[Count, ...], Field(strict=False, max_length=2)] = ()
    """The update at which the end of a planned run was moved, and `num_steps` before; recorded by the run."""
    # Deviation: 6.1 saves every ten minutes; on other hardware that would average another part of the run.
    checkpoint_every_steps: Count | None = 1_500
    """Updates between the checkpoints that `average` uses; the default is ten minutes of the paper's base
    model (5.2, 6.1)."""
    checkpoint_every_minutes: PositiveFloat = 10.0
    """Maximum minutes between checkpoints to resume from; `average` does not use the extra ones."""
    keep_checkpoints: Count = 5
    """Number of newest checkpoints to keep, in addition to the best."""
    average_last: Count = 5
    """Number of last checkpoints that `average` takes by default (6.1)."""
    validate_every_steps: Count = 1_000
    """Updates between validations, if there is validation data."""
    patience: Count | None = None
    """Validations without improvement after which training stops; default: never."""
    # Deviation: the paper's products were in float32; see docs/paper.md.
    precision: Precision = "auto"
    """Precision of matrix products; "auto": bfloat16 on GPUs that have it, and on CPUs that multiply it
    faster, which is timed. "tf32", for NVIDIA GPUs, is float32 whose factors are rounded to 10 bits. Weights
    stay float32."""
    threads_share: Literal["micro_batches", "operations"] = "micro_batches"
    """Work that the threads of a CPU share: micro-batches, each computed by one of them, or every operation.
    Threads that share operations often wait for each other, which is slow on a busy machine."""
    init_from: Place | None = None
    """Model to continue: a run, a checkpoint or a model directory. The run has its architecture, and starts
    with its weights."""
    init_sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    """The sha256 of these weights; recorded at the start."""
    init_moments: bool = False
    """Start with the optimizer's moments of that model, too; it must be a checkpoint with a saved state."""
    replay: Place | None = None
    """Prepared data to replay, such as those of the continued model, so that it forgets less of them."""
    replay_share: Probability = 0.0
    """Share of the target tokens of every batch that comes from `replay`."""
    frozen: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Patterns of names of parameters that keep their values, such as ["embeddings.*", "encoder.0.*"]."""
    sharded: bool = False
    """Shard weights, gradients and moments over processes (FSDP2); for models too large for one device."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    """Seed of initialisation, batches and dropout."""
    block_pairs: Annotated[int, Field(ge=0, le=1_000_000_000)] = 1 << 20
    """Approximate number of pairs whose order is planned at once; corpora under 1.5 times this size are
    planned whole, as everything is with 0."""

    @property
    def moments_per_weight(self) -> int:
        """Number of values that the optimizer keeps for each weight."""
        return {"adam": 2}[self.optimizer]

    def resolved_micro_batch_tokens(self, longest: int = 1, num_processes: int = 1) -> int:
        """`micro_batch_tokens`, or if not set a quarter of the batch, so that each update mixes lengths.

        A micro-batch holds the `longest` sentence, end symbol included, and each process gets one.
        """
        default = max(longest, self.batch_tokens // max(_MICRO_BATCHES, num_processes))
        return self.micro_batch_tokens or min(self.batch_tokens, default)

    @model_validator(mode="after")
    def _check_companions(self) -> Self:
        if self.init_from is None and (self.init_moments or self.init_sha256 is not None):
            raise ValueError("init_moments and init_sha256 have no effect without init_from; leave them out")
        if (self.replay is None) != (self.replay_share == 0.0):
            raise ValueError(
                "replay and replay_share go together; give prepared data and a share, such as 0.2, or neither"
            )
        if self.packed_tokens is not None and self.sharded:
            raise ValueError("the micro-batches of a sharded model are not packed; leave out packed_tokens")
        if len(self.moved_end) == 1:
            raise ValueError("moved_end is an update and a number of updates, or empty")
        if self.schedule == "inverse_square_root" and (self.planned_seconds or self.moved_end):
            raise ValueError("planned_seconds and moved_end are for schedules that end; take linear_decay")
        if self.frozen and self.sharded:
            raise ValueError("frozen parameters cannot be sharded; leave out frozen or sharded")
        return self


class SearchConfig(Config):
    """Beam search (paper 6.1), or sampling instead. The docstrings are the `--help` of the commands."""

    beam_size: Annotated[int, Field(ge=1, le=1024)] = 4
    """Hypotheses kept per step; 1 is greedy search."""
    length_penalty: Annotated[float, Field(ge=0.0, le=10.0)] = 0.6
    """Exponent alpha of the length penalty."""
    length_normalization: LengthNormalization = "gnmt"
    """Divisor of scores: the paper's ((5 + n) / 6)^alpha, n, or 1; n counts the end symbol."""
    coverage_penalty: Annotated[float, Field(ge=0.0, le=10.0)] = 0.0
    """Factor beta of the coverage penalty, which lowers the score if parts of the source get little attention
    (Wu et al. 2016, equation 14); the paper has no such penalty."""
    alignments: bool = False
    """Report which source and output words are aligned."""
    alignment_layer: Count | None = None
    """Decoder layer, from 1, whose attention gives alignments and coverage; if not given, the second to last,
    or the last of two."""
    alignment_head: Count | None = None
    """Head of that layer, from 1; if not given, the mean of all heads."""
    max_extra_tokens: Annotated[int, Field(ge=0, le=100_000)] = 50
    """Maximum number of tokens by which an output may exceed its source."""
    max_length: Count | None = None
    """Maximum tokens of an output, end symbol included; applies in addition to `max_extra_tokens`."""
    min_length: Annotated[int, Field(ge=0, le=100_000)] = 0
    """Minimum tokens of an output, end symbol included."""
    early_stopping: bool = False
    """Stop when `beam_size` hypotheses have ended, even if a better one could still follow."""
    no_repeat_ngram_size: Annotated[int, Field(ge=0, le=1_000)] = 0
    """Never repeat a sequence of N tokens; 0 allows all repetitions."""
    repetition_penalty: Annotated[float, Field(ge=1.0, le=100.0)] = 1.0
    """Factor on the log-probability of tokens already in the output (CTRL, 2019); above 1, they become less
    likely."""
    blockwise: bool = False
    """Greedy search in blocks (Stern et al. 2018): the model's heads (`model.block`), or a student, propose
    tokens, and the model verifies them at once. The output is that of greedy search."""
    block_size: Annotated[int, Field(ge=2, le=64)] | None = None
    """Number of tokens verified at once; by default those that the heads propose, or 4 with a student."""
    accept_top: Count = 1
    """Accept a proposed token among the K most probable; 1 accepts what greedy search would write."""
    accept_distance: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """Accept a proposed token whose id is at most this far from the most probable one's."""
    min_block: Annotated[int, Field(ge=1, le=64)] = 1
    """Accept at least this many tokens of a block, whatever the model verifies."""
    sampling: bool = False
    """Sample outputs from the model's distribution instead of searching."""
    temperature: Annotated[float, Field(ge=0.001, le=100.0)] = 1.0
    """Divisor of log-probabilities in sampling; below 1 favours probable tokens."""
    top_k: Count | None = None
    """Sample from the K most probable tokens; if not given, from all."""
    top_p: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    """Sample from the smallest set of tokens with this total probability (the nucleus)."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    """Seed of sampling; a source gets the same samples in any batch."""
    mbr: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """Draw N samples per source and return the one most similar to all of them: minimum Bayes risk decoding
    with sentence chrF as the utility. Its score is its expected chrF, from 0 to 100."""

    @model_validator(mode="after")
    def _check_lengths(self) -> Self:
        if self.max_length is not None and self.min_length > self.max_length:
            raise ValueError(
                f"min_length = {self.min_length} exceeds max_length = {self.max_length}; lower min_length"
            )
        return self


class SearchSettings(TypedDict, total=False):
    """The settings of `SearchConfig` as keyword arguments; None or missing means the model's own setting."""

    beam_size: int | None
    length_penalty: float | None
    length_normalization: LengthNormalization | None
    coverage_penalty: float | None
    alignments: bool | None
    alignment_layer: int | None
    alignment_head: int | None
    max_extra_tokens: int | None
    max_length: int | None
    min_length: int | None
    early_stopping: bool | None
    no_repeat_ngram_size: int | None
    repetition_penalty: float | None
    blockwise: bool | None
    block_size: int | None
    accept_top: int | None
    accept_distance: int | None
    min_block: int | None
    sampling: bool | None
    temperature: float | None
    top_k: int | None
    top_p: float | None
    seed: int | None
    mbr: int | None


class RunConfig(Config):
    """All settings of a run; presets return them and `config.toml` stores them."""

    model: ModelConfig = ModelConfig()
    data: DataConfig = DataConfig()
    training: TrainingConfig = TrainingConfig()
    search: SearchConfig = SearchConfig()

    def greedy(self) -> Self:
        """Return a copy with greedy search, the fastest."""
        return self.replace(search={"beam_size": 1, "sampling": False, "mbr": None})

    def to_toml(self) -> str:
        """The configuration as TOML; settings that are None are left out."""
        return tomli_w.dumps(self.model_dump(exclude_none=True))

    @classmethod
    def from_toml(cls, path: Path) -> Self:
        """Read the configuration of a run or a model; a setting that `to_toml` left out is None."""
        return cls(training=TrainingConfig(checkpoint_every_steps=None)).with_toml(path)

    def with_toml(self, path: Path) -> Self:
        """Return a copy changed by the TOML file at `path`.

        Raises:
            UsageError: The file is missing, not TOML, or has an unknown key or wrong value; names the line.
        """
        changes, text = read_toml(path)
        return self.changed(changes, lambda key: f"{path}:{line_of(key, text)}")

    def with_settings(self, settings: Sequence[str]) -> Self:
        """Return a copy changed by settings such as `training.warmup_steps=8000`; values are TOML.

        Raises:
            UsageError: A setting does not have the form `group.key=value`, is unknown, or has a wrong value.
        """
        changes: dict[str, Any] = {}
        for setting in settings:
            key, equals, value = setting.partition("=")
            group, dot, name = key.strip().partition(".")
            if not (equals and dot):
                raise UsageError(
                    f"setting {setting}: write group.key=value, such as training.warmup_steps=8000"
                )
            changes.setdefault(group, {})[name] = toml_value(setting, value.strip())
        return self.changed(changes, lambda key: f"setting {'.'.join(key)}")
