"""Reads folders of CTranslate2, of our own exports or with SentencePiece models beside them."""

import math
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from allyouneed.errors import ModelError
from allyouneed.interop.ctranslate2_files import (
    LAYER,
    TOKENIZERS,
    order_of,
    read_variables,
    tokenizers_of,
    vocabulary_of,
)
from allyouneed.interop.foreign import (
    Floats,
    Imported,
    Order,
    Pair,
    Scored,
    Tensors,
    Vocabularies,
    Weights,
    config_of,
    embedding_weights,
    layer_weights,
    require_settings,
)
from allyouneed.interop.foreign_files import damaged, folder_with, json_object
from allyouneed.interop.marian_files import is_binary
from allyouneed.interop.multilingual import is_multilingual, sentencepiece_in, vocabularies_of
from allyouneed.interop.parity import Ids
from allyouneed.model.position_tables import SINUSOIDS
from allyouneed.symbols import END, START

_THEIR_FILES = (
    *("config.json", "model.bin"),
    *(f"{side}_vocabulary.{end}" for side in ("source", "target", "shared") for end in ("json", "txt")),
)
"""Files that CTranslate2 reads here; it would also read a `vmap.txt`."""
FILES = *_THEIR_FILES, *TOKENIZERS
"""Files of a folder that are read."""
_ACTIVATIONS = {0: "relu", 2: "swish", 3: "gelu"}
_KNOWN: dict[str, tuple[object, ...]] = {"add_source_bos": (False,)}
_NUMBERS: dict[str, tuple[float, ...]] = {
    **dict.fromkeys(("alibi", "multi_query_attention", "layernorm_embedding", "no_final_norm"), (0,)),
    "activation": tuple(_ACTIVATIONS),
    "pre_norm": (0, 1),
    "start_from_zero_embedding": (0, 1),
}
"""Variables that are single numbers -> values that are supported."""
_WITHOUT_EFFECT = frozenset(
    {"alibi_use_positive_positions", "scale_alibi", "embeddings_merge", "alignment_heads", "alignment_layer"}
)
_POSITIONS_TOLERANCE = 1e-3


def recognises(path: Path) -> bool:
    """Whether a folder looks like a model of CTranslate2."""
    model = path / "model.bin"  # which may also be Marian's
    return model.exists() and not is_binary(model)


def read(path: Path, tokenizers: Path | None = None, languages: tuple[str, str] = ("", "")) -> Imported:
    """Read a folder, with tokenisers in `tokenizers`, by default the same folder, for these languages.

    Raises ModelError if it is damaged, of another version or architecture, or has no tokenisers.
    """
    variables, is_quantised = read_variables(path / "model.bin")  # first, as it tells the version
    file = path / "config.json"
    settings = json_object(file)
    require_settings(settings, _KNOWN, file, "our sources begin without a symbol")
    tensors = Tensors(variables, path / "model.bin")
    numbers = _numbers(tensors)
    names = vocabulary_of(path, "source"), vocabulary_of(path, "target")
    zeros = bool(numbers.get("start_from_zero_embedding", 0))
    added = bool(settings.get("add_source_eos", False))
    is_many = is_multilingual(names[0])
    as_of_marian = zeros and Order.of_ours(names[0]) is None
    callers_add = not added and (as_of_marian or is_many)
    notices = ["its weights are rounded, and are kept so"] if is_quantised or tensors.is_rounded else []
    if not added and not callers_add:
        notices.append("its sources are taken to have no end symbol, as add_source_eos is off")
    vocabularies = _vocabularies(names, settings, path, tokenizers or path, languages)
    orders = vocabularies.orders
    weights, model = _weights(tensors, numbers, orders)
    start = "zeros" if zeros else _start(weights, _start_of(settings, names[1], file), orders[1])
    epsilon = settings.get("layer_norm_epsilon") or 1e-5
    if not isinstance(epsilon, float) or not 0 < epsilon < 1:
        raise damaged(file, f"layer_norm_epsilon is {epsilon!r}")
    model |= {
        "decoder_start": start,
        "source_end": added or callers_add,
        "layer_norm_epsilon": epsilon,
    }
    return Imported(
        path / "model.bin",
        config_of(file, vocabularies, weights, model, {"language_symbols": "both"} if is_many else None),
        weights,
        *vocabularies.tokenizers,
        packages=["ctranslate2"],
        load=lambda: RealCTranslate2(path, orders, names, ends=callers_add),
        notices=notices,
    )


def _vocabularies(
    names: tuple[Sequence[str], Sequence[str]],
    settings: Mapping[str, Any],
    path: Path,
    tokenizers: Path,
    languages: tuple[str, str],
) -> Vocabularies:
    if is_multilingual(names[0]):
        if names[0] != names[1]:
            raise damaged(path, "has different vocabularies, though each has all languages")
        file, model = sentencepiece_in(tokenizers)
        return vocabularies_of(names[0], model, file)
    orders = order_of(names[0], settings, path), order_of(names[1], settings, path)
    return tokenizers_of(path, orders, tokenizers, languages)


