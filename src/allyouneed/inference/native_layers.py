"""Packs the encoder and the decoder of the paper's model (3.1) for the native kernels."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allyouneed.config.model import TYING, ModelConfig, Role
from allyouneed.inference.stored_model import MisfitError, StoredModel
from allyouneed.model.position_tables import SINUSOIDS, alibi_slopes, rotations
from allyouneed.model.sizes import NUM_SPACES
from allyouneed.native.arrays import aligned, bfloat16_bits, copied, empty
from allyouneed.native.attention_kernels import Heads
from allyouneed.native.library import available
from allyouneed.native.linear import PackedLinear
from allyouneed.native.stack import (
    ACTIVATIONS,
    Layer,
    Norm,
    PackedStack,
    StackSettings,
    Sublayer,
    Tables,
    cells,
)
from allyouneed.symbols import END, START

_FIRST_POSITIONS = 512
_LARGE_BYTES = 1 << 28
"""Size of embeddings above which those of int8 models are rounded: 64,000 entries of 1,024 numbers."""
_ROWS_AT_ONCE = 4_096
_KNOWN = {
    "architecture": {"transformer"},
    "attention": {"scaled"},
    "autoregression": {"attention", "ssru"},
    "feed_forward": {"network"},
    "activation": set(ACTIVATIONS),
    "positions": {*SINUSOIDS, "learned", "rotary", "alibi"},
}
"""Setting -> the values that the kernels support."""
_ANY = {
    *("source_vocab_size", "target_vocab_size", "d_model", "d_ff", "num_layers", "num_decoder_layers"),
    *("num_heads", "d_k", "d_v", "max_positions", "norm", "layer_norm_epsilon", "attention_bias"),
    *("tied_embeddings", "scaled_embeddings", "output_bias", "decoder_start", "source_end", "target_space"),
    *("dropout", "attention_dropout", "feed_forward_dropout", "symbol_dropout"),  # only in training
    *("guided_alignment", "guided_layer", "ids_per_word", "block"),
}
"""Settings of which the kernels support every value. Of all others, they support the default."""


def unknown_setting(config: ModelConfig) -> str | None:
    """A setting with a value that the kernels do not support; None if they support the model."""
    for name, field in type(config).model_fields.items():
        value = getattr(config, name)
        if name not in _ANY and value not in _KNOWN.get(name, {field.default}):
            return f"{name} = {value}"
    return None


def roughest() -> str:
    """The form of products that need not be exact."""
    return "int8" if "int8" in available() else "float32"


class Packer:
    """Packs the parts of a model, with the weights of its maps rounded to `form`."""

    def __init__(self, model: StoredModel, form: str, threads: int) -> None:
        self.config, self._model, self._form, self._threads = model.config, model, form, threads
        self._left = set(model.weights)
        self._names, self._matrices = TYING[model.config.tied_embeddings], dict[str, NDArray[Any]]()

    @property
    def cross_heads(self) -> Heads:
        """The heads of cross-attention."""
        return self._heads()

    def matrix(self, role: Role) -> NDArray[Any]:
        """The embeddings of a side, or the projection to the vocabulary (vocab, d_model).

        In int8, a large one has the bits of bfloat16, for half of the memory. It is read again and again, so
        it is copied: nothing that happens to a mapped file must change it.
        """
        name = f"embeddings.matrices.{self._names[role]}"
        if name not in self._matrices:
            sizes = {"source": self.config.source_vocab_size}
            size = sizes.get(role, self.config.target_vocab_size)
            found = self._take(name, size, self.config.d_model)
            is_large = self._form == "int8" and found.nbytes > _LARGE_BYTES
            self._matrices[name] = _in_bfloat16(found) if is_large else copied(found)
            self._model.release(name)
        return self._matrices[name]

    def output_bias(self) -> NDArray[np.float32] | None:
        """The bias of the logits, if there is one."""
        config = self.config
        if not config.output_bias:
            return None
        return copied(self._take("embeddings.bias", config.target_vocab_size))

    def stack(self, role: Role) -> PackedStack:
        """Pack the encoder, of role "source", or the decoder."""
        config, is_decoder = self.config, role == "target"
        name = "decoder" if is_decoder else "encoder"
        recurrent = is_decoder and config.autoregression == "ssru"
        slopes = alibi_slopes(config.num_heads) if config.positions == "alibi" else None
        num_layers = config.decoder_layers if is_decoder else config.num_layers
        return PackedStack(
            self.matrix(role),
            math.sqrt(config.d_model) if config.scaled_embeddings else 1.0,
            cells(config.d_model) if recurrent else self._heads(slopes),
            [self._layer(f"{name}.{layer}", is_decoder, recurrent) for layer in range(num_layers)],
            self._norm(f"{name}_norm") if config.norm == "pre" else None,
            StackSettings(
                pre_norm=config.norm == "pre",
                activation=config.activation,
                zero_token=START if is_decoder and config.decoder_start == "zeros" else None,
                alias=(START, END) if is_decoder and config.decoder_start == "end" else (-1, -1),
                threads=self._threads,
            ),
            self.cross_heads if is_decoder else None,
        )

    def memory_maps(self) -> list[PackedLinear]:
        """The maps of each decoder layer from the memory to its keys and values."""
        (d_k, d_v), heads = self.config.head_widths, self.config.num_heads
        names = [f"decoder.{layer}.cross_attention.key_value" for layer in range(self.config.decoder_layers)]
        return [self._map(name, heads * (d_k + d_v), bias=self.config.attention_bias) for name in names]

    def block_heads(self) -> tuple[PackedLinear, list[PackedLinear]] | None:
        """The first maps of all heads that propose tokens as one, and the second of each; None without heads.

        Their form is one that is fast, as proposals need not be exact.
        """
        width = self.config.d_model
        names = [f"block_heads.networks.{i}" for i in range(self.config.block - 1)]
        if not names:
            return None
        weights, biases = (
            np.concatenate([self._take(f"{name}.inner.{part}", *shape) for name in names])
            for part, shape in (("weight", (width, width)), ("bias", (width,)))
        )
        first = PackedLinear(weights, biases, roughest(), relu=True, num_threads=self._threads)
        return first, [self._map(f"{name}.outer", width, form=roughest()) for name in names]

    def positions(self, role: Role) -> "PositionTables":
        """The tables of a side."""
        config, name, learned, space = self.config, f"{role}_positions", None, None
        if role == "source" and config.target_space:
            space = self._take(f"{name}.spaces", NUM_SPACES, config.d_model)[0].copy()
            name = f"{name}.positions"
        if config.positions == "learned":
            learned = copied(self._take(f"{name}.weight", config.max_positions, config.d_model))
        return PositionTables(config, learned, space)

    def require_all_taken(self) -> None:
        """Raise MisfitError if there are weights that were not packed."""
        if self._left:
            raise MisfitError(min(self._left))

    def _take(self, name: str, *shape: int) -> NDArray[np.float32]:
        """The weights of this name and shape; raises MisfitError if there are none, or not finite ones."""
        array = self._model.weights.get(name)
        if array is None or array.shape != shape or array.dtype != np.float32:
            raise MisfitError(name)
        if self._model.must_be_finite and not _is_finite(array):
            raise MisfitError(name)
        self._left.discard(name)
        return array

    def _heads(self, slopes: NDArray[np.float32] | None = None) -> Heads:
        return Heads(self.config.num_heads, *self.config.head_widths, self._form, slopes)

    def _layer(self, name: str, is_decoder: bool, recurrent: bool) -> Layer:
        (d_k, d_v), heads, bias = self.config.head_widths, self.config.num_heads, self.config.attention_bias

        def attention(kind: str, first: str, width: int) -> Sublayer:
            return Sublayer(
                self._map(f"{name}.{kind}.{first}", width, bias=bias),
                self._map(f"{name}.{kind}.output", self.config.d_model, heads * d_v, bias=bias),
                self._norm(f"{name}.after_{kind}.norm"),
            )

        if recurrent:
            norm = self._norm(f"{name}.after_self_attention.norm")
            own = Sublayer(self._unit(f"{name}.self_attention"), None, norm)
        else:
            own = attention("self_attention", "query_key_value", heads * (2 * d_k + d_v))
        network, d_ff = f"{name}.feed_forward", self.config.d_ff
        return Layer(
            own,
            attention("cross_attention", "query", heads * d_k) if is_decoder else None,
            Sublayer(
                self._map(f"{network}.inner", d_ff, relu=self.config.activation == "relu"),
                self._map(f"{network}.outer", self.config.d_model, d_ff),
                self._norm(f"{name}.after_feed_forward.norm"),
            ),
        )

    def _map(
        self,
        name: str,
        outputs: int,
        inputs: int | None = None,
        *,
        bias: bool = True,
        relu: bool = False,
        form: str | None = None,
    ) -> PackedLinear:
        weight = self._take(f"{name}.weight", outputs, inputs or self.config.d_model)
        biases = self._take(f"{name}.bias", outputs) if bias else None
        packed = PackedLinear(weight, biases, form or self._form, relu=relu, num_threads=self._threads)
        self._model.release(f"{name}.weight")
        return packed

    def _unit(self, name: str) -> PackedLinear:
        """The forget gates and the candidates of a recurrent unit as one map."""
        width = self.config.d_model
        maps = [self._take(f"{name}.{part}.weight", width, width) for part in ("forget", "candidate")]
        bias = self._take(f"{name}.forget.bias", width)
        biases = np.concatenate([bias, np.zeros_like(bias)])
        return PackedLinear(np.concatenate(maps), biases, self._form, num_threads=self._threads)

    def _norm(self, name: str) -> Norm:
        gains, biases = (self._take(f"{name}.{part}", self.config.d_model) for part in ("weight", "bias"))
        return Norm(gains.copy(), biases.copy(), self.config.layer_norm_epsilon)


def _in_bfloat16(array: NDArray[np.float32]) -> NDArray[np.uint16]:
    """A copy as bits of bfloat16."""
    bits = empty(*array.shape, dtype=np.uint16)
    for first in range(0, len(array), _ROWS_AT_ONCE):
        bits[first : first + _ROWS_AT_ONCE] = bfloat16_bits(array[first : first + _ROWS_AT_ONCE])
    return bits


def _is_finite(array: NDArray[np.float32]) -> bool:
    """Whether all values are; a sum tells so much faster, but finite values may also overflow in it."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(array.sum()) or np.isfinite(array).all())


