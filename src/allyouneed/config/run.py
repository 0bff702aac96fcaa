"""The settings of a run: frozen, checked, kept as TOML; the defaults are the paper's base model."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypedDict

import tomli_w
from pydantic import Field, PositiveFloat, model_validator

from allyouneed.config.model import Entries, ModelConfig, Positions, Probability
from allyouneed.config.settings import LONGEST_TEXT, Config, line_of, parse_toml, toml_value
from allyouneed.errors import DiskError, UsageError

Precision = Literal["auto", "float32", "bfloat16"]
DecodingPrecision = Literal["float32", "bfloat16", "int8"]

Count = Annotated[int, Field(ge=1, le=2**63 - 1)]
"""A number of steps and the like; some are set so high that they never come."""
BatchTokens = Annotated[int, Field(ge=1, le=10**9)]

_MICRO_BATCHES = 4


class DataConfig(Config):
    """How the data was prepared (paper 5.1)."""

    task: str = "translation"
    """What sources become: their translations, or with "parsing" their constituency trees (6.3)."""
    tokenizer: Literal["bpe", "wordpiece", "byte", "words"] = "bpe"
    """Sub-word units: byte-level byte-pair encoding, word-pieces over bytes, or plain bytes; for parsing also
    words, as a fixed number of ids each (`tasks/parsing/word_features.py`)."""
    vocab_size: Entries = 37_000
    """Entries of each vocabulary, the control symbols included."""
    joint_vocabulary: bool = True
    """One vocabulary for both languages, as the paper has for English-German."""
    vocab_sample_bytes: Annotated[int, Field(ge=0, le=10**12)] = 4 * 2**20
    """Bytes of distinct words to learn each vocabulary from; a corpus with more is sampled. Each takes about
    150 bytes of memory. 0 learns from all of the text. Words end at white space: of languages without
    spaces, such as Chinese and Japanese, whole sentences count."""
    max_tokens: Positions = 256
    """Pairs with a longer side, in tokens, are dropped."""
    max_length_ratio: PositiveFloat = 4.0
    """Pairs whose sides differ by a larger factor in tokens are dropped, where the longer has over 20."""
    source_language: str = ""
    """Code of the source language, such as "en", where it is known: sentences end by its rules."""
    target_language: str = ""
    """Code of the target language, such as "de"; Moses-tokenised scores need it."""
    tags: Literal["normalised", "predicted", "endings"] = "normalised"
    """What stands for a word of a tree: one symbol for all, its part of speech, or its last letter."""
    brackets: Literal["labelled", "plain", "joined"] = "labelled"
    """What ends a constituent of a tree: `)NP`, `)`, or one symbol for all of them (docs/parsing.md)."""


WITHOUT_RECORD: dict[str, Any] = {"vocab_sample_bytes": 0}
"""Settings of data that was prepared before they existed, where they are not the defaults."""


class TrainingConfig(Config):
    """Training (paper 5.1 to 5.4)."""

    batch_tokens: BatchTokens = 25_000
    """Source tokens, and target tokens, that one update holds at most, padding included (5.1)."""
    micro_batch_tokens: BatchTokens | None = None
    """Padded tokens a side that are computed at once; chosen at the start and recorded if not given."""
    num_steps: Count = 100_000
    """Updates of the whole run (5.2)."""
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
    """Over all entries, or over those that are not the right one."""
    budget_flops: PositiveFloat | None = None
    """End before `num_steps` when matrix products have cost so many FLOPs, all updates together."""
    budget_seconds: PositiveFloat | None = None
    """End before `num_steps` when so much wall time is used, validations and checkpoints included."""
    checkpoint_every_steps: Count | None = None
    """Updates between checkpoints; none by steps if not given."""
    checkpoint_every_minutes: PositiveFloat = 10.0
    """Minutes between checkpoints (6.1)."""
    keep_checkpoints: Count = 5
    """How many of the newest checkpoints are kept, besides the best."""
    average_last: Count = 5
    """How many of the last checkpoints `average` takes if not told (6.1)."""
    validate_every_steps: Count = 1_000
    """Updates between validations, where there is validation data."""
    patience: Count | None = None
    """Stop after this many validations without a better one; never if not given."""
    precision: Precision = "auto"
    """Type of the matrix products; "auto" is bfloat16 where the hardware has it. Weights stay float32."""
    sharded: bool = False
    """Split weights, gradients and moments over the processes (FSDP2): for what one device cannot hold."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    """Seed of initialisation, batches and dropout."""

    def resolved_micro_batch_tokens(self, longest: int = 1, num_processes: int = 1) -> int:
        """`micro_batch_tokens`, by default a quarter of the batch: so many different lengths are mixed.

        Args:
            longest: Tokens of the longest side of a pair, end symbol included, which must fit.
            num_processes: Each of them should have a micro-batch of every batch.
        """
        default = max(longest, self.batch_tokens // max(_MICRO_BATCHES, num_processes))
        return self.micro_batch_tokens or min(self.batch_tokens, default)


class SearchConfig(Config):
    """Beam search (paper 6.1), or sampling in its place. The docstrings are the `--help` of the commands."""

    beam_size: Annotated[int, Field(ge=1, le=1024)] = 4
    """Hypotheses kept a step; 1 is greedy search."""
    length_penalty: Annotated[float, Field(ge=0.0, le=10.0)] = 0.6
    """The exponent alpha of the length penalty."""
    length_normalization: Literal["gnmt", "average", "none"] = "gnmt"
    """What scores are divided by: the paper's ((5 + n) / 6)^alpha, n, or 1; n counts the end symbol."""
    coverage_penalty: Annotated[float, Field(ge=0.0, le=10.0)] = 0.0
    """The factor beta of a term of the score that falls where parts of the source get little attention (Wu et
    al. 2016, equation 14); the paper has none."""
    alignments: bool = False
    """Tell which words of source and output belong together."""
    alignment_layer: Count | None = None
    """Layer of the decoder, from 1, whose attention gives alignments and coverage; the last but one if not
    given, of two layers the last."""
    alignment_head: Count | None = None
    """Head in it, from 1; the mean of all heads if not given."""
    max_extra_tokens: Annotated[int, Field(ge=0, le=100_000)] = 50
    """The most tokens of an output beyond those of its source."""
    max_length: Count | None = None
    """The most tokens of an output, the end symbol included, where `max_extra_tokens` allows more."""
    min_length: Annotated[int, Field(ge=0, le=100_000)] = 0
    """The fewest tokens of an output, the end symbol included."""
    early_stopping: bool = False
    """Stop when as many hypotheses have ended as the beam is wide, and not only when none can be better."""
    no_repeat_ngram_size: Annotated[int, Field(ge=0, le=1_000)] = 0
    """No output has the same N tokens in a row twice; 0 forbids none."""
    repetition_penalty: Annotated[float, Field(ge=1.0, le=100.0)] = 1.0
    """Multiply the log-probability of tokens already in the output (CTRL, 2019): above 1 avoids them."""
    sampling: bool = False
    """Draw outputs from the model's distribution, one for each that is wanted, and do not search."""
    temperature: Annotated[float, Field(ge=0.001, le=100.0)] = 1.0
    """Divide log-probabilities by this before a token is drawn: below 1 the probable gain."""
    top_k: Count | None = None
    """Draw among the K most probable tokens; among all if not given."""
    top_p: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    """Draw among the fewest tokens that have this probability together: the nucleus."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    """Seed of the samples: the same seed gives a source the same samples, whatever is beside it."""
    mbr: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """Draw N samples of a translation and take the one that is most like all of them: that of least Bayes
    risk, with the chrF of sentences as the utility. Its score is its expected chrF, from 0 to 100."""

    @model_validator(mode="after")
    def _check_lengths(self) -> Self:
        if self.max_length is not None and self.min_length > self.max_length:
            raise ValueError(
                f"min_length = {self.min_length} is more than max_length = {self.max_length}; lower the first"
            )
        return self


class SearchSettings(TypedDict, total=False):
    """The settings of `SearchConfig` as keyword arguments; what is None or missing is the model's own."""

    beam_size: int | None
    length_penalty: float | None
    length_normalization: Literal["gnmt", "average", "none"] | None
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
    sampling: bool | None
    temperature: float | None
    top_k: int | None
    top_p: float | None
    seed: int | None
    mbr: int | None


