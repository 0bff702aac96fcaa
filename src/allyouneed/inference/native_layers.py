"""The layers of the paper's model (3.1) on the kernels: packed weights, all sentences one under the other."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, nn

from allyouneed.model.attention import CrossAttention, SelfAttention
from allyouneed.model.feed_forward import FeedForward
from allyouneed.model.layers import AddAndNorm, DecoderLayer, EncoderLayer
from allyouneed.native.kernels import Rows, add_norm, attend
from allyouneed.native.linear import PackedLinear


@dataclass(frozen=True)
class Packing:
    """How weights are packed, and by how many threads they are used."""

    form: str
    threads: int

    def pack(self, linear: nn.Linear, *, relu: bool = False) -> PackedLinear:
        """A linear map in this form."""
        return PackedLinear(linear.weight, linear.bias, self.form, relu=relu, num_threads=self.threads)


class NativeEncoderLayer:
    """An `EncoderLayer`, packed."""

    def __init__(self, layer: EncoderLayer, packing: Packing) -> None:
        self._self_attention = _SelfAttention(layer.self_attention, packing)
        self._after_self_attention = _AddAndNorm(layer.after_self_attention, packing)
        self._feed_forward = _FeedForward(layer.feed_forward, packing)
        self._after_feed_forward = _AddAndNorm(layer.after_feed_forward, packing)

    def __call__(self, x: Float[Tensor, "rows d_model"], own: Rows) -> Float[Tensor, "rows d_model"]:
        """What comes out of the rows, each of which attends to its `own`."""
        attended = self._self_attention.attend(*self._self_attention.project(x), own)
        x = self._after_self_attention(x, attended)
        return self._after_feed_forward(x, self._feed_forward(x))


class NativeDecoderLayer:
    """A `DecoderLayer`, packed. Keys and values of both attentions are kept by the caller."""

    def __init__(self, layer: DecoderLayer, packing: Packing) -> None:
        self._self_attention = _SelfAttention(layer.self_attention, packing)
        self._after_self_attention = _AddAndNorm(layer.after_self_attention, packing)
        self._query = packing.pack(layer.cross_attention.query)
        self.cross_key_value = packing.pack(layer.cross_attention.key_value)
        self._cross_attention = _MultiHead(layer.cross_attention, packing)
        self._after_cross_attention = _AddAndNorm(layer.after_cross_attention, packing)
        self._feed_forward = _FeedForward(layer.feed_forward, packing)
        self._after_feed_forward = _AddAndNorm(layer.after_feed_forward, packing)

    def project(self, x: Float[Tensor, "rows d_model"]) -> tuple[Tensor, Tensor]:
        """Queries, and keys beside values, of self-attention."""
        return self._self_attention.project(x)

    def step(
        self,
        x: Float[Tensor, "rows d_model"],
        queries: Tensor,
        written: Tensor,
        past: Rows,
        memory: Tensor,
        of_memory: Rows,
    ) -> Float[Tensor, "rows d_model"]:
        """What comes out of the rows.

        Args:
            x: What goes in.
            queries: Of `project`.
            written: Keys beside values of all that `past` names.
            past: What each row attends to in self-attention.
            memory: Keys beside values of the sources, of `cross_key_value`.
            of_memory: What each row attends to of them.
        """
        x = self._after_self_attention(x, self._self_attention.attend(queries, written, past))
        x = self._after_cross_attention(x, self._cross_attention.attend(self._query(x), memory, of_memory))
        return self._after_feed_forward(x, self._feed_forward(x))


class _MultiHead:
    """Attention of all heads, and the projection of what they give."""

    def __init__(self, attention: SelfAttention | CrossAttention, packing: Packing) -> None:
        self._num_heads, self._keys_width = attention.num_heads, attention.num_heads * attention.d_k
        self._output, self._threads = packing.pack(attention.output), packing.threads

    def attend(self, queries: Tensor, keys_values: Tensor, attended: Rows) -> Tensor:
        """`keys_values` has the keys of all heads beside the values of all heads."""
        keys, values = keys_values.tensor_split([self._keys_width], dim=1)
        return self._output(attend(queries, keys, values, attended, self._num_heads, self._threads))


class _SelfAttention(_MultiHead):
    def __init__(self, attention: SelfAttention, packing: Packing) -> None:
        super().__init__(attention, packing)
        self._query_key_value = packing.pack(attention.query_key_value)

    def project(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Queries, which are as wide as the keys; and keys beside values."""
        projected = self._query_key_value(x)
        return projected[:, : self._keys_width], projected[:, self._keys_width :]


class _FeedForward:
    """Equation 2."""

    def __init__(self, feed_forward: FeedForward, packing: Packing) -> None:
        self._inner = packing.pack(feed_forward.inner, relu=True)
        self._outer = packing.pack(feed_forward.outer)

    def __call__(self, x: Tensor) -> Tensor:
        return self._outer(self._inner(x))


class _AddAndNorm:
    """`LayerNorm(x + sublayer_output)`."""

    def __init__(self, add_and_norm: AddAndNorm, packing: Packing) -> None:
        self._norm, self._threads = add_and_norm.norm, packing.threads

    def __call__(self, x: Tensor, sublayer_output: Tensor) -> Tensor:
        return add_norm(x, sublayer_output, self._norm, self._threads)