def _numbers(tensors: Tensors) -> dict[str, float]:
    """The variables that are single numbers, most of which both stacks have alike."""
    found: dict[str, dict[str, float]] = {}
    for stack in ("encoder", "decoder"):
        values = tensors.numbers(f"{stack}/")
        require_settings(values, _NUMBERS, tensors.path, f"of the {stack}: it changes what a model computes")
        unknown = values.keys() - _NUMBERS.keys() - _WITHOUT_EFFECT - {"num_heads", "scale_embeddings"}
        if unknown:
            raise ModelError(f"{tensors.path}: {stack}/{min(unknown)} is not known to this version")
        found[stack] = values
    for name in ("num_heads", "pre_norm", "activation", "scale_embeddings"):
        if found["encoder"].get(name) != found["decoder"].get(name):
            raise ModelError(f"{tensors.path}: {name} differs between encoder and decoder")
    zeros = found["decoder"].get("start_from_zero_embedding", 0)
    return found["encoder"] | {"start_from_zero_embedding": zeros}


def _weights(
    tensors: Tensors, numbers: Mapping[str, float], orders: tuple[Order, Order]
) -> tuple[Weights, dict[str, Any]]:
    """The weights by our names, and settings of `ModelConfig` that they tell."""
    width = tensors.shape("encoder/layer_0/self_attention/linear_1/weight")[0]
    inner = tensors.shape("encoder/layer_0/ffn/linear_0/weight")[0]
    weights = _embeddings(tensors, orders, width)
    depths = _depth(tensors, "encoder"), _depth(tensors, "decoder")

    def norm(prefix: str) -> tuple[Floats, Floats]:
        return tensors.take(f"{prefix}/gamma", width), tensors.take(f"{prefix}/beta", width)

    def take(stack: str, layer: int, name: str, *shape: int) -> Pair:
        prefix = f"{stack}/layer_{layer}/{name}"
        if len(shape) == 1:
            return norm(f"{prefix}/layer_norm")
        weight, bias = tensors.take(f"{prefix}/weight", *shape), f"{prefix}/bias"
        return weight, tensors.take(bias, shape[0]) if bias in tensors else np.zeros(shape[0], np.float32)

    weights |= layer_weights(depths, (width, inner), LAYER, take)
    pre_norm = bool(numbers.get("pre_norm", 1))
    for stack in ("encoder", "decoder") if pre_norm else ():
        weights[f"{stack}_norm.weight"], weights[f"{stack}_norm.bias"] = norm(f"{stack}/layer_norm")
    heads = numbers.get("num_heads", 0)
    if heads < 1 or width % heads:
        raise damaged(tensors.path, f"num_heads is {heads:g}, which does not divide {width}")
    if _is_turned(tensors, depths, width, int(heads)):
        positions: dict[str, object] = {"positions": "rotary"}
    else:
        positions = _positions(tensors, weights, width)
    tensors.require_empty()
    return weights, {
        **{"d_model": width, "d_ff": inner, "num_heads": int(heads)},
        **{"num_layers": depths[0], "num_decoder_layers": depths[1]},
        "activation": _ACTIVATIONS[int(numbers.get("activation", 0))],
        "norm": "pre" if pre_norm else "post",
        "scaled_embeddings": _is_scaled(numbers.get("scale_embeddings", 0), width, tensors.path),
        **positions,
    }


def _embeddings(tensors: Tensors, orders: tuple[Order, Order], width: int) -> Weights:
    of_source = "encoder/embeddings_0/weight"
    if of_source not in tensors:
        of_source = "encoder/embeddings/weight"
    entries = tensors.shape(of_source)[0], tensors.shape("decoder/embeddings/weight")[0]
    for order, size in zip(orders, entries, strict=True):
        if max(number for number in order.foreign if number is not None) >= size:
            raise damaged(tensors.path, "has fewer embeddings than its vocabulary")
    source = tensors.take(of_source, entries[0], width)
    target = tensors.take("decoder/embeddings/weight", entries[1], width)
    output = tensors.take("decoder/projection/weight", entries[1], width)
    bias = np.zeros(entries[1], np.float32)
    if "decoder/projection/bias" in tensors:
        bias = tensors.take("decoder/projection/bias", entries[1])
    return embedding_weights(orders, source, target, output, bias)


def _is_scaled(factor: float, width: int, path: Path) -> bool:
    """Whether embeddings are multiplied by sqrt(d_model); an integer says so, a float is the factor."""
    if isinstance(factor, int):
        return bool(factor)
    if math.isclose(factor, math.sqrt(width), rel_tol=1e-6):
        return True
    if factor == 1:
        return False
    raise ModelError(f"{path}: embeddings are multiplied by {factor:g}, not by sqrt(d_model)")


def _depth(tensors: Tensors, stack: str) -> int:
    depth = next(n for n in count() if f"{stack}/layer_{n}/ffn/linear_0/weight" not in tensors)
    if not depth:
        raise damaged(tensors.path, "has no layers")
    return depth


