"""The settings of a model: its architecture, sizes and variants; the defaults are the paper's base model."""

from typing import Annotated, Literal, Self

from pydantic import Field, PositiveFloat, model_validator

from allyouneed.config.settings import Config
from allyouneed.symbols import MAX_ENTRIES

Probability = Annotated[float, Field(ge=0.0, lt=1.0)]
Width = Annotated[int, Field(ge=1, le=1_000_000)]
Heads = Annotated[int, Field(ge=1, le=10_000)]
Positions = Annotated[int, Field(ge=1, le=10_000_000)]
"""Sizes up to these bounds multiply to tensors that PyTorch can describe, far beyond what it can hold."""
Entries = Annotated[int, Field(ge=1, le=MAX_ENTRIES)]
"""Number of entries of a vocabulary."""

_TRANSFORMER = {"transformer"}
_ARCHITECTURES_THAT_KNOW = {
    "attention": _TRANSFORMER,
    "attention_bias": _TRANSFORMER,
    "attention_dropout": _TRANSFORMER,
    "feed_forward": {"transformer", "recurrent"},
    "feed_forward_dropout": {"transformer", "recurrent"},
    "guided_alignment": _TRANSFORMER,
    "layer_norm_epsilon": {"transformer", "bytenet"},
    "neighbourhood": _TRANSFORMER,
    "norm": _TRANSFORMER,
    "num_dilations": {"bytenet"},
    "positions": {"transformer", "convolutional"},
    "target_space": _TRANSFORMER,
}
"""Settings that not every architecture has a place for; sizes are left alone where they are not used."""


