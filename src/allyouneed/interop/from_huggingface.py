"""Reads models of Hugging Face: Marian's (OPUS-MT and our own exports), M2M-100 and NLLB.

Marian's weights take the way back from `huggingface.marian_weights`: the dimensions of the residual stream
are put in our order, in which sines and cosines alternate.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allyouneed.data.tokenizer import Tokenizer
from allyouneed.data.tokenizer_file import rebuilt
from allyouneed.errors import ModelError
from allyouneed.interop.foreign import (
    Imported,
    Order,
    Original,
    Pair,
    Tensors,
    Vocabularies,
    Weights,
    config_of,
    embedding_weights,
    language_settings,
    layer_weights,
    require_settings,
    search_settings,
    sentencepiece_of,
)
from allyouneed.interop.foreign_files import MAX_VOCABULARY_BYTES, damaged, is_whole, json_object
from allyouneed.interop.multilingual import checked_description, read_vocabulary
from allyouneed.model.position_tables import sinusoids
from allyouneed.storage.tensor_files import map_tensors
from allyouneed.symbols import CONTROL_SYMBOLS, END, PADDING, START

_MARIAN, _M2M = "marian", "m2m_100"
_KNOWN: dict[str, tuple[object, ...]] = {
    "model_type": (_MARIAN, _M2M),
    "activation_function": ("relu", "gelu", "swish", "silu"),
    **dict.fromkeys(("normalize_embedding", "add_bias_logits"), (False,)),
    "static_position_embeddings": (True,),
}
_NORMS = "normalize_before", "add_final_layer_norm"
"""Settings that Marian's models have off, and others on, whatever their files say."""
_LACKING = {
    "mbart": "layer normalisation of the embeddings",
    "t5": "buckets of relative positions, and normalisation without means",
    "bart": "layer normalisation of the embeddings",
}
"""Architecture -> what it has and ours has not."""
_SIZES = {
    **{"d_model": "d_model", "d_ff": "encoder_ffn_dim", "num_heads": "encoder_attention_heads"},
    **{"num_layers": "encoder_layers", "num_decoder_layers": "decoder_layers"},
}
"""Our setting -> theirs."""
_LARGEST = {"max_position_embeddings": 1 << 15, "num_labels": 1_000, "num_hidden_layers": 1_000}
"""Sizes from which transformers builds something -> the largest that is taken; we have no use for them."""
_ACTIVATIONS = {"silu": "swish"}
_WEIGHTS, _PICKLE = "model.safetensors", "pytorch_model.bin"
_POSITIONS_TOLERANCE = 1e-5

LAYER = {
    "self_attention.query_key_value": [f"self_attn.{each}_proj" for each in "qkv"],
    "self_attention.output": ["self_attn.out_proj"],
    "after_self_attention.norm": ["self_attn_layer_norm"],
    "cross_attention.query": ["encoder_attn.q_proj"],
    "cross_attention.key_value": [f"encoder_attn.{each}_proj" for each in "kv"],
    "cross_attention.output": ["encoder_attn.out_proj"],
    "after_cross_attention.norm": ["encoder_attn_layer_norm"],
    "feed_forward.inner": ["fc1"],
    "feed_forward.outer": ["fc2"],
    "after_feed_forward.norm": ["final_layer_norm"],
}
"""Our part of a layer -> Marian's as transformers names it."""
WRITING = "self_attention.output", "cross_attention.output", "feed_forward.outer", ".norm"
"""Parts of names of maps and normalisations that write into the residual stream; the others read it."""
MARIAN_EPSILON = 1e-5
"""PyTorch's default epsilon, which Marian uses in every normalisation."""


def recognises(path: Path) -> bool:
    """Whether a folder looks like a model of Hugging Face."""
    names = {each.name for each in path.iterdir()} if path.is_dir() else set()
    return "config.json" in names and bool(names & {_WEIGHTS, _PICKLE})


