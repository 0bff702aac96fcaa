"""Reads models of Marian: a `.npz` or `.bin` file and its vocabularies, as OPUS-MT or Bergamot have them.

Marian's sinusoids have all sines first, its decoder starts with a zero vector, and its normalisations add
1e-6 to the variance; all of these are settings of our model, so that weights are taken over as they are. Its
pre-norm is not ours: it normalises the queries of self-attention, but not the keys and values.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from allyouneed.errors import ModelError
from allyouneed.interop.foreign import Imported, Order, Tensors, config_of, require_settings
from allyouneed.interop.foreign_files import whole_number
from allyouneed.interop.foreign_search import marian_search
from allyouneed.interop.marian_files import CONFIG, is_binary, parse_yaml, read_archive, read_arrays
from allyouneed.interop.marian_vocabularies import Vocabularies, read_vocabularies
from allyouneed.interop.originals import RealMarian

_FACTOR = "_QuantMultA"
"""End of the names of factors for rounding activations, which Bergamot's models have for its own speed."""
_OTHER_FILES = (".optimizer.npz", ".ema.npz")

_KNOWN: dict[str, tuple[object, ...]] = {
    "type": ("transformer",),
    "transformer-ffn-activation": ("relu", "swish", "gelu"),
    "transformer-decoder-autoreg": ("self-attention", "rnn"),
    "transformer-ffn-depth": ("2",),
    "transformer-decoder-ffn-depth": ("0", "2"),
    "transformer-postprocess-emb": ("d", ""),
    "transformer-no-projection": ("false",),
    "transformer-no-bias": ("false",),
    "transformer-no-affine": ("false",),
    "transformer-pool": ("false",),
    "transformer-rnn-projection": ("false",),
    "transformer-tied-layers": ([],),
    "transformer-train-position-embeddings": ("false",),
    "transformer-disable-position-embeddings": ("false",),
    "transformer-attention-mask": ("default",),
    "tied-embeddings-src": ("false",),
    "lemma-dim-emb": ("0",),
    "factors-dim-emb": ("0",),
    "ulr": ("false",),
    "input-types": ([],),
    "right-left": ("false",),
}
"""Setting -> values that are supported, as texts; other values change what the model computes."""
_CODES = {"preprocess": "", "postprocess": "dan", "postprocess-top": ""}
"""What is done before and after each sub-layer, and after the last: normalisation after each sum."""


def is_one(path: Path) -> bool:
    """Whether a file, or the only such file of a folder, looks like a model of Marian."""
    return bool(_models_in(path)) if path.is_dir() else _is_model(path)


def read(path: Path) -> Imported:
    """Read a `.npz` or `.bin` file, or a folder with one, and the vocabularies beside it.

    Raises:
        ModelError: It is damaged, of another architecture, or its vocabularies are not found.
    """
    file = _file_of(path)
    arrays, is_rounded = (read_archive(file), False) if file.suffix == ".npz" else read_arrays(file)
    is_shared = _is_shared(_settings(file, arrays))
    found = imported(file, arrays, vocabularies := read_vocabularies(file, is_shared=is_shared))
    found = replace(found, config=found.config.replace(search=marian_search(file)))
    if not is_rounded:
        return found
    return replace(
        found,
        load=lambda: RealMarian(file, vocabularies, arrays),
        notices=["its weights are rounded to integers, and are kept so; they are proved as floats"],
    )


def imported(file: Path, arrays: Mapping[str, Tensor | bytes], vocabularies: Vocabularies) -> Imported:
    """The model of named arrays, one of which is its configuration.

    Args:
        file: Where they are from.
        arrays: Name -> tensor, and `CONFIG` -> YAML.
        vocabularies: The vocabularies of both sides.

    Raises:
        ModelError: The arrays do not fit a supported architecture.
    """
    settings = _settings(file, arrays)
    tensors = Tensors({name: array for name, array in arrays.items() if isinstance(array, Tensor)}, file)
    tensors.drop(*(name for name in arrays if name.endswith(_FACTOR)))
    layers = _Layers(tensors, settings, file)
    orders = vocabularies.orders
    weights = _embeddings(tensors, settings, orders, layers.width)
    tied = {1: "all", 2: "target", 3: "none"}[sum(".matrices." in name for name in weights)]
    weights |= layers.stacks()
    tensors.drop("decoder_c_tt", "encoder_c_tt")
    tensors.require_empty()
    config = config_of(
        file,
        model={
            "source_vocab_size": len(orders[0]),
            "target_vocab_size": len(orders[1]),
            **layers.config(),
            "tied_embeddings": tied,
            "output_bias": True,
            "decoder_start": "zeros",
            "positions": "concatenated",
            "layer_norm_epsilon": 1e-6,
        },
        data={
            "tokenizer": "sentencepiece",
            "vocab_size": len(orders[1]),
            "joint_vocabulary": vocabularies.tokenizers[0] == vocabularies.tokenizers[1],
        },
        search={"length_normalization": "average"},
    )
    return Imported(
        file,
        config,
        weights,
        *vocabularies.tokenizers,
        package="pymarian",
        load=lambda: RealMarian(file, vocabularies),
    )


