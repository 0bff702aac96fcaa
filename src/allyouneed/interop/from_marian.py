"""Reads models of Marian: a `.npz` or `.bin` file and its vocabularies, as OPUS-MT or Firefox have them.

Marian's sinusoids have all sines first, its decoder starts with a zero vector, and its normalisations add
1e-6 to the variance; all of these are settings of our model, so that weights are taken over as they are. Its
pre-norm is not ours: it normalises the queries of self-attention, but not the keys and values.
"""

import math
import re
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from allyouneed.errors import ModelError, UsageError
from allyouneed.interop.foreign import (
    Array,
    Imported,
    Order,
    Pair,
    Scored,
    Tensors,
    Weights,
    config_of,
    embedding_weights,
    language_settings,
    layer_weights,
    require_settings,
    search_settings,
)
from allyouneed.interop.foreign_files import damaged, json_object, whole_number
from allyouneed.interop.marian_files import (
    CONFIG,
    DECODER_SETTINGS,
    is_binary,
    parse_yaml,
    read_archive,
    read_arrays,
    read_vocabularies,
    read_yaml,
    write_archive,
)
from allyouneed.interop.marian_shortlist import find_shortlists, read_shortlist
from allyouneed.interop.packed_models import GZIP, read_gzipped, read_package
from allyouneed.interop.parity import Ids

FACTOR = "_QuantMultA"
"""End of the names of factors for rounding activations, which Bergamot's models have for its own speed."""
_OF_PACKAGES = re.compile(r"[\w.+-]{1,200}\.(?:npz|ya?ml|json|spm|bpe|vocab|txt|sh)")
"""Names of the files of OPUS-MT's zips that are read."""
_COMPRESSED = re.compile(
    r"[\w.+-]+\.(?:bin|npz|spm)\.gz|(?:config|decoder|metadata)[\w.+-]*\.(?:yml|json)\.gz"
)
"""Names of the files of a folder that are expanded."""
_OF_FIREFOX = re.compile(r"model\.(?P<source>[a-z]{2})(?P<target>[a-z]{2})\.intgemm[\w.]*\.bin")
"""Name of a file of Firefox's weights."""
_ROUNDED = ".intgemm"
"""Part of the names of the files of Bergamot's and Firefox's weights."""
_OTHER_FILES = (".optimizer.npz", ".ema.npz")

_OFF = ("false",)
_KNOWN: dict[str, tuple[object, ...]] = {
    "type": ("transformer",),
    "transformer-ffn-activation": ("relu", "swish", "gelu"),
    "transformer-decoder-autoreg": ("self-attention", "rnn"),
    "transformer-ffn-depth": ("2",),
    "transformer-decoder-ffn-depth": ("0", "2"),
    "transformer-postprocess-emb": ("d", ""),
    **dict.fromkeys(("transformer-no-projection", "transformer-no-bias", "transformer-no-affine"), _OFF),
    **dict.fromkeys(("transformer-pool", "transformer-rnn-projection"), _OFF),
    "transformer-tied-layers": ([],),
    **dict.fromkeys((f"transformer-{verb}-position-embeddings" for verb in ("train", "disable")), _OFF),
    "transformer-attention-mask": ("default",),
    "tied-embeddings-src": _OFF,
    **dict.fromkeys(("lemma-dim-emb", "factors-dim-emb"), ("0",)),
    **{"ulr": _OFF, "input-types": ([],), "right-left": _OFF},
}
"""Setting -> values that are supported, as texts; other values change what the model computes."""
_CODES = {"preprocess": "", "postprocess": "dan", "postprocess-top": ""}
"""Codes of the operations before and after each sub-layer, and after the last: normalisation after sums."""


def recognises(path: Path) -> bool:
    """Whether a file, or the only such file of a folder, looks like a model of Marian."""
    if path.is_dir():
        return bool(_models_in(path)) or any(map(_is_compressed, path.iterdir()))
    return path.suffix == ".zip" or _is_compressed(path) or _is_model(path)