class PositionTables:
    """The tables of one side of a model, which grow with the longest sequence seen."""

    def __init__(
        self, config: ModelConfig, learned: NDArray[np.float32] | None, space: NDArray[np.float32] | None
    ) -> None:
        self._config, self._learned, self._space = config, learned, space
        self._made = 0, Tables()

    def covering(self, length: int) -> Tables:
        """Tables of at least the first `length` positions; raises ValueError if fewer were learned."""
        num_positions, tables = self._made  # together, as other threads may replace them
        if length > num_positions:
            most = 2**62 if self._learned is None else len(self._learned)
            if length > most:
                raise ValueError(f"{length} positions, but {most} were learned")
            num_positions = max(length, min(2 * length + _FIRST_POSITIONS, most))
            tables = self._make(num_positions)
            self._made = num_positions, tables
        return tables

    def _make(self, length: int) -> Tables:
        config, encodings, angles = self._config, None, None
        if config.positions == "learned":
            assert self._learned is not None
            encodings = self._learned[:length]
        elif config.positions in SINUSOIDS:
            encodings = SINUSOIDS[config.positions](length, config.d_model)
        if self._space is not None:
            zeros = np.zeros((length, config.d_model), np.float32)
            encodings = (zeros if encodings is None else encodings) + self._space
        if config.positions == "rotary":
            angles = aligned(rotations(length, config.head_widths[0]))
        return Tables(None if encodings is None else aligned(encodings), angles)