def read(path: Path) -> Imported:
    """Read a folder; raises ModelError if it is damaged, or holds a model of another architecture."""
    if not (path / _WEIGHTS).exists():
        raise ModelError(
            f"{path}: its weights are a pickle ({_PICKLE}), which could run code, and are not read; if you "
            "trust it, write another folder with transformers (pip install 'allyouneed[huggingface]'), and "
            "import that: "
            "AutoModelForSeq2SeqLM.from_pretrained(PATH).save_pretrained(SAFE); "
            "AutoTokenizer.from_pretrained(PATH).save_pretrained(SAFE)"
        )
    settings = json_object(path / "config.json")
    kind = settings.get("model_type")
    lacking = _LACKING.get(str(kind))
    reason = f"it has {lacking}" if lacking else "only the architectures of Marian and M2M-100 are known"
    known_norms = dict.fromkeys(_NORMS, (kind == _M2M,))
    require_settings(settings, _KNOWN | known_norms, path / "config.json", reason)
    sizes = _sizes(settings, path / "config.json")
    known = known_settings(path, settings)
    if kind == _M2M:
        _, vocabularies = read_vocabulary(path, _number(settings, "vocab_size", path / "config.json"))
    else:
        vocabularies = _sides(path)
    _check_symbols(path, vocabularies, settings)
    tensors = Tensors(map_tensors(path / _WEIGHTS), path / _WEIGHTS)
    weights, start = _weights(tensors, vocabularies.orders, sizes, settings, is_marian=kind == _MARIAN)
    file = path / "tokenizer_config.json"
    found = json_object(file) if file.exists() else {}
    config = config_of(
        path / "config.json",
        vocabularies,
        weights,
        {
            **sizes,
            "layer_norm_epsilon": MARIAN_EPSILON,
            "scaled_embeddings": bool(settings.get("scale_embedding", False)),
            "decoder_start": start,
            **({"norm": "pre", "positions": "fairseq"} if kind == _M2M else {}),
        },
        {"language_symbols": "both"}
        if kind == _M2M
        else language_settings(found.get("source_lang"), found.get("target_lang")),
        _search(path, settings),
    )

    def load() -> Original:
        from allyouneed.interop.transformers_marian import TransformersMarian

        return TransformersMarian(path, known, vocabularies.orders, str(kind))

    notices = ["its weights have less precision than float32"] if tensors.is_rounded else []
    return Imported(
        path / _WEIGHTS,
        config,
        weights,
        *vocabularies.tokenizers,
        packages=["transformers", "torch"],
        load=load,
        notices=notices,
    )


def _sizes(settings: dict[str, Any], path: Path) -> dict[str, Any]:
    for size in ("ffn_dim", "attention_heads"):
        if settings.get(f"encoder_{size}") != settings.get(f"decoder_{size}"):
            raise ModelError(f"{path}: encoder_{size} and decoder_{size} differ, which is not supported")
    sizes = {ours: _number(settings, theirs, path) for ours, theirs in _SIZES.items()}
    for name in _LARGEST.keys() & settings.keys():
        _number(settings, name, path)
    if sizes["d_model"] % 2:
        raise damaged(path, f"d_model is {sizes['d_model']}, an odd number")
    dropout = settings.get("dropout", 0.1)
    if not isinstance(dropout, float | int) or not 0 <= dropout < 1:
        raise damaged(path, "dropout is no rate")
    activation = str(settings.get("activation_function", "gelu"))
    return {**sizes, "activation": _ACTIVATIONS.get(activation, activation), "dropout": float(dropout)}


def _number(settings: dict[str, Any], name: str, path: Path) -> int:
    value: Any = settings.get(name)
    if not is_whole(value, 1, _LARGEST.get(name, 1_000_000)):
        raise damaged(path, f"{name} is {value!r}, not a size")
    return int(value)


def _weights(
    tensors: Tensors,
    orders: tuple[Order, Order],
    sizes: dict[str, Any],
    settings: dict[str, Any],
    *,
    is_marian: bool,
) -> tuple[Weights, str]:
    """The weights by our names, and the value of `decoder_start`."""
    width = sizes["d_model"]
    ours_of = np.arange(width).reshape(-1, 2).T.ravel().argsort() if is_marian else None
    embeddings, start = _embeddings(tensors, orders, width, ours_of, settings)
    if ours_of is not None:
        _check_positions(tensors, width, ours_of)

    def take(stack: str, layer: int, name: str, *shape: int) -> Pair:
        prefix = f"model.{stack}.layers.{layer}.{name}"
        return tensors.take(f"{prefix}.weight", *shape), tensors.take(f"{prefix}.bias", shape[0])

    depths = sizes["num_layers"], sizes["num_decoder_layers"]
    weights = embeddings
    for stack in () if is_marian else ("encoder", "decoder"):
        tensors.drop(f"model.{stack}.embed_positions.weights")  # which are computed anew
        for part in ("weight", "bias"):
            weights[f"{stack}_norm.{part}"] = tensors.take(f"model.{stack}.layer_norm.{part}", width)
    for name, array in layer_weights(depths, (width, sizes["d_ff"]), LAYER, take).items():
        if ours_of is None:
            weights[name] = array
        elif any(f"{part}." in name for part in WRITING):  # the dimensions of the stream, in our order
            weights[name] = array[ours_of]
        else:
            weights[name] = array[:, ours_of] if name.endswith("weight") else array
    tensors.require_empty()
    return weights, start