class ModelConfig(Config):
    """Architecture (paper 3)."""

    architecture: Literal["transformer", "recurrent", "convolutional", "bytenet"] = "transformer"
    """The paper's, or a rival of its Table 2: GNMT, ConvS2S or ByteNet; see docs/rivals.md."""
    source_vocab_size: Entries = 37_000
    """Entries of the source vocabulary, the control symbols included (5.1); set by the prepared data."""
    target_vocab_size: Entries = 37_000
    """Entries of the target vocabulary; equal to the source's where the two share one."""
    d_model: Width = 512
    """Width of every sub-layer output (3.1)."""
    d_ff: Width = 2048
    """Width inside the feed-forward network (3.3)."""
    num_layers: Annotated[int, Field(ge=1, le=500)] = 6
    """Layers of the encoder, and of the decoder (3.1)."""
    num_heads: Heads = 8
    """Attention heads (3.2.2)."""
    d_k: Width | None = None
    """Width of the queries and keys of one head (3.2.2); d_model / num_heads if not given."""
    d_v: Width | None = None
    """Width of the values of one head (3.2.2); d_model / num_heads if not given."""
    dropout: Probability = 0.1
    """Rate after each sub-layer and on the sums of embeddings and positions (5.4)."""
    attention: Literal["scaled", "unscaled", "additive"] = "scaled"
    """What compares queries with keys (3.2.1): dot products over sqrt(d_k), plain ones, a small network."""
    neighbourhood: Positions | None = None
    """Positions around each to which self-attention is restricted, r (4): at most r / 2 away, in the decoder
    before it; to all if not given. Attention to the source stays whole."""
    attention_dropout: Probability = 0.0
    """Rate on the weights of attention (in the paper's source only; tried at 0.2 and 0.3)."""
    feed_forward: Literal["network", "parameters", "experts"] = "network"
    """Equation 2, or in its place attention over parameters (in the paper's source only) or a mixture of
    experts (Shazeer et al. 2017), which a recurrent model has in front of the last layer of either stack."""
    feed_forward_dropout: Probability = 0.0
    """Rate after the ReLU, or on the values that are parameters; the paper has none."""
    parameter_heads: Heads = 8
    """Heads h_p of attention over parameters."""
    parameter_d_k: Width = 64
    """Width of its queries and keys."""
    parameter_d_v: Width = 64
    """Width of its values."""
    parameter_pairs: Width = 1_536
    """Keys, and values, of each of its heads, n_p."""
    num_experts: Annotated[int, Field(ge=2, le=10_000)] = 32
    """Experts of a mixture, each with a width of d_ff inside."""
    experts_per_token: Annotated[int, Field(ge=1, le=10_000)] = 2
    """How many of them compute a token."""
    expert_balance: Annotated[float, Field(ge=0.0)] = 0.01
    """Weight of the losses that spread tokens over the experts."""
    kernel_width: Annotated[int, Field(ge=1, le=1_000)] = 3
    """Positions that a convolution sees, in convolutional models and ByteNet."""
    num_dilations: Annotated[int, Field(ge=1, le=16)] = 5
    """Blocks of ByteNet after which dilations, which double, begin anew at 1 (3.5 there: five, of bytes)."""
    symbol_dropout: Probability = 0.0
    """Rate at which a sentinel replaces input tokens of either side (paper's source only; 0.1 there)."""
    guided_alignment: Annotated[float, Field(ge=0.0)] = 0.0
    """Weight of the loss by which one head of the last layer learns to look at the word that comes next; for
    parsing with as many ids a word on both sides (docs/parsing.md)."""
    ids_per_word: Annotated[int, Field(ge=1, le=1_000)] = 1
    """Number of ids per word; `prepare` sets it."""
    norm: Literal["post", "pre"] = "post"
    """Normalisation after each sum (3.1), or before each sub-layer and once after the last."""
    positions: Literal["sinusoidal", "concatenated", "learned"] = "sinusoidal"
    """Positional encoding (3.5): sines and cosines in turn, all sines first, or learned (Table 3, row E)."""
    max_positions: Positions = 1024
    """Longest sequence in tokens that learned positions cover; sinusoids have no limit."""
    tied_embeddings: Literal["all", "target", "none"] = "all"
    """Which of source embedding, target embedding and pre-softmax matrix are one (3.4)."""
    decoder_start: Literal["symbol", "zeros"] = "symbol"
    """What the decoder reads first: the start symbol's embedding, or a vector of zeros."""
    target_space: bool = False
    """A learned vector on every source position that stands for the target's language."""
    attention_bias: bool = True
    """Biases on the projections of queries, keys, values and outputs; see docs/paper.md."""
    layer_norm_epsilon: PositiveFloat = 1e-6
    """Added to the variance in layer normalisation."""

    @property
    def head_widths(self) -> tuple[int, int]:
        """d_k and d_v of one head."""
        default = self.d_model // self.num_heads
        return self.d_k or default, self.d_v or default

    @property
    def reach(self) -> int | None:
        """How many positions away self-attention sees; None if there is no limit."""
        return None if self.neighbourhood is None else self.neighbourhood // 2

    @property
    def parameter_head_widths(self) -> tuple[int, int]:
        """d_k and d_v of attention over parameters."""
        return self.parameter_d_k, self.parameter_d_v

    @model_validator(mode="after")
    def _check_widths(self) -> Self:
        odd = f"d_model = {self.d_model} is odd"
        if self.d_model % 2 and self.architecture in ("recurrent", "bytenet"):
            raise ValueError(f"{odd}; layers are halved: take an even number")
        if self.d_model % 2 and self.positions != "learned":
            raise ValueError(f"{odd}; sines and cosines come in pairs: take an even number")
        heads_needed = self.architecture == "transformer" and (self.d_k is None or self.d_v is None)
        if heads_needed and self.d_model % self.num_heads:
            divisors = [n for n in range(1, self.d_model + 1) if self.d_model % n == 0]
            raise ValueError(
                f"num_heads = {self.num_heads} does not divide d_model = {self.d_model}; "
                f"take one of {divisors}, or set d_k and d_v"
            )
        if self.tied_embeddings == "all" and self.source_vocab_size != self.target_vocab_size:
            raise ValueError(
                'tied_embeddings = "all" wants one vocabulary, but source_vocab_size = '
                f"{self.source_vocab_size} and target_vocab_size = {self.target_vocab_size}; "
                'set tied_embeddings = "target"'
            )
        return self

    @model_validator(mode="after")
    def _check_architecture(self) -> Self:
        for name, known in _ARCHITECTURES_THAT_KNOW.items():
            value = getattr(self, name)
            if value != type(self).model_fields[name].default and self.architecture not in known:
                raise ValueError(
                    f"{name} = {value} means nothing to architecture = {self.architecture!r}; leave it out"
                )
        if self.architecture == "recurrent" and self.feed_forward == "parameters":
            raise ValueError(
                'feed_forward = "parameters" is for the transformer; take "experts", or leave it out'
            )
        if self.architecture == "recurrent" and self.feed_forward_dropout and self.feed_forward == "network":
            dropout = f"feed_forward_dropout = {self.feed_forward_dropout}"
            raise ValueError(f'{dropout} wants feed_forward = "experts" in a recurrent model; leave it out')
        if self.architecture == "recurrent" and self.num_layers == 1:
            raise ValueError("num_layers = 1 is too few for a recurrent model; take 2 or more")
        if self.feed_forward == "experts" and self.experts_per_token >= self.num_experts:
            raise ValueError(
                f"experts_per_token = {self.experts_per_token} is not less than num_experts = "
                f"{self.num_experts}; lower it"
            )
        return self
