"""Reads Marian models of Hugging Face (`MarianMTModel`), those of OPUS-MT and our own exports.

The way back from `marian_weights.py`: the dimensions of the residual stream are put in our order, in which
sines and cosines alternate.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from allyouneed.errors import ModelError
from allyouneed.interop.foreign import Imported, Order, Tensors, config_of, require_settings
from allyouneed.interop.foreign_files import is_whole, json_object
from allyouneed.interop.foreign_search import huggingface_search
from allyouneed.interop.huggingface_folder import languages_of, sides_of
from allyouneed.interop.marian_weights import MARIAN_EPSILON
from allyouneed.interop.originals import TransformersMarian, known_settings
from allyouneed.model.positional_encoding import SinusoidalPositions
from allyouneed.storage.checkpoint import read_tensors
from allyouneed.symbols import PADDING, START

_KNOWN: dict[str, tuple[object, ...]] = {
    "model_type": ("marian",),
    "activation_function": ("relu", "gelu", "swish", "silu"),
    "normalize_before": (False,),
    "normalize_embedding": (False,),
    "add_final_layer_norm": (False,),
    "add_bias_logits": (False,),
    "static_position_embeddings": (True,),
}
_LARGEST = {"max_position_embeddings": 1 << 15, "num_labels": 1_000, "num_hidden_layers": 1_000}
"""Sizes from which transformers builds something -> the largest that is taken; we have no use for them."""
_ACTIVATIONS = {"silu": "swish"}
_WEIGHTS, _PICKLE = "model.safetensors", "pytorch_model.bin"
_POSITIONS_TOLERANCE = 1e-5


def is_one(path: Path) -> bool:
    """Whether a folder looks like a model of Hugging Face."""
    names = {each.name for each in path.iterdir()} if path.is_dir() else set()
    return "config.json" in names and bool(names & {_WEIGHTS, _PICKLE})


def read(path: Path) -> Imported:
    """Read a folder.

    Raises:
        ModelError: It is damaged, or holds a model of another architecture.
    """
    if not (path / _WEIGHTS).exists():
        raise ModelError(
            f"{path}: its weights are a pickle ({_PICKLE}), which could run code, and are not read; if you "
            "trust it, write another folder with transformers, and import that: "
            "AutoModelForSeq2SeqLM.from_pretrained(PATH).save_pretrained(SAFE); "
            "AutoTokenizer.from_pretrained(PATH).save_pretrained(SAFE)"
        )
    settings = json_object(path / "config.json")
    require_settings(settings, _KNOWN, path / "config.json", "only Marian's architecture is known")
    sizes = _sizes(settings, path / "config.json")
    known = known_settings(path, settings)
    sides = sides_of(path, settings)
    tensors = Tensors(read_tensors(path / _WEIGHTS), path / _WEIGHTS)
    model = {
        **{"source_vocab_size": len(sides.orders[0]), "target_vocab_size": len(sides.orders[1])},
        **{"d_model": sizes.d_model, "d_ff": sizes.d_ff, "num_heads": sizes.num_heads},
        **{"num_layers": sizes.num_layers, "layer_norm_epsilon": MARIAN_EPSILON, "dropout": sizes.dropout},
        "num_decoder_layers": None if sizes.decoder_layers == sizes.num_layers else sizes.decoder_layers,
        "activation": _ACTIVATIONS.get(sizes.activation, sizes.activation),
        "scaled_embeddings": bool(settings.get("scale_embedding", False)),
    }
    weights = _weights(tensors, sides.orders, sizes, model, settings)
    config = config_of(
        path / "config.json",
        model=model,
        data={
            "tokenizer": sides.kind,
            "vocab_size": len(sides.orders[1]),
            "joint_vocabulary": sides.tokenizers[0] == sides.tokenizers[1],
            **languages_of(path),
        },
        search=huggingface_search(path, settings),
    )
    notices = ["its weights have less precision than float32"] if tensors.is_rounded else []
    return Imported(
        path / _WEIGHTS,
        config,
        weights,
        *sides.tokenizers,
        package="transformers",
        load=lambda: TransformersMarian(path, known, sides.orders),
        notices=notices,
    )


class _Sizes(NamedTuple):
    d_model: int
    d_ff: int
    num_heads: int
    num_layers: int
    decoder_layers: int
    activation: str
    dropout: float


def _sizes(settings: dict[str, Any], path: Path) -> _Sizes:
    for one, other in (
        ("encoder_ffn_dim", "decoder_ffn_dim"),
        ("encoder_attention_heads", "decoder_attention_heads"),
    ):
        if settings.get(one) != settings.get(other):
            raise ModelError(f"{path}: {one} and {other} differ, which is not supported")
    d_model, d_ff, num_heads, num_layers, decoder_layers = (
        _number(settings, name, path)
        for name in (
            *("d_model", "encoder_ffn_dim", "encoder_attention_heads", "encoder_layers", "decoder_layers"),
        )
    )
    for name in _LARGEST.keys() & settings.keys():
        _number(settings, name, path)
    if d_model % 2:
        raise ModelError(f"{path}: d_model is {d_model}, an odd number; take another copy")
    dropout = settings.get("dropout", 0.1)
    if not isinstance(dropout, float | int) or not 0 <= dropout < 1:
        raise ModelError(f"{path}: dropout is no rate; take another copy")
    activation = str(settings.get("activation_function", "gelu"))
    return _Sizes(d_model, d_ff, num_heads, num_layers, decoder_layers, activation, float(dropout))


def _number(settings: dict[str, Any], name: str, path: Path) -> int:
    value: Any = settings.get(name)
    if not is_whole(value, 1, _LARGEST.get(name, 1_000_000)):
        raise ModelError(f"{path}: {name} is {value!r}, not a size; take another copy")
    return int(value)


def _weights(
    tensors: Tensors,
    orders: tuple[Order, Order],
    sizes: _Sizes,
    model: dict[str, Any],
    settings: dict[str, Any],
) -> dict[str, Tensor]:
    ours_of = torch.arange(sizes.d_model).view(-1, 2).T.flatten().argsort()
    embeddings, zero_start = _embeddings(tensors, orders, sizes.d_model, ours_of, settings)
    names = {key.split(".")[-1] for key in embeddings if ".matrices." in key}
    model["tied_embeddings"] = {1: "all", 2: "target", 3: "none"}[len(names)]
    model["decoder_start"] = "zeros" if zero_start else "symbol"
    model["output_bias"] = "embeddings.bias" in embeddings
    _check_positions(tensors, sizes.d_model, ours_of)
    weights = embeddings
    for stack, count in (("encoder", sizes.num_layers), ("decoder", sizes.decoder_layers)):
        for number in range(count):
            for name, tensor in _layer(tensors, f"model.{stack}.layers.{number}", stack, sizes):
                weights[f"{stack}.{number}.{name}"] = tensor
    tensors.require_empty()
    return {
        name: tensor if name.startswith("embeddings") else _reordered(name, tensor, ours_of)
        for name, tensor in weights.items()
    }


def _embeddings(
    tensors: Tensors, orders: tuple[Order, Order], width: int, ours_of: Tensor, settings: dict[str, Any]
) -> tuple[dict[str, Tensor], bool]:
    """The matrices and the bias in our order, and whether the decoder starts with zeros.

    Marian's decoder starts with padding, whose vector is zero, unless transformers has trained it.
    """
    entries = _entries(settings, orders, tensors.path.with_name("config.json"))
    has_shared = "model.shared.weight" in tensors
    if has_shared:
        source = target = tensors.take("model.shared.weight", entries[0], width)
        tensors.drop("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight")
    else:
        source = tensors.take("model.encoder.embed_tokens.weight", entries[0], width)
        target = tensors.take("model.decoder.embed_tokens.weight", entries[1], width)
    start = settings.get("decoder_start_token_id", settings.get("pad_token_id"))
    if not isinstance(start, int) or not 0 <= start < len(target):
        raise ModelError(f"{tensors.path}: decoder_start_token_id is {start!r}; take another copy")
    zero_start = start != orders[1].foreign[START] and not target[start].any()
    if start != orders[1].foreign[START] and not zero_start:
        if start != orders[1].foreign[PADDING]:
            raise ModelError(
                f"{tensors.path}: the decoder starts with entry {start}, not with padding, which is "
                "not supported"
            )
        orders = orders[0].with_padding_as_start(), orders[1].with_padding_as_start()
    source_order, target_order = orders
    found: dict[str, Tensor] = {}
    if has_shared:
        found["embeddings.matrices.shared"] = source_order.rows(source[:, ours_of])
    else:
        found["embeddings.matrices.source"] = source_order.rows(source[:, ours_of])
        found["embeddings.matrices.target"] = target_order.rows(target[:, ours_of])
    if "lm_head.weight" in tensors:
        output = tensors.take("lm_head.weight", entries[1], width)
        if not torch.equal(output, target):
            if has_shared:
                rows = found.pop("embeddings.matrices.shared")
                found |= {"embeddings.matrices.source": rows, "embeddings.matrices.target": rows.clone()}
            found["embeddings.matrices.output"] = target_order.rows(output[:, ours_of])
    bias = tensors.take("final_logits_bias", 1, entries[1])[0]
    if bias.any() or None in target_order.foreign:
        found["embeddings.bias"] = target_order.bias(bias)
    return found, zero_start


def _entries(settings: dict[str, Any], orders: tuple[Order, Order], path: Path) -> list[int]:
    """The sizes of both vocabularies."""
    both = settings.get("vocab_size")
    sizes = {"vocab_size": both, "decoder_vocab_size": settings.get("decoder_vocab_size") or both}
    entries = [_number(sizes, name, path) for name in sizes]
    for name, size, order in zip(sizes, entries, orders, strict=True):
        if size != (found := sum(number is not None for number in order.foreign)):
            raise ModelError(
                f"{path}: {name} is {size:,}, but the vocabulary has {found:,} entries; take another copy"
            )
    return entries


def _check_positions(tensors: Tensors, width: int, ours_of: Tensor) -> None:
    """Some versions save the sinusoids, as rounded as the weights; these are computed anew."""
    for stack in ("encoder", "decoder"):
        name = f"model.{stack}.embed_positions.weight"
        if name not in tensors:
            continue
        tolerance = max(_POSITIONS_TOLERANCE, tensors.resolution(name))
        table = tensors.take(name, tensors.shape(name)[0], width)[:, ours_of]
        if (table - SinusoidalPositions(width)(len(table))).abs().max() > tolerance:
            raise ModelError(f"{tensors.path}: {name} are no sinusoids, which is not supported")


def _layer(tensors: Tensors, prefix: str, stack: str, sizes: _Sizes) -> list[tuple[str, Tensor]]:
    width, inner = sizes.d_model, sizes.d_ff

    def both(name: str, outputs: int, inputs: int) -> tuple[Tensor, Tensor]:
        return (
            tensors.take(f"{prefix}.{name}.weight", outputs, inputs),
            tensors.take(f"{prefix}.{name}.bias", outputs),
        )

    def joined(names: Sequence[str]) -> tuple[Tensor, Tensor]:
        weights, biases = zip(*(both(name, width, width) for name in names), strict=True)
        return torch.cat(weights), torch.cat(biases)

    def norm(name: str) -> tuple[Tensor, Tensor]:
        return tensors.take(f"{prefix}.{name}.weight", width), tensors.take(f"{prefix}.{name}.bias", width)

    parts = {
        "self_attention.query_key_value": joined([f"self_attn.{each}_proj" for each in "qkv"]),
        "self_attention.output": both("self_attn.out_proj", width, width),
        "after_self_attention.norm": norm("self_attn_layer_norm"),
        "feed_forward.inner": both("fc1", inner, width),
        "feed_forward.outer": both("fc2", width, inner),
        "after_feed_forward.norm": norm("final_layer_norm"),
    }
    if stack == "decoder":
        parts |= {
            "cross_attention.query": both("encoder_attn.q_proj", width, width),
            "cross_attention.key_value": joined([f"encoder_attn.{each}_proj" for each in "kv"]),
            "cross_attention.output": both("encoder_attn.out_proj", width, width),
            "after_cross_attention.norm": norm("encoder_attn_layer_norm"),
        }
    return [
        (f"{name}.{kind}", tensor)
        for name, pair in parts.items()
        for kind, tensor in zip(("weight", "bias"), pair, strict=True)
    ]


_WRITING = "self_attention.output", "cross_attention.output", "feed_forward.outer", ".norm"
"""Parts of names of maps and normalisations that write into the residual stream; the others read it."""


def _reordered(name: str, tensor: Tensor, ours_of: Tensor) -> Tensor:
    """A weight of a layer with the dimensions of the stream in our order."""
    if any(f"{part}." in name for part in _WRITING):
        return tensor[ours_of]
    return tensor[:, ours_of] if name.endswith("weight") else tensor