def _embeddings(
    tensors: Tensors,
    orders: tuple[Order, Order],
    width: int,
    ours_of: NDArray[np.int64] | None,
    settings: dict[str, Any],
) -> tuple[Weights, str]:
    """The matrices and the bias in our order, and how the decoder starts.

    Marian's decoder starts with padding, whose vector is zero, unless transformers has trained it.
    """
    file, both = tensors.path.with_name("config.json"), settings.get("vocab_size")
    sizes = {"vocab_size": both, "decoder_vocab_size": settings.get("decoder_vocab_size") or both}
    entries = [_number(sizes, name, file) for name in sizes]
    for name, size, order in zip(sizes, entries, orders, strict=True):
        if size != (found := sum(number is not None for number in order.foreign)):
            raise damaged(file, f"{name} is {size:,}, but the vocabulary has {found:,} entries")
    if "model.shared.weight" in tensors:
        source = target = tensors.take("model.shared.weight", entries[0], width)
        tensors.drop("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight")
    else:
        source = tensors.take("model.encoder.embed_tokens.weight", entries[0], width)
        target = tensors.take("model.decoder.embed_tokens.weight", entries[1], width)
    start = settings.get("decoder_start_token_id", settings.get("pad_token_id"))
    if not isinstance(start, int) or not 0 <= start < len(target):
        raise damaged(tensors.path, f"decoder_start_token_id is {start!r}")
    own = orders[1].foreign
    how = {own[START]: "symbol", own[END]: "end"}.get(start, "symbol" if target[start].any() else "zeros")
    if how == "symbol" and start != own[START]:
        if start != own[PADDING]:
            raise ModelError(
                f"{tensors.path}: the decoder starts with entry {start}, not with padding, which is "
                "not supported"
            )
        orders = orders[0].with_padding_as_start(), orders[1].with_padding_as_start()
    output = target
    if "lm_head.weight" in tensors:
        output = tensors.take("lm_head.weight", entries[1], width)
    if ours_of is None:
        return embedding_weights(orders, source, target, output, np.zeros(entries[1], np.float32)), how
    bias = tensors.take("final_logits_bias", 1, entries[1])[0]
    source, target, output = (matrix[:, ours_of] for matrix in (source, target, output))
    return embedding_weights(orders, source, target, output, bias), how


def _check_positions(tensors: Tensors, width: int, ours_of: NDArray[np.int64]) -> None:
    """Some versions save the sinusoids, as rounded as the weights; these are computed anew."""
    for stack in ("encoder", "decoder"):
        name = f"model.{stack}.embed_positions.weight"
        if name not in tensors:
            continue
        tolerance = max(_POSITIONS_TOLERANCE, tensors.resolution(name))
        table = tensors.take(name, tensors.shape(name)[0], width)[:, ours_of]
        if np.abs(table - sinusoids(len(table), width)).max() > tolerance:
            raise ModelError(f"{tensors.path}: {name} are no sinusoids, which is not supported")


def _sides(path: Path) -> Vocabularies:
    """The vocabularies of a folder of Marian's, our own if `export` wrote it."""
    return _own(path) if (path / "tokenizer.json").exists() else _sentencepiece(path)


def _check_symbols(path: Path, found: Vocabularies, settings: dict[str, Any]) -> None:
    """Raise ModelError if `settings` contradict the vocabularies."""
    for name, token in (("pad_token_id", PADDING), ("eos_token_id", END)):
        if any(order.foreign[token] != settings.get(name) for order in found.orders):
            symbol = CONTROL_SYMBOLS[token]
            raise ModelError(
                f"{path}: {name} is {settings.get(name)!r}, not the place of {symbol} in the vocabulary"
            )


def _own(path: Path) -> Vocabularies:
    """The tokenisers of a folder that `export` wrote."""
    target = path / "target_tokenizer"
    files = path / "tokenizer.json", (target if target.is_dir() else path) / "tokenizer.json"
    tokenizers = []
    for file in files:  # in the form in which transformers keeps them
        description = json_object(file, MAX_VOCABULARY_BYTES) | {"post_processor": None, "added_tokens": []}
        try:
            tokenizers.append(Tokenizer(rebuilt(description)))
        except ValueError as error:
            raise ModelError(
                f"{file}: is no tokeniser of our exports ({error}); only those and SentencePiece are read"
            ) from None
    orders = [Order([*range(each.vocab_size)], each.pieces(range(5, each.vocab_size))) for each in tokenizers]
    kind = json_object(files[0], MAX_VOCABULARY_BYTES).get("model", {}).get("type", "")
    names = {"BPE": "bpe", "WordPiece": "wordpiece"}
    return Vocabularies((orders[0], orders[1]), (tokenizers[0], tokenizers[1]), names.get(kind, "bpe"))