def _is_turned(tensors: Tensors, depths: tuple[int, int], width: int, heads: int) -> bool:
    """Whether self-attention has rotary positions, of our kind in each layer, and embeddings have none."""
    layers = [
        (stack, n) for stack, depth in zip(("encoder", "decoder"), depths, strict=True) for n in range(depth)
    ]
    found = [tensors.numbers(f"{stack}/layer_{n}/self_attention/") for stack, n in layers]
    if not any(found):
        return False
    added = "encoder/position_encodings/encodings"
    is_added = added in tensors and tensors.take(added, tensors.shape(added)[0], width).any()
    ours = {"rotary_dim": width // heads, "rotary_interleave": 1, "rotary_base": 10_000}
    if is_added or any(each != ours for each in found):
        raise ModelError(f"{tensors.path}: positions in self-attention are not those that export writes")
    return True


def _positions(tensors: Tensors, weights: Weights, width: int) -> dict[str, object]:
    """The kind of positions of which the file has tables; other tables than sinusoids are learned ones."""
    tables = {}
    for stack in ("encoder", "decoder"):
        name = f"{stack}/position_encodings/encodings"
        if name not in tensors:
            raise ModelError(f"{tensors.path}: has no {name}; other kinds of positions are not supported")
        tables[stack] = tensors.take(name, tensors.shape(name)[0], width)
    for kind, table in SINUSOIDS.items():
        differences = [each - table(len(each), width) for each in tables.values()]
        if all(np.abs(difference).max() < _POSITIONS_TOLERANCE for difference in differences):
            return {"positions": kind}
    most = min(map(len, tables.values()))
    weights["source_positions.weight"] = tables["encoder"][:most]
    weights["target_positions.weight"] = tables["decoder"][:most]
    return {"positions": "learned", "max_positions": most}


def _start_of(settings: Mapping[str, Any], names: Sequence[str], path: Path) -> int:
    start = settings.get("decoder_start_token", settings.get("bos_token", "<s>"))
    if start is None:
        raise ModelError(
            f"{path}: decoder_start_token is null: the caller must give the start of every output, which is "
            "not supported; if all outputs start with one symbol, name it there"
        )
    if start not in names:
        raise ModelError(f"{path}: the decoder starts with {start!r}, which is no entry of the vocabulary")
    return names.index(start)


def _start(weights: Weights, number: int, order: Order) -> str:
    """The value of `decoder_start`, given the entry that a decoder starts with.

    The embedding of an entry that is neither the start nor the end symbol is given to our start symbol, too.
    If the vocabulary has a start symbol, its logits remain: the matrices are tied no more.
    """
    if number in (known := {order.foreign[START]: "symbol", order.foreign[END]: "end"}):
        return known[number]
    prefix = "embeddings.matrices"
    if order.foreign[START] is not None:  # the source, the target and the output get a matrix each
        if (shared := weights.pop(f"{prefix}.shared", None)) is not None:
            weights |= {f"{prefix}.source": shared, f"{prefix}.target": shared.copy()}
        weights.setdefault(f"{prefix}.output", weights[f"{prefix}.target"].copy())
    matrix = weights.get(f"{prefix}.shared", weights.get(f"{prefix}.target"))
    assert matrix is not None
    matrix[START] = matrix[order.ours([number])[0]]
    return "symbol"


class RealCTranslate2:
    """The model in CTranslate2 on the CPU in float32; an `Original`.

    `names` are the entries of both sides in CTranslate2's order. If `ends`, the sources that it gets have an
    end symbol.
    """

    def __init__(
        self,
        path: Path,
        orders: tuple[Order, Order],
        names: tuple[Sequence[str], Sequence[str]],
        *,
        ends: bool,
    ) -> None:
        from ctranslate2 import Translator

        with folder_with(path, _THEIR_FILES, {}) as folder:
            self._translator = Translator(str(folder), device="cpu", compute_type="float32")
        self._orders, self._names = orders, names
        self._end = self._pieces(0, [END]) if ends else []
        self._ids = {name: number for number, name in enumerate(names[1])}

    def encode(self, text: str) -> None:
        """Not available: the folder's tokenisers are not CTranslate2's own."""

    def scored(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[Scored]:
        """The targets with the log-probability of each token, the end symbol's last."""
        found = self._translator.score_batch(
            [self._pieces(0, ids) + self._end for ids in sources],
            [self._pieces(1, ids) for ids in targets],
            max_input_length=0,
        )
        return [
            Scored(source, target, result.log_probs)
            for source, target, result in zip(sources, targets, found, strict=True)
        ]

    def greedy(self, sources: Sequence[Ids], most: int) -> list[list[int]]:
        """The most probable token again and again, at most `most`, without the end symbol."""
        never = [self._names[1][number] for number in self._orders[1].foreign[:2] if number is not None]
        found = self._translator.translate_batch(
            [self._pieces(0, ids) + self._end for ids in sources],
            beam_size=1,
            min_decoding_length=0,
            max_decoding_length=most,
            max_input_length=0,
            suppress_sequences=[[name] for name in never],
        )
        written = [result.hypotheses[0] for result in found]
        return [self._orders[1].ours(self._ids[piece] for piece in pieces) for pieces in written]

    def _pieces(self, side: int, ids: Ids) -> list[str]:
        return [self._names[side][number] for number in self._orders[side].theirs(ids)]