def read(path: Path) -> Imported:
    """Read a `.npz` or `.bin` file, or a folder or zip with one, and the vocabularies beside it.

    Raises:
        ModelError: It is damaged, of another architecture, or its vocabularies are not found.
        UsageError: It is a compressed file, without its folder.
    """
    if path.is_dir() and (
        compressed := [each for each in path.iterdir() if _COMPRESSED.fullmatch(each.name)]
    ):
        return read_gzipped(path, compressed, read)
    if path.suffix == ".zip" and not path.is_dir():
        return read_package(path, ".npz", lambda name: bool(_OF_PACKAGES.fullmatch(name)), read)
    if _is_compressed(path):
        raise UsageError(f"{path}: is compressed; name its folder, or expand it first: gunzip {path}")
    return _read(_only_model(path) if path.is_dir() else path)


def _read(file: Path) -> Imported:
    arrays, is_rounded = (read_archive(file), False) if file.suffix == ".npz" else read_arrays(file)
    description = arrays.get(CONFIG)
    if not isinstance(description, bytes):
        raise damaged(file, f"has no {CONFIG}")
    settings = parse_yaml(description.rstrip(b"\0"), file)
    require_settings(settings, _KNOWN, file, "it changes what a model computes")
    vocabularies, files = read_vocabularies(file, is_shared=_is_shared(settings))
    tensors = Tensors({name: array for name, array in arrays.items() if not isinstance(array, bytes)}, file)
    tensors.drop(*(name for name in arrays if name.endswith(FACTOR)))
    model = _model(settings, file)
    weights = _embeddings(tensors, settings, vocabularies.orders, model["d_model"])
    weights |= _layers(tensors, model)
    tensors.drop("decoder_c_tt", "encoder_c_tt")
    tensors.require_empty()
    lists, is_shared = find_shortlists(file.parent), files[0] == files[1]
    names = vocabularies.tokenizers[0].names, vocabularies.tokenizers[1].names
    return Imported(
        file,
        config_of(file, vocabularies, weights, model, _languages(file), _search(file)),
        weights,
        *vocabularies.tokenizers,
        packages=["pymarian"],
        load=lambda: RealMarian(file, names, files, arrays if is_rounded else None),
        notices=["its weights are rounded to integers, and are kept so; they are proved as floats"]
        if is_rounded
        else [],
        is_rounded=is_rounded,
        shortlist=(lambda: read_shortlist(lists, vocabularies.orders, is_shared=is_shared))
        if lists
        else None,
    )


def _is_shared(settings: Mapping[str, Any]) -> bool:
    """Whether one matrix has the embeddings of both sides, which then have one vocabulary."""
    return settings.get("tied-embeddings-all") == "true"


def _only_model(folder: Path) -> Path:
    found = _models_in(folder)
    if not found:
        raise ModelError(f"{folder}: none of its files of weights is a model of Marian; take another copy")
    if len(found) > 1:
        raise ModelError(
            f"{folder}: has several models ({found[0].name}, {found[1].name}..); name one of them"
        )
    return found[0]


def _models_in(folder: Path) -> list[Path]:
    return [each for each in sorted(folder.iterdir()) if _is_model(each)]


def _is_compressed(path: Path) -> bool:
    return path.suffix == GZIP and path.stem.endswith((".bin", ".npz"))


def _is_model(path: Path) -> bool:
    if path.suffix == ".npz":
        return not path.name.endswith(_OTHER_FILES)
    return path.suffix == ".bin" and not path.is_dir() and is_binary(path)


def _embeddings(
    tensors: Tensors, settings: Mapping[str, Any], orders: tuple[Order, Order], width: int
) -> Weights:
    sizes = [order.num_foreign for order in orders]
    if _is_shared(settings):
        source = target = output = tensors.take("Wemb", sizes[0], width)
    else:
        source = tensors.take("encoder_Wemb", sizes[0], width)
        target = output = tensors.take("decoder_Wemb", sizes[1], width)
        if settings.get("tied-embeddings") != "true":
            output = (
                tensors.take("decoder_ff_logit_out_Wt", sizes[1], width)
                if "decoder_ff_logit_out_Wt" in tensors
                else tensors.take("decoder_ff_logit_out_W", width, sizes[1]).T
            )
    bias = (
        np.zeros(sizes[1], np.float32)
        if settings.get("output-omit-bias") == "true"
        else tensors.take("decoder_ff_logit_out_b", 1, sizes[1])[0]
    )
    return embedding_weights(orders, source, target, output, bias)