def _settings(file: Path, arrays: Mapping[str, Tensor | bytes]) -> dict[str, Any]:
    """The configuration, none of whose settings are unsupported."""
    description = arrays.get(CONFIG)
    if not isinstance(description, bytes):
        raise ModelError(f"{file}: has no {CONFIG}; take another copy")
    settings = parse_yaml(description.rstrip(b"\0"), file)
    require_settings(settings, _KNOWN, file, "it changes what a model computes")
    return settings


def _is_shared(settings: Mapping[str, Any]) -> bool:
    """Whether one matrix has the embeddings of both sides, which then have one vocabulary."""
    return settings.get("tied-embeddings-all") == "true"


def _models_in(folder: Path) -> list[Path]:
    return [each for each in sorted(folder.iterdir()) if _is_model(each)]


def _is_model(path: Path) -> bool:
    if path.suffix == ".npz":
        return not path.name.endswith(_OTHER_FILES)
    return path.suffix == ".bin" and not path.is_dir() and is_binary(path)


def _file_of(path: Path) -> Path:
    if not path.is_dir():
        return path
    found = _models_in(path)
    if len(found) > 1:
        raise ModelError(f"{path}: has several models ({found[0].name}, {found[1].name}..); name one of them")
    return found[0]


def _embeddings(
    tensors: Tensors, settings: Mapping[str, Any], orders: tuple[Order, Order], width: int
) -> dict[str, Tensor]:
    """The matrices and the bias in our order."""
    sizes = [1 + max(number for number in order.foreign if number is not None) for order in orders]
    found = {}
    if _is_shared(settings):
        shared = tensors.take("Wemb", sizes[0], width)
        found["embeddings.matrices.shared"] = orders[0].rows(shared)
    else:
        found["embeddings.matrices.source"] = orders[0].rows(tensors.take("encoder_Wemb", sizes[0], width))
        found["embeddings.matrices.target"] = orders[1].rows(tensors.take("decoder_Wemb", sizes[1], width))
        if settings.get("tied-embeddings") != "true":
            output = (
                tensors.take("decoder_ff_logit_out_Wt", sizes[1], width)
                if "decoder_ff_logit_out_Wt" in tensors
                else tensors.take("decoder_ff_logit_out_W", width, sizes[1]).T
            )
            found["embeddings.matrices.output"] = orders[1].rows(output)
    bias = (
        torch.zeros(sizes[1])
        if settings.get("output-omit-bias") == "true"
        else tensors.take("decoder_ff_logit_out_b", 1, sizes[1])[0]
    )
    return {**found, "embeddings.bias": orders[1].bias(bias)}


