"""The settings of a model: architecture, sizes and variants. The defaults are the paper's base model."""

from typing import Annotated, Literal, NamedTuple, Self

from pydantic import Field, PositiveFloat, model_validator

from allyouneed.config.settings import Config
from allyouneed.symbols import MAX_ENTRIES

Probability = Annotated[float, Field(ge=0.0, lt=1.0)]
Width = Annotated[int, Field(ge=1, le=1_000_000)]
Heads = Annotated[int, Field(ge=1, le=10_000)]
Positions = Annotated[int, Field(ge=1, le=10_000_000)]
"""Sizes within these bounds give tensors that PyTorch can describe, though far larger than any memory."""
Entries = Annotated[int, Field(ge=1, le=MAX_ENTRIES)]
"""Number of entries of a vocabulary."""


class Reach(NamedTuple):
    """Numbers of positions before and after a query that restricted self-attention sees."""

    before: int
    after: int

    @classmethod
    def around(cls, num_keys: int) -> Self:
        """The reach that covers the nearest `num_keys` positions, the query's own included.

        If `num_keys` is even, it has one more position before the query than after it.
        """
        return cls(num_keys // 2, num_keys - 1 - num_keys // 2)


_OF_TRANSFORMER = (
    "front",
    *("activation", "attention", "attention_bias", "attention_dropout", "autoregression", "guided_alignment"),
    *("guided_layer", "block", "max_distance", "neighbourhood", "neighbourhood_in", "norm"),
    *("num_decoder_layers", "output_bias", "scaled_embeddings", "source_end", "target_space"),
)
_ARCHITECTURES_THAT_KNOW = {
    **dict.fromkeys(_OF_TRANSFORMER, ("transformer",)),
    **dict.fromkeys(("feed_forward", "feed_forward_dropout"), ("transformer", "recurrent")),
    "layer_norm_epsilon": ("transformer", "bytenet"),
    "num_dilations": ("bytenet",),
    "positions": ("transformer", "convolutional"),
}
"""Setting -> architectures that support it; the others reject it. Unused sizes are ignored instead."""


_SINUSOIDS = "sinusoidal", "concatenated", "fairseq"

Role = Literal["source", "target", "output"]

TYING: dict[str, dict[Role, str]] = {
    "all": {"source": "shared", "target": "shared", "output": "shared"},
    "target": {"source": "source", "target": "target", "output": "target"},
    "none": {"source": "source", "target": "target", "output": "output"},
}
"""`ModelConfig.tied_embeddings` -> role -> name of its matrix; roles with one name share one parameter."""


class ModelConfig(Config):
    """Architecture (paper 3)."""

    architecture: Literal["transformer", "recurrent", "convolutional", "bytenet"] = "transformer"
    """Architecture: the paper's, or a rival of its Table 2 (GNMT, ConvS2S, ByteNet); see docs/rivals.md."""
    source_vocab_size: Entries = 37_000
    """Entries of the source vocabulary, control symbols included (5.1); `prepare` sets it."""
    target_vocab_size: Entries = 37_000
    """Entries of the target vocabulary; equal to the source's if both sides share one; `prepare` sets it."""
    d_model: Width = 512
    """Width of every sub-layer output (3.1)."""
    d_ff: Width = 2048
    """Width inside the feed-forward network (3.3)."""
    num_layers: Annotated[int, Field(ge=1, le=500)] = 6
    """Layers in the encoder and in the decoder, each (3.1)."""
    front: Literal["embeddings", "convolutions"] = "embeddings"
    """First part of the encoder: embeddings of ids (3.4), or, for sources that are frames, a linear map of
    their source_vocab_size features and two convolutions, each of which halves the frames; `prepare --task
    frames` sets it."""
    num_decoder_layers: Annotated[int, Field(ge=1, le=500)] | None = None
    """Layers in the decoder; default: num_layers."""
    num_heads: Heads = 8
    """Attention heads (3.2.2)."""
    d_k: Width | None = None
    """Width of the queries and keys of one head (3.2.2); default: d_model / num_heads."""
    d_v: Width | None = None
    """Width of the values of one head (3.2.2); default: d_model / num_heads."""
    dropout: Probability = 0.1
    """Dropout rate after each sub-layer and on the sums of embeddings and positions (5.4)."""
    attention: Literal["scaled", "unscaled", "additive"] = "scaled"
    """Compatibility function of queries and keys (3.2.1): dot product divided by sqrt(d_k), plain dot
    product, or a small network."""
    neighbourhood: Positions | None = None
    """Number of keys per query in restricted self-attention, r (4, Table 1): the query's own position and its
    neighbours on both sides, in the decoder only those before it; default: all. Cross-attention is not
    restricted."""
    neighbourhood_in: Literal["both", "encoder", "decoder"] = "both"
    """Stacks whose self-attention is restricted to the neighbourhood."""
    autoregression: Literal["attention", "ssru"] = "attention"
    """Reader of the output so far in each layer of the decoder: self-attention (3.2.3), or a simpler simple
    recurrent unit (SSRU; Kim et al. 2019), which is faster."""
    attention_dropout: Probability = 0.0
    """Dropout rate on the attention weights (only in the paper's source, which tried 0.2 and 0.3)."""
    feed_forward: Literal["network", "parameters", "experts"] = "network"
    """Feed-forward layer: equation 2, attention over parameters (only in the paper's source), or a mixture
    of experts (Shazeer et al. 2017). Recurrent models have experts before the last layer of each stack."""
    activation: Literal["relu", "gelu", "swish"] = "relu"
    """Activation of the feed-forward network: ReLU (3.3), GELU (Hendrycks and Gimpel 2016), or Swish
    (Ramachandran et al. 2017); `feed_forward = "network"` only."""
    feed_forward_dropout: Probability = 0.0
    """Dropout rate after the activation, or on the values in attention over parameters; the paper has
    none."""
    parameter_heads: Heads = 8
    """Number of heads of attention over parameters, h_p."""
    parameter_d_k: Width = 64
    """Width of the queries and keys of attention over parameters."""
    parameter_d_v: Width = 64
    """Width of the values of attention over parameters."""
    parameter_pairs: Width = 1_536
    """Number of key-value pairs per head of attention over parameters, n_p."""
    num_experts: Annotated[int, Field(ge=2, le=10_000)] = 32
    """Number of experts in each mixture; each has inner width d_ff."""
    experts_per_token: Annotated[int, Field(ge=1, le=10_000)] = 2
    """Number of experts that process each token."""
    expert_balance: Annotated[float, Field(ge=0.0)] = 0.01
    """Weight of the losses that spread tokens evenly over the experts."""
    kernel_width: Annotated[int, Field(ge=1, le=1_000)] = 3
    """Kernel width of convolutions, in positions, for convolutional models and ByteNet."""
    num_dilations: Annotated[int, Field(ge=1, le=16)] = 5
    """ByteNet blocks per cycle of dilations, which double from 1 (section 3.5 of the ByteNet paper: five,
    for bytes)."""
    symbol_dropout: Probability = 0.0
    """Rate at which input tokens on both sides are replaced by a sentinel (only in the paper's source, at
    0.1)."""
    guided_alignment: Annotated[float, Field(ge=0.0)] = 0.0
    """Weight of the loss that trains the first head of a decoder layer to attend to the source of the next
    token, by a translation table of the training pairs (Garg et al. 2019). For parsing, to the next word,
    with the same number of ids per word on both sides (docs/parsing.md)."""
    guided_layer: Annotated[int, Field(ge=1, le=500)] | None = None
    """Decoder layer, from 1, of that head; default: the last."""
    block: Annotated[int, Field(ge=1, le=64)] = 1
    """Number of tokens that the model predicts at each position, k (Stern et al. 2018): heads propose those
    after the next one, for blockwise decoding (docs/blockwise.md); 1: no heads."""
    ids_per_word: Annotated[int, Field(ge=1, le=1_000)] = 1
    """Number of ids per word; `prepare` sets it."""
    norm: Literal["post", "pre"] = "post"
    """Layer normalisation: after each sum (3.1), or before each sub-layer and after the last one."""
    positions: Literal["sinusoidal", "concatenated", "fairseq", "learned", "rotary", "alibi", "relative"] = (
        "sinusoidal"
    )
    """Positional encoding (3.5): sines and cosines, interleaved, sines first, or sines first from position 2
    as in fairseq; or learned (Table 3, row E); or positions inside self-attention: rotary (Su et al. 2021),
    ALiBi (Press et al. 2022), or clipped offsets (Shaw et al. 2018)."""
    max_distance: Positions = 16
    """Distance at which offsets are clipped, k (Shaw et al. 2018)."""
    max_positions: Positions = 1024
    """Longest sequence that learned positions cover, in tokens; sinusoids have no limit."""
    tied_embeddings: Literal["all", "target", "none"] = "all"
    """Matrices that share weights (3.4): both embeddings and the pre-softmax projection, target embedding
    and pre-softmax projection, or none."""
    scaled_embeddings: bool = True
    """Multiply embeddings by sqrt(d_model) (3.4)."""
    output_bias: bool = False
    """A bias for each target token's logit; the paper has none."""
    decoder_start: Literal["symbol", "zeros", "end"] = "symbol"
    """First input of the decoder: the embedding of the start symbol, a zero vector, or the embedding of the
    end symbol (fairseq)."""
    source_end: bool = True
    """Whether the encoder reads the end symbol of a source; an empty source keeps it."""
    target_space: bool = False
    """Add a learned vector for the target language to every source position."""
    attention_bias: bool = True
    """Biases on the projections of queries, keys, values and outputs; see docs/paper.md."""
    layer_norm_epsilon: PositiveFloat = 1e-6
    """Constant added to the variance in layer normalisation."""

    @property
    def vocab_sizes(self) -> tuple[int, int]:
        """Entries of the source and the target vocabulary."""
        return self.source_vocab_size, self.target_vocab_size

    @property
    def head_widths(self) -> tuple[int, int]:
        """d_k and d_v of one head."""
        default = self.d_model // self.num_heads
        return self.d_k or default, self.d_v or default

    @property
    def decoder_layers(self) -> int:
        """Number of layers in the decoder."""
        return self.num_decoder_layers or self.num_layers

    @property
    def most_positions(self) -> int | None:
        """Longest source or target, in tokens, that the model supports; None if there is no limit."""
        return self.max_positions if self.positions == "learned" else None

    def reach(self, *, causal: bool) -> Reach | None:
        """Positions that self-attention sees before and after a query; None if it sees all."""
        r = self.neighbourhood
        if r is None or self.neighbourhood_in == ("encoder" if causal else "decoder"):
            return None
        return Reach(r - 1, 0) if causal else Reach.around(r)

    @property
    def parameter_head_widths(self) -> tuple[int, int]:
        """d_k and d_v of attention over parameters."""
        return self.parameter_d_k, self.parameter_d_v

    @model_validator(mode="after")
    def _check_widths(self) -> Self:
        odd = f"d_model = {self.d_model} is odd"
        if self.d_model % 2 and self.architecture in ("recurrent", "bytenet"):
            raise ValueError(f"{odd}; this architecture splits layers in half: take an even number")
        if self.d_model % 2 and self.positions in _SINUSOIDS:
            raise ValueError(f"{odd}; sines and cosines come in pairs: take an even number")
        if self.positions == "rotary" and self.head_widths[0] % 2:
            raise ValueError(f"d_k = {self.head_widths[0]} is odd; rotary positions turn pairs: make it even")
        heads_needed = self.architecture == "transformer" and (self.d_k is None or self.d_v is None)
        if heads_needed and self.d_model % self.num_heads:
            divisors = [n for n in range(1, self.d_model + 1) if self.d_model % n == 0]
            raise ValueError(
                f"num_heads = {self.num_heads} does not divide d_model = {self.d_model}; "
                f"take one of {divisors}, or set d_k and d_v"
            )
        if self.tied_embeddings == "all" and self.source_vocab_size != self.target_vocab_size:
            raise ValueError(
                'tied_embeddings = "all" needs a shared vocabulary, but source_vocab_size = '
                f"{self.source_vocab_size} and target_vocab_size = {self.target_vocab_size}; "
                'set tied_embeddings = "target"'
            )
        return self

    @model_validator(mode="after")
    def _check_neighbourhood(self) -> Self:
        if self.neighbourhood is None and self.neighbourhood_in != "both":
            raise ValueError(
                f'neighbourhood_in = "{self.neighbourhood_in}" has no effect without neighbourhood; set that'
            )
        return self

    @model_validator(mode="after")
    def _check_architecture(self) -> Self:
        for name, known in sorted(_ARCHITECTURES_THAT_KNOW.items()):
            value = getattr(self, name)
            if value != type(self).model_fields[name].default and self.architecture not in known:
                raise ValueError(
                    f"{name} = {value} has no effect with architecture = {self.architecture!r}; leave it out"
                )
        if self.autoregression == "ssru" and self.reach(causal=True) is not None:
            raise ValueError(
                f"neighbourhood = {self.neighbourhood} needs self-attention in the decoder, and "
                'autoregression = "ssru"; leave one of them out'
            )
        if self.guided_layer is not None and self.guided_layer > self.decoder_layers:
            raise ValueError(
                f"guided_layer = {self.guided_layer}: the decoder has {self.decoder_layers} layers; take one "
                "of them"
            )
        if self.guided_alignment and not self.source_end:
            raise ValueError("guided_alignment needs source_end = true; leave one of them out")
        if self.architecture != "transformer" and self.positions not in (*_SINUSOIDS, "learned"):
            raise ValueError(
                f'positions = "{self.positions}" needs the transformer; take "sinusoidal" or "learned"'
            )
        if self.architecture == "recurrent" and self.feed_forward == "parameters":
            raise ValueError(
                'feed_forward = "parameters" needs the transformer; take "experts", or leave it out'
            )
        if self.architecture == "recurrent" and self.feed_forward_dropout and self.feed_forward == "network":
            dropout = f"feed_forward_dropout = {self.feed_forward_dropout}"
            raise ValueError(f'{dropout} needs feed_forward = "experts" in a recurrent model; leave it out')
        if self.activation != "relu" and self.feed_forward != "network":
            raise ValueError(
                f'activation = "{self.activation}" needs feed_forward = "network"; leave one of them out'
            )
        if self.architecture == "recurrent" and self.num_layers == 1:
            raise ValueError("num_layers = 1 is too few for a recurrent model; take 2 or more")
        if self.feed_forward == "experts" and self.experts_per_token >= self.num_experts:
            raise ValueError(
                f"experts_per_token = {self.experts_per_token} is not less than num_experts = "
                f"{self.num_experts}; lower it"
            )
        return self

    @model_validator(mode="after")
    def _check_front(self) -> Self:
        needs_ids = (
            self.tied_embeddings == "all"
            or self.guided_alignment
            or self.symbol_dropout
            or not self.source_end
        )
        if self.front == "convolutions" and needs_ids:
            raise ValueError(
                'front = "convolutions" reads frames, which are no tokens; it needs tied_embeddings = '
                '"target" or "none", guided_alignment = 0, symbol_dropout = 0 and source_end = true'
            )
        return self