def _model(settings: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The settings of `ModelConfig`; raises ModelError if one is missing or not supported."""
    for name, wanted in _CODES.items():
        if (found := settings.get(f"transformer-{name}", wanted)) != wanted:
            raise ModelError(
                f"{path}: transformer-{name} = {found!r} is not supported; only normalisation after each "
                "sum is, as Marian's other kind normalises queries without their keys and values"
            )
    inner = _size(settings, "transformer-dim-ffn", path)
    other = settings.get("transformer-decoder-dim-ffn", "0")
    if other not in ("0", str(inner)):
        raise ModelError(f"{path}: transformer-decoder-dim-ffn = {other!r} differs from the encoder's")
    is_recurrent = settings.get("transformer-decoder-autoreg") == "rnn"
    if is_recurrent and settings.get("dec-cell") != "ssru":
        raise ModelError(f"{path}: dec-cell = {settings.get('dec-cell')!r} is not supported; only ssru is")
    return {
        "d_model": _size(settings, "dim-emb", path),
        "d_ff": inner,
        "num_heads": _size(settings, "transformer-heads", path),
        "num_layers": _size(settings, "enc-depth", path),
        "num_decoder_layers": _size(settings, "dec-depth", path),
        "activation": str(settings.get("transformer-ffn-activation", "swish")),
        "autoregression": "ssru" if is_recurrent else "attention",
        **{"decoder_start": "zeros", "positions": "concatenated", "layer_norm_epsilon": 1e-6},
    }


def _size(settings: Mapping[str, Any], name: str, path: Path) -> int:
    size = whole_number(value := settings.get(name))
    if size is None or not 0 < size <= 1_000_000:
        raise damaged(path, f"{name} = {value!r} is no size")
    return size


LAYER = {
    "self_attention.query_key_value": ["self_{}q", "self_{}k", "self_{}v"],
    "self_attention.output": ["self_{}o"],
    "after_self_attention.norm": ["self_Wo"],
    "cross_attention.query": ["context_{}q"],
    "cross_attention.key_value": ["context_{}k", "context_{}v"],
    "cross_attention.output": ["context_{}o"],
    "after_cross_attention.norm": ["context_Wo"],
    "feed_forward.inner": ["ffn_{}1"],
    "feed_forward.outer": ["ffn_{}2"],
    "after_feed_forward.norm": ["ffn_ffn"],
}
"""Our part of a layer -> Marian's, with a gap for the `W` of a weight or the `b` of a bias."""
RECURRENT = {
    "self_attention.candidate": ["rnn_{}"],
    "self_attention.forget": ["rnn_{}f"],
    "after_self_attention.norm": ["rnn_ffn"],
}
"""The parts that a decoder with recurrent units has in place of self-attention."""


def names_of_decoder(autoregression: str) -> Mapping[str, Sequence[str]]:
    """The parts of a layer of a decoder, as `LAYER`."""
    if autoregression != "ssru":
        return LAYER
    return RECURRENT | {ours: theirs for ours, theirs in LAYER.items() if "self_attention" not in ours}


def _layers(tensors: Tensors, model: Mapping[str, Any]) -> Weights:
    """The weights of all layers; Marian's linear maps multiply from the other side."""
    width, sizes = model["d_model"], (model["d_model"], model["d_ff"])

    def take(stack: str, layer: int, name: str, outputs: int, *inputs: int) -> Pair:
        prefix = f"{stack}_l{layer + 1}_"
        if not inputs:
            scale, bias = (
                tensors.take(f"{prefix}{name}_ln_{part}", 1, width)[0] for part in ("scale", "bias")
            )
            return scale, bias
        weight = tensors.take(prefix + name.format("W"), *inputs, outputs).T
        has_bias = name != RECURRENT["self_attention.candidate"][0]
        return weight, tensors.take(prefix + name.format("b"), 1, outputs)[0] if has_bias else None

    of_decoder = names_of_decoder(model["autoregression"])
    return {
        **layer_weights((model["num_layers"], 0), sizes, LAYER, take),
        **layer_weights((0, model["num_decoder_layers"]), sizes, of_decoder, take),
    }


def _languages(model: Path) -> dict[str, str]:
    """The settings of `DataConfig` that Firefox's `metadata.json` or the name of its weights gives."""
    path, named = model.parent / "metadata.json", _OF_FIREFOX.fullmatch(model.name)
    told = json_object(path) if path.exists() else {}
    codes = [told.get(f"{side}Language") or (named and named[side]) for side in ("source", "target")]
    return language_settings(*codes)


def _search(model: Path) -> dict[str, Any]:
    """The settings of `SearchConfig` that a file beside the model gives, as far as our search has them.

    Bergamot, whose files have names of their own, searches with a beam of 1.
    """
    default: dict[str, Any] = {"length_normalization": "average"}
    if _ROUNDED in model.name:
        default["beam_size"] = 1
    paths = (model.parent / pattern.format(model=model.name) for pattern in DECODER_SETTINGS)
    if (path := next(filter(Path.exists, paths), None)) is None:
        return default
    found, numbers = read_yaml(path), dict[str, float]()
    for name in ("beam-size", "normalize"):
        if name not in found:
            continue
        try:
            numbers[name] = float(found[name])
        except (TypeError, ValueError):
            numbers[name] = math.nan
        if not math.isfinite(numbers[name]):
            raise damaged(path, f"{name} = {found[name]!r} is no number")
    beam_size = numbers.get("beam-size")
    return default | search_settings(
        numbers.get("normalize"), beam_size=None if beam_size is None else int(beam_size)
    )


_BEAM_SIZE = 4
_LINE = re.compile(r"(\d+) \|\|\| (.*?) \|\|\| WordScores= ?(.*?) \|\|\| ")


class RealMarian:
    """The model in Marian on one thread; an `Original`.

    Marian does not score given pieces, so the hypotheses that it writes itself are compared. It reads
    `arrays`, if given, in place of those of the file.
    """

    def __init__(
        self,
        model: Path,
        names: tuple[Sequence[str], Sequence[str]],
        files: tuple[Path, Path],
        arrays: Mapping[str, Array | bytes] | None = None,
    ) -> None:
        self._model, self._files = model, files
        if arrays is not None:
            folder = tempfile.mkdtemp()
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            self._model = Path(folder, "model.npz")
            write_archive(self._model, arrays)
        self._source, self._target = names
        self._ids = {name: token for token, name in enumerate(self._target)}

    def encode(self, text: str) -> None:
        """Not available: the folder's tokenisers are not Marian's own."""

    def scored(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[Scored]:
        """Hypotheses of a beam search, with the log-probability of each token, the end symbol's last.

        One that was cut off has no end symbol.
        """
        return [
            Scored(sources[number], ids, log_probs)
            for number, ids, log_probs in self._written(sources, _BEAM_SIZE)
        ]

    def greedy(self, sources: Sequence[Ids], most: int) -> list[list[int]]:
        """The most probable token again and again, at most `most`, without the end symbol."""
        return [ids[:most] for _, ids, _ in self._written(sources, 1)]

    def _written(self, sources: Sequence[Ids], beam_size: int) -> list[tuple[int, list[int], list[float]]]:
        """Number of the source, ids and log-probabilities of each hypothesis."""
        from pymarian import Translator

        options: dict[str, Any] = {
            **{"n-best": True, "word-scores": True, "no-spm-encode": True, "no-spm-decode": True},
            **{"beam-size": beam_size, "cpu-threads": 1, "workspace": 256, "mini-batch": 1},
            **{"quiet": True, "quiet-translation": True, "max-length": 200, "max-length-factor": 10},
            **{"allow-unk": True, "allow-special": True},  # as our search does
        }
        texts = [" ".join(self._source[token] for token in ids) for ids in sources]
        found = Translator(models=[str(self._model)], vocabs=[*map(str, self._files)], **options).translate(
            texts
        )
        written = []
        for line in (part for text in found for part in text.split("\n") if part):
            match = _LINE.match(line)
            if match is None:
                raise ModelError(f"{self._model}: Marian answers in an unknown form: {line[:60]!r}")
            ids = [self._ids[piece] for piece in match[2].split()]
            written.append((int(match[1]), ids, [float(number) for number in match[3].split()]))
        return written