class _Layers:
    """The layers of encoder and decoder, and the settings that they have."""

    def __init__(self, tensors: Tensors, settings: Mapping[str, Any], path: Path) -> None:
        self._tensors, self._path = tensors, path
        for name, wanted in _CODES.items():
            if (found := settings.get(f"transformer-{name}", wanted)) != wanted:
                raise ModelError(
                    f"{path}: transformer-{name} = {found!r} is not supported; only normalisation after each "
                    "sum is, as Marian's other kind normalises queries without their keys and values"
                )
        self.width = self._size(settings, "dim-emb")
        self._inner = self._size(settings, "transformer-dim-ffn")
        other = settings.get("transformer-decoder-dim-ffn", "0")
        if other not in ("0", str(self._inner)):
            raise ModelError(f"{path}: transformer-decoder-dim-ffn = {other!r} differs from the encoder's")
        self._heads = self._size(settings, "transformer-heads")
        self._depths = self._size(settings, "enc-depth"), self._size(settings, "dec-depth")
        self._activation = str(settings.get("transformer-ffn-activation", "swish"))
        self._is_recurrent = settings.get("transformer-decoder-autoreg") == "rnn"
        if self._is_recurrent and settings.get("dec-cell") != "ssru":
            raise ModelError(
                f"{path}: dec-cell = {settings.get('dec-cell')!r} is not supported; only ssru is"
            )

    def _size(self, settings: Mapping[str, Any], name: str) -> int:
        size = whole_number(value := settings.get(name))
        if size is None or not 0 < size <= 1_000_000:
            raise ModelError(f"{self._path}: {name} = {value!r} is no size; take another copy")
        return size

    def config(self) -> dict[str, Any]:
        """Settings of `ModelConfig`."""
        encoder, decoder = self._depths
        return {
            **{"d_model": self.width, "d_ff": self._inner, "num_heads": self._heads},
            **{"num_layers": encoder, "num_decoder_layers": None if decoder == encoder else decoder},
            "activation": self._activation,
            "autoregression": "ssru" if self._is_recurrent else "attention",
        }

    def stacks(self) -> dict[str, Tensor]:
        """The weights of all layers."""
        found: dict[str, Tensor] = {}
        for stack, depth in zip(("encoder", "decoder"), self._depths, strict=True):
            for number in range(depth):
                parts = self._layer(f"{stack}_l{number + 1}", stack)
                found |= {f"{stack}.{number}.{name}": tensor for name, tensor in parts.items()}
        return found

    def _layer(self, prefix: str, stack: str) -> dict[str, Tensor]:
        parts = {}
        if stack == "decoder" and self._is_recurrent:
            take, width = self._tensors.take, self.width
            parts["self_attention.candidate.weight"] = take(f"{prefix}_rnn_W", width, width).T
            parts["self_attention.forget.weight"] = take(f"{prefix}_rnn_Wf", width, width).T
            parts["self_attention.forget.bias"] = take(f"{prefix}_rnn_bf", 1, width)[0]
            norm = self._normalisation(f"{prefix}_rnn_ffn_ln")
        else:
            parts |= self._maps(f"{prefix}_self", {"query_key_value": "qkv", "output": "o"}, "self_attention")
            norm = self._normalisation(f"{prefix}_self_Wo_ln")
        parts |= {f"after_self_attention.norm.{kind}": tensor for kind, tensor in norm.items()}
        if stack == "decoder":
            names = {"query": "q", "key_value": "kv", "output": "o"}
            parts |= self._maps(f"{prefix}_context", names, "cross_attention")
            norm = self._normalisation(f"{prefix}_context_Wo_ln")
            parts |= {f"after_cross_attention.norm.{kind}": tensor for kind, tensor in norm.items()}
        for name, number, inputs, outputs in (
            ("inner", 1, self.width, self._inner),
            ("outer", 2, self._inner, self.width),
        ):
            weight = self._tensors.take(f"{prefix}_ffn_W{number}", inputs, outputs).T
            parts[f"feed_forward.{name}.weight"] = weight
            parts[f"feed_forward.{name}.bias"] = self._tensors.take(f"{prefix}_ffn_b{number}", 1, outputs)[0]
        norm = self._normalisation(f"{prefix}_ffn_ffn_ln")
        return parts | {f"after_feed_forward.norm.{kind}": tensor for kind, tensor in norm.items()}

    def _maps(self, prefix: str, names: Mapping[str, str], module: str) -> dict[str, Tensor]:
        """Linear maps, each joined from one or more of Marian's, which multiply from the other side."""
        take, width = self._tensors.take, self.width
        parts = {}
        for name, letters in names.items():
            weights = [take(f"{prefix}_W{letter}", width, width).T for letter in letters]
            biases = [take(f"{prefix}_b{letter}", 1, width)[0] for letter in letters]
            parts[f"{module}.{name}.weight"] = torch.cat(weights)
            parts[f"{module}.{name}.bias"] = torch.cat(biases)
        return parts

    def _normalisation(self, name: str) -> dict[str, Tensor]:
        return {
            "weight": self._tensors.take(f"{name}_scale", 1, self.width)[0],
            "bias": self._tensors.take(f"{name}_bias", 1, self.width)[0],
        }