class RunConfig(Config):
    """Everything that determines a run; what a preset returns and `config.toml` holds."""

    model: ModelConfig = ModelConfig()
    data: DataConfig = DataConfig()
    training: TrainingConfig = TrainingConfig()
    search: SearchConfig = SearchConfig()

    def greedy(self) -> Self:
        """The same with greedy search, which is fast."""
        return self.replace(search={"beam_size": 1, "sampling": False, "mbr": None})

    def to_toml(self) -> str:
        """The configuration as TOML; settings that are not given are left out."""
        return tomli_w.dumps(self.model_dump(exclude_none=True))

    @classmethod
    def from_toml(cls, path: Path) -> Self:
        """Read the configuration of a run or a model.

        What the file leaves out keeps its default, or is what it was before it became a setting.
        """
        return cls(data=DataConfig(**WITHOUT_RECORD)).with_toml(path)

    def with_toml(self, path: Path) -> Self:
        """A copy changed by the TOML file at `path`.

        Raises:
            UsageError: There is no such file, or it has an unknown key or a wrong value; names file and line.
        """
        try:
            with path.open("rb") as file:
                text = file.read(LONGEST_TEXT + 1).decode()
            changes = parse_toml(text)
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
            raise UsageError(f"{path}: {error.strerror}; name a TOML file of settings") from None
        except OSError as error:
            raise DiskError(f"{path}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise UsageError(f"{path}: is not TOML: {error}; save it as UTF-8") from None
        except ValueError as error:
            raise UsageError(f"{path}: is not TOML: {error}") from None
        return self.changed(changes, lambda key: f"{path}:{line_of(key, text)}")

    def with_settings(self, settings: Sequence[str]) -> Self:
        """A copy changed by settings such as `training.warmup_steps=8000`; values are TOML.

        Raises:
            UsageError: A setting is no `group.key=value`, is unknown, or has a wrong value.
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
