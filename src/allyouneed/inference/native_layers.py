"""Packs the layers of the paper's model (3.1) for the native kernels."""

from torch import nn

from allyouneed.model.feed_forward import FeedForward
from allyouneed.model.layers import AddAndNorm, DecoderLayer, EncoderLayer, Residual
from allyouneed.native.layer import PackedLayer, Sublayer
from allyouneed.native.linear import PackedLinear


def pack_linear(linear: nn.Linear, form: str, threads: int, *, relu: bool = False) -> PackedLinear:
    """Pack a linear map, with its weights rounded to `form`."""
    return PackedLinear(linear.weight, linear.bias, form, relu=relu, num_threads=threads)


def pack_layer(layer: EncoderLayer | DecoderLayer, form: str, threads: int) -> PackedLayer:
    """Pack a layer, with the weights of its linear maps rounded to `form`."""

    def sublayer(first: nn.Linear, last: nn.Linear, after: Residual, *, relu: bool = False) -> Sublayer:
        assert isinstance(after, AddAndNorm)
        norm = after.norm
        return Sublayer(
            pack_linear(first, form, threads, relu=relu),
            pack_linear(last, form, threads),
            norm.weight.detach().float().clone(),
            norm.bias.detach().float().clone(),
            norm.eps,
        )

    attention, network = layer.self_attention, layer.feed_forward
    assert isinstance(network, FeedForward)
    crossing = None
    if isinstance(layer, DecoderLayer):
        cross = layer.cross_attention
        crossing = sublayer(cross.query, cross.output, layer.after_cross_attention)
    return PackedLayer(
        (attention.num_heads, attention.d_k, attention.d_v),
        sublayer(attention.query_key_value, attention.output, layer.after_self_attention),
        sublayer(network.inner, network.outer, layer.after_feed_forward, relu=True),
        crossing,
        threads,
    )