def _sentencepiece(path: Path) -> Vocabularies:
    """The tokenisers of OPUS-MT: a SentencePiece model per side, and the order of the entries."""
    vocabularies = [_vocabulary(path / "vocab.json")]
    if (path / "target_vocab.json").exists():
        vocabularies.append(_vocabulary(path / "target_vocab.json"))
    orders, tokenizers = [], []
    for side, names in (("source", vocabularies[0]), ("target", vocabularies[-1])):
        order = Order.of_ours(names) or Order.of(
            names,
            end=_entry(names, "</s>", path),
            unknown=_entry(names, "<unk>", path),
            padding=_entry(names, "<pad>", path),
        )
        orders.append(order)
        tokenizers.append(sentencepiece_of(path / f"{side}.spm", order.pieces))
    return Vocabularies((orders[0], orders[1]), (tokenizers[0], tokenizers[1]))


def _vocabulary(path: Path) -> list[str]:
    ids = json_object(path, MAX_VOCABULARY_BYTES)
    places = [*ids.values()]
    if not all(type(place) is int for place in places) or sorted(places) != [*range(len(places))]:
        raise damaged(path, "its ids are not those from 0 on")
    return sorted(ids, key=ids.__getitem__)


def _entry(names: Sequence[str], name: str, path: Path) -> int:
    if name not in names:
        raise damaged(path, f"its vocabulary has no {name}")
    return names.index(name)


_BEAM, _EXPONENT = "num_beams", "length_penalty"
_SAME = "no_repeat_ngram_size", "repetition_penalty"
"""Settings that have the same name and meaning as ours."""


def _search(path: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of `SearchConfig` that a folder gives, as far as our search has them.

    `settings` are those of `config.json`, where transformers had them once.
    """
    found = {name: (settings.get(name), path / "config.json") for name in (_BEAM, _EXPONENT, *_SAME)}
    file = path / "generation_config.json"
    if file.exists():
        found |= {name: (value, file) for name, value in json_object(file).items() if name in found}
    for name, (value, source) in found.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise damaged(source, f"{name} is {value!r}, not a number")
    numbers = {name: value for name, (value, _) in found.items()}
    if numbers[_EXPONENT] is None and (numbers[_BEAM] or 0) > 1:
        numbers[_EXPONENT] = 1.0  # what transformers takes if nothing is said
    return search_settings(numbers[_EXPONENT], beam_size=numbers[_BEAM], **{n: numbers[n] for n in _SAME})


_SETTINGS = (
    *("model_type", "d_model", "vocab_size", "decoder_vocab_size", "max_position_embeddings"),
    *("encoder_layers", "decoder_layers", "encoder_attention_heads", "decoder_attention_heads"),
    *("encoder_ffn_dim", "decoder_ffn_dim", "activation_function", "scale_embedding"),
    *("share_encoder_decoder_embeddings", "tie_word_embeddings"),
    *("pad_token_id", "eos_token_id", "decoder_start_token_id", "forced_eos_token_id"),
)
"""Settings in `config.json` that change results."""
_SYMBOLS = "unk_token", "eos_token", "pad_token", "additional_special_tokens"
_OF_TOKENS: dict[str, tuple[str, ...]] = {
    "tokenizer_config.json": (
        *("source_lang", "target_lang", "separate_vocabs", "added_tokens_decoder", *_SYMBOLS),
        *("language_codes", "num_madeup_words", "extra_special_tokens"),
    ),
    "special_tokens_map.json": _SYMBOLS,
    "added_tokens.json": (),
}
"""Files of the tokeniser -> their settings that change how it splits; all if none is named."""


def known_settings(path: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON files in a folder as transformers gets them, without settings that name files or code."""
    known = {"config.json": {name: settings[name] for name in _SETTINGS if name in settings}}
    for name, wanted in _OF_TOKENS.items():
        if (path / name).exists():
            found = json_object(path / name)
            known[name] = {key: value for key, value in found.items() if not wanted or key in wanted}
    if settings.get("model_type") == _M2M and (path / "tokenizer.json").exists():
        known["tokenizer.json"] = checked_description(path / "tokenizer.json")
    return known
