"""The parts of all readers of other software's models: checked arrays, and vocabularies in our order."""

import contextlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from allyouneed.config.run import RunConfig, SearchConfig
from allyouneed.data.moses_bpe_tokenizer import Codes, MosesBpeTokenizer
from allyouneed.data.sentencepiece_tokenizer import SentencePieceTokenizer
from allyouneed.data.tokenizer import Tokenizer, require_pieces
from allyouneed.errors import ModelError, UsageError
from allyouneed.inference.vocabulary_shortlist import Shortlist
from allyouneed.interop.foreign_files import MAX_VOCABULARY_BYTES, damaged, require_finite
from allyouneed.interop.parity import Ids
from allyouneed.language_codes import primary_language, standard_code
from allyouneed.native.arrays import of_bfloat16_bits
from allyouneed.storage.publish import read_published
from allyouneed.symbols import CONTROL_SYMBOLS, END, PADDING, SENTINEL, START, UNKNOWN

NEVER = -1_000.0
"""Bias of the logit of a symbol that the other software does not have: e^-1000 is no probability, and unlike
minus infinity it can be trained on."""
_NUM_MAPS = {"self_attention.query_key_value": 3, "cross_attention.key_value": 2}
"""Linear maps of width d_model that are joined as one."""
_CODE = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]+)*")
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")
_LEAST_OF_MERGES = 0.1
"""Share of merges whose results are entries: others are steps towards these, or of the other language."""
BFLOAT16 = np.dtype(np.uint16)
"""The type of arrays that hold the bits of bfloat16, which NumPy does not have."""
_RESOLUTIONS = {**dict.fromkeys(map(np.dtype, ("f8", "f4")), 0.0), np.dtype("f2"): 2**-10, BFLOAT16: 2**-7}
"""Type of floats -> the distance from 1 to the next number; 0 if it has the precision of float32."""

Array = NDArray[Any]
Floats = NDArray[np.float32]
Weights = dict[str, Floats]


class Scored(NamedTuple):
    """A target of a source, and the log-probability of each of its tokens, the end symbol's last."""

    source: Ids
    target: Ids
    log_probs: Sequence[float]


class Original(Protocol):
    """A model in its own software; all ids are ours."""

    def encode(self, text: str) -> list[int] | None:
        """The source ids of a text, without the end symbol; None if the software has no tokeniser."""

    def scored(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> Sequence[Scored]:
        """The targets with log-probabilities; where the software cannot score them, others that it writes."""

    def greedy(self, sources: Sequence[Ids], most: int) -> list[list[int]]:
        """The most probable token again and again, at most `most`, without the end symbol."""


@dataclass(frozen=True)
class Imported:
    """A model that has been read."""

    file: Path
    """File of its weights, or of all of it."""
    config: RunConfig
    weights: Weights
    source: Tokenizer
    target: Tokenizer
    packages: Sequence[str]
    """Python packages of its software, with which it is proved, the best-known first."""
    load: Callable[[], Original]
    """Loads the model in its software, if that is installed."""
    notices: Sequence[str] = ()
    """Remarks for the user, such as that weights have been rounded before."""
    is_rounded: bool = False
    """Whether matrices of a model of Marian have been rounded to integers."""
    shortlist: Callable[[], Shortlist] | None = None
    """Reads its shortlist, if it has one, without tokenisers; raises ModelError if that is damaged."""


def as_float32(array: Array) -> Floats:
    """The values of an array of numbers, or of the bits of bfloat16, rounded to float32."""
    if array.dtype == BFLOAT16:
        return of_bfloat16_bits(array)
    with np.errstate(over="ignore"):  # what is too large becomes infinite
        return array.astype(np.float32, copy=False)


class Tensors:
    """The named arrays of a file, of which each is taken exactly once."""

    def __init__(self, found: Mapping[str, Array], path: Path) -> None:
        self._left, self.path = dict(found), path
        self.is_rounded = any(_RESOLUTIONS.get(array.dtype) for array in self._left.values())
        """Whether some have less precision than float32."""

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def take(self, name: str, *shape: int) -> Floats:
        """An array as float32; raises ModelError if it is missing, misshapen, or not of finite floats."""
        array = self._left.pop(name, None)
        if array is None:
            raise damaged(self.path, f"has no tensor {name}")
        if array.dtype not in _RESOLUTIONS:
            raise damaged(self.path, f"{name} is {array.dtype}, not of floats")
        if array.shape != shape:
            raise ModelError(f"{self.path}: {name} is {array.shape}, {shape} expected")
        values = as_float32(array)
        if not np.isfinite(values).all():
            raise damaged(self.path, f"{name} holds values that are not finite")
        return values

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a matrix; raises ModelError if it is missing, empty, or no matrix."""
        if name not in self._left or self._left[name].ndim != 2 or not self._left[name].size:
            raise damaged(self.path, f"has no matrix {name}")
        return self._left[name].shape

    def resolution(self, name: str) -> float:
        """The distance from 1 to the next number of an array's type, if that has less than float32's."""
        return _RESOLUTIONS.get(self._left[name].dtype, 0.0)

    def numbers(self, prefix: str) -> dict[str, float]:
        """Take all single numbers whose names begin with `prefix` and have no further slash."""
        names = [
            name
            for name, array in self._left.items()
            if name.startswith(prefix) and "/" not in name.removeprefix(prefix) and not array.ndim
        ]
        found = {name: self._left.pop(name) for name in names}
        return {
            name.removeprefix(prefix): require_finite(
                (as_float32(one) if one.dtype == BFLOAT16 else one).item(), name, self.path
            )
            for name, one in found.items()
        }

    def drop(self, *names: str) -> None:
        """Leave these out, if they are there."""
        for name in names:
            self._left.pop(name, None)

    def require_empty(self) -> None:
        """Raise ModelError if there are tensors that have not been taken."""
        if self._left:
            some = ", ".join(sorted(self._left)[:3])
            raise ModelError(
                f"{self.path}: has {len(self._left)} tensors that no known part of the model uses ({some}); "
                "it is of another architecture"
            )


@dataclass(frozen=True)
class Order:
    """A vocabulary of other software in the order of our ids.

    Args:
        foreign: The other software's id for each of ours; None where it has no such symbol.
        pieces: Pieces after the control symbols.
    """

    foreign: Sequence[int | None]
    pieces: Sequence[str]
    _ours: dict[int, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        ours = {theirs: token for token, theirs in enumerate(self.foreign) if theirs is not None}
        object.__setattr__(self, "_ours", ours)

    @classmethod
    def of(
        cls,
        names: Sequence[str],
        *,
        end: int,
        unknown: int,
        padding: int | None,
        start: int | None = None,
        sentinel: int | None = None,
    ) -> "Order":
        """Put the special symbols first, given their foreign ids, which are None if they are no entries."""
        special = {PADDING: padding, START: start, END: end, SENTINEL: sentinel, UNKNOWN: unknown}
        taken = set(special.values())
        others = [number for number in range(len(names)) if number not in taken]
        first = [special.get(token) for token in range(len(CONTROL_SYMBOLS))]
        return cls([*first, *others], [names[number] for number in others])

    @classmethod
    def of_ours(cls, names: Sequence[str]) -> "Order | None":
        """The order of a vocabulary that we have exported, which begins as ours; else None."""
        if tuple(names[: len(CONTROL_SYMBOLS)]) != CONTROL_SYMBOLS:
            return None
        return cls([*range(len(names))], names[len(CONTROL_SYMBOLS) :])

    def with_padding_as_start(self) -> "Order":
        """The same order, but the entry for padding is the start symbol, and there is no padding."""
        padding, _, *others = self.foreign
        return Order([None, padding, *others], self.pieces)

    def __len__(self) -> int:
        return len(self.foreign)

    @property
    def num_foreign(self) -> int:
        """Number of entries of the other software's vocabulary."""
        return 1 + max(self._ours)

    def rows(self, rows: Array, missing: float = 0.0) -> Array:
        """The rows of a matrix or a bias in our order; `missing` for missing symbols."""
        found = rows[[row or 0 for row in self.foreign]]
        found[[row is None for row in self.foreign]] = missing
        return found

    def theirs(self, ids: Iterable[int]) -> list[int]:
        """The other software's ids for ours."""
        found = [self.foreign[token] for token in ids]
        assert None not in found
        return [number for number in found if number is not None]

    def ours(self, ids: Iterable[int], unknown: int | None = None) -> list[int]:
        """Our ids for the other software's, or `unknown` for those that are no entries, if it is given."""
        if unknown is not None:
            return [self._ours.get(number, unknown) for number in ids]
        return [self._ours[number] for number in ids]


class Vocabularies(NamedTuple):
    """The vocabularies of both sides."""

    orders: tuple[Order, Order]
    tokenizers: tuple[Tokenizer, Tokenizer]
    kind: str = "sentencepiece"
    """Value of `DataConfig.tokenizer`."""


Pair = tuple[Floats, Floats | None]
"""Weight and bias of a linear map or a normalisation."""


def layer_weights(
    depths: tuple[int, int],
    sizes: tuple[int, int],
    names: Mapping[str, Sequence[str]],
    take: Callable[..., Pair],
) -> Weights:
    """The weights of all layers by our names.

    Args:
        depths: Number of layers of the encoder and of the decoder.
        sizes: d_model and d_ff.
        names: Our part of a layer -> the other software's, in the order in which they are joined.
        take: Takes a linear map or a normalisation, given stack, layer, name, and the shape of its weight.
    """
    width, inner = sizes
    shapes = {"feed_forward.inner": (inner, width), "feed_forward.outer": (width, inner)}
    found: Weights = {}
    for stack, depth in zip(("encoder", "decoder"), depths, strict=True):
        for number, ours in product(range(depth), parts_of(stack, names)):
            outputs, inputs = shapes.get(ours, (_NUM_MAPS.get(ours, 1) * width, width))
            shape = (width,) if ours.endswith("norm") else (outputs // len(names[ours]), inputs)
            pairs = [take(stack, number, theirs, *shape) for theirs in names[ours]]
            for kind, parts in zip(("weight", "bias"), zip(*pairs, strict=True), strict=True):
                if arrays := [part for part in parts if part is not None]:
                    found[f"{stack}.{number}.{ours}.{kind}"] = np.concatenate(arrays)
    return found


def parts_of(stack: str, names: Mapping[str, Sequence[str]]) -> list[str]:
    """The parts of a layer of this stack, among our names of those of a decoder."""
    return [ours for ours in names if stack == "decoder" or "cross_attention" not in ours]


def embedding_weights(
    orders: tuple[Order, Order], source: Floats, target: Floats, output: Floats, bias: Floats
) -> Weights:
    """The embedding matrices in our order, equal ones once, and the bias of the logits if one is needed."""
    is_tied = target is output or np.array_equal(target, output)
    if (
        is_tied
        and orders[0].foreign == orders[1].foreign
        and (source is target or np.array_equal(source, target))
    ):
        matrices = {"shared": orders[0].rows(source)}
    else:
        matrices = {"source": orders[0].rows(source), "target": orders[1].rows(target)}
        if not is_tied:
            matrices["output"] = orders[1].rows(output)
    found = {f"embeddings.matrices.{name}": matrix for name, matrix in matrices.items()}
    if bias.any() or None in orders[1].foreign:
        found["embeddings.bias"] = orders[1].rows(bias, NEVER)
    return found


def read_sentencepiece(path: Path) -> bytes:
    """The content of a SentencePiece model; raises ModelError if it is missing, or larger than any."""
    return read_published(path, MAX_VOCABULARY_BYTES)


def sentencepiece_of(path: Path, pieces: Sequence[str], model: bytes | None = None) -> SentencePieceTokenizer:
    """The tokeniser of a SentencePiece model, by default the content of the file.

    Raises ModelError if most of its pieces are no entries.

    Bytes are not counted: where no text needs them, converters leave them out of the vocabulary.
    """
    try:
        tokenizer = SentencePieceTokenizer.from_model(model or read_sentencepiece(path), pieces)
    except ValueError as error:
        raise damaged(path, f"cannot be read: {error}") from None
    written = [
        name
        for name in SentencePieceTokenizer.entries_of(tokenizer.model)
        if name not in CONTROL_SYMBOLS and not _BYTE.fullmatch(name)
    ]
    _require_entries(path, written, pieces)
    return tokenizer


def moses_bpe_of(
    path: Path, pieces: Sequence[str], language: str, steps: Iterable[str] = ()
) -> MosesBpeTokenizer:
    """The tokeniser of a file of merges, of subword-nmt or fastBPE, for text in a language, by its code.

    Raises:
        ModelError: The file is damaged, or most of its pieces are no entries.
        UsageError: `sacremoses` is not installed.
    """
    try:
        codes = Codes.read(read_published(path, MAX_VOCABULARY_BYTES))
        require_pieces(pieces)
    except ValueError as error:
        raise damaged(path, f"cannot be read: {error}") from None
    joined = ("".join(merge) for merge in codes.merges)
    written = [each.removesuffix("</w>") if each.endswith("</w>") else f"{each}@@" for each in joined]
    _require_entries(path, [*filter(None, written)], pieces, _LEAST_OF_MERGES)
    language = primary_language(language) or "en"
    return MosesBpeTokenizer(codes, pieces, language, steps)


def _require_entries(path: Path, written: Sequence[str], pieces: Sequence[str], least: float = 0.5) -> None:
    missing = len({*written} - {*pieces})
    if missing > (1 - least) * len(written):
        raise ModelError(
            f"{path}: {missing:,} of its {len(written):,} pieces are no entries of the vocabulary; it "
            "is the tokeniser of another model, put this model's there"
        )


def config_of(
    path: Path,
    vocabularies: Vocabularies,
    weights: Weights,
    model: Mapping[str, Any],
    languages: Mapping[str, str] | None = None,
    search: Mapping[str, Any] | None = None,
) -> RunConfig:
    """The configuration of a model; raises ModelError if no model of ours can have such settings."""
    sizes = [len(order) for order in vocabularies.orders]
    tied = {1: "all", 2: "target", 3: "none"}[sum(".matrices." in name for name in weights)]
    depth, source, target = model["num_decoder_layers"], *vocabularies.tokenizers
    try:
        return RunConfig().replace(
            model={
                **{"source_vocab_size": sizes[0], "target_vocab_size": sizes[1], "tied_embeddings": tied},
                "output_bias": "embeddings.bias" in weights,
                **model,
                "num_decoder_layers": None if depth == model["num_layers"] else depth,
            },
            data={
                **{"tokenizer": vocabularies.kind, "vocab_size": sizes[1]},
                "joint_vocabulary": source == target,
                **(languages or {}),
            },
            search=search or {},
        )
    except UsageError as error:
        raise ModelError([f"{path}: cannot be a model ({message})" for message in error.messages]) from None


def language_settings(source: object, target: object) -> dict[str, str]:
    """The settings of `DataConfig` for the languages of both sides, as far as these are codes."""
    codes = {"source_language": source, "target_language": target}
    return {
        name: standard_code(code)
        for name, code in codes.items()
        if isinstance(code, str) and _CODE.fullmatch(code)
    }


def require_settings(
    found: Mapping[str, Any], known: Mapping[str, tuple[object, ...]], path: Path, reason: str
) -> None:
    """Raise ModelError if a setting has another value than those that are `known` and supported."""
    faults = [
        f"{path}: {name} = {found[name]!r} is not supported ({reason})"
        for name, values in known.items()
        if name in found and found[name] not in values
    ]
    if faults:
        raise ModelError(faults)


DIFFERENCES = {
    "gnmt": "it divides scores by n^alpha for n tokens, where allyouneed has ((5 + n) / 6)^alpha",
    "average": "it divides scores by the number of tokens, like allyouneed",
    "none": "it compares scores as they are, like allyouneed",
}
"""Length normalisation of the model -> how the search of other software compares."""
_EXACT = {0.0: "none", 1.0: "average"}
"""Exponent -> length normalisation, where ours has the same."""


def length_exponent(search: SearchConfig) -> float:
    """The exponent that comes closest to the model's own length normalisation."""
    return {"gnmt": search.length_penalty, "average": 1.0, "none": 0.0}[search.length_normalization]


def search_settings(exponent: float | None = None, **others: float | None) -> dict[str, Any]:
    """The settings of `SearchConfig` that come closest to those of other software.

    Those that are None, or not among the values that ours can have, are left out. Scores are divided by the
    number of tokens to the power of `exponent`.
    """
    given: list[dict[str, Any]] = [{name: value} for name, value in others.items() if value is not None]
    if exponent in _EXACT:
        given.append({"length_normalization": _EXACT[exponent]})
    elif exponent is not None:
        given.append({"length_normalization": "gnmt", "length_penalty": exponent})
    found: dict[str, Any] = {}
    for settings in given:
        with contextlib.suppress(UsageError):
            SearchConfig.checked(**settings)
            found |= settings
    return found
