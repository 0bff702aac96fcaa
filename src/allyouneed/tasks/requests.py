"""Requests to a model, with search settings, and their answers; each has the id of its request."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, Literal, NamedTuple, TypeVar

from numpy.typing import NDArray

from allyouneed.config.run import SearchConfig, SearchSettings
from allyouneed.config.settings import Batch, Config, Workers, require_counts
from allyouneed.data.vectors import Vectors
from allyouneed.errors import DataError, UsageError

OF_BLOCKS: Final = "block_size", "accept_top", "accept_distance", "min_block"
"""Settings that act in blockwise decoding only."""
_IDLE = {True: ("beam_size",), False: ("temperature", "top_k", "top_p", "seed")}
"""Whether outputs are sampled -> settings that then have no effect."""


def combined_search(given: Mapping[str, Any], own: SearchConfig) -> SearchConfig:
    """Combine the given search settings of a call, without None, with those of the model.

    Raises:
        UsageError: A setting is unknown, out of range, or has no effect beside the others.
    """
    search = SearchConfig.checked(**{**own.model_dump(), **given})
    if given.get("sampling") is False and "mbr" not in given:  # of a model that samples by itself
        search = search.replace(mbr=None)
    if search.blockwise and given.get("beam_size", 1) != 1:
        raise UsageError(
            "beam_size: blockwise decoding is greedy search; leave out one",
            settings=["beam_size", "blockwise"],
        )
    if not search.blockwise and (idle := [name for name in OF_BLOCKS if name in given]):
        raise UsageError(f"{', '.join(idle)}: add blockwise, or leave it out", settings=[*idle, "blockwise"])
    if search.mbr is not None:
        search = search.replace(sampling=True)
    if idle := [name for name in _IDLE[search.sampling] if name in given]:
        reason = (
            "this is for search only; leave out sampling or mbr"
            if search.sampling
            else "this is for samples only; add sampling, or mbr N"
        )
        raise UsageError(f"{', '.join(idle)}: {reason}", settings=[*idle, "sampling", "mbr"])
    return search


Result = TypeVar("Result")
Request = TypeVar("Request", "TranslationRequest", "ParseRequest", "TranscribeRequest", "ScoreRequest")
Result_co = TypeVar("Result_co", covariant=True)

Id = int | str
"""Names a request among others; only the caller reads it."""

TextOrWords = str | Sequence[str]
"""Text, which is split into words as the Penn Treebank does, or the words, where `-LRB-` is a bracket too."""


def _require_text(request: object, *texts: object) -> None:
    for text in texts:
        if not isinstance(text, str):
            found = type(text).__name__
            raise TypeError(f"text {request}: is of type {found} ({str(text)[:40]}); give a str")


class RequiredTerm(NamedTuple):
    """A part of a text whose translation is given."""

    source: str
    """The part, as the text has it."""
    forms: tuple[str, ...]
    """Its translations, of which the whole has one, as whole words."""
    before: str | None = None
    """Beginning of the translation, of whole words, behind which the term stands; None if that is open."""


@dataclass(frozen=True)
class TranslationRequest:
    """A text to be translated."""

    id: Id
    text: str
    prefix: str = ""
    """Whole words with which the translation begins; that of the first part, where a text is split."""
    to: str = ""
    """Code of the language to write, for a model of several; by default that of the translator."""
    source: str = ""
    """Code of the language of the text, for a model that must be told it; by default the translator's."""
    required: tuple[RequiredTerm, ...] = ()
    """Terms that the translation must have, which takes a beam of more than the terms."""

    def __post_init__(self) -> None:
        _require_text(self.id, self.text, self.prefix, self.to, self.source)


@dataclass(frozen=True)
class ParseRequest:
    """A sentence to be parsed."""

    id: Id
    sentence: TextOrWords

    def __post_init__(self) -> None:
        is_words = isinstance(self.sentence, Collection) and not isinstance(self.sentence, str | bytes)
        _require_text(self.id, *(self.sentence if is_words else [self.sentence]))


Frames = str | Path | NDArray[Any] | Vectors
"""A `.npy` or `.wav` file, an array (frames, features), or frames of prepared data."""


@dataclass(frozen=True)
class TranscribeRequest:
    """Frames to be transcribed."""

    id: Id
    frames: Frames


@dataclass(frozen=True)
class ScoreRequest:
    """A source and a translation of it, to be scored."""

    id: Id
    source: str
    target: str

    def __post_init__(self) -> None:
        _require_text(self.id, self.source, self.target)


@dataclass(frozen=True)
class Answer(Generic[Result_co]):
    """The answer to a request."""

    id: Id
    result: Result_co
    """A list of `Translation`, best first; a `Parse`; a `Translation` of frames; or a `PairScore`."""
    notices: tuple[str, ...] = ()
    """Messages for the user, such as that a text was split because it is too long."""


@dataclass(frozen=True)
class Failure:
    """The error of a request. A failure among requests is passed on."""

    id: Id
    error: DataError


def encoded_or_failure(encode: Callable[[Request], Result], request: Request | Failure) -> Result | Failure:
    """The request, encoded, or the failure to do so; failures are passed on."""
    if isinstance(request, Failure):
        return request
    try:
        return encode(request)
    except DataError as error:
        return Failure(request.id, error)


def results(answers: Iterable[Answer[Result] | Failure], instead: Result) -> Iterator[Result]:
    """The result of each answer, and `instead` of each failure."""
    return (instead if isinstance(answer, Failure) else answer.result for answer in answers)


def require_one_each(name: str, ones: Sized, of_others: str, others: Sized) -> None:
    """Raise DataError if the numbers differ."""
    if len(ones) != len(others):
        raise DataError(f"{len(ones)} {name} but {len(others)} {of_others}; give one for each")


def require_all(given: Iterable[Result | Failure], name: str) -> Iterator[Result]:
    """All results; the first failure is raised as a DataError that begins with `name` and its id."""
    for each in given:
        if isinstance(each, Failure):
            raise DataError(f"{name} {each.id}: {each.error.messages[0]}", label=each.error.label)
        yield each


class TranslateConfig(Config):
    """How texts are divided, and how much is computed at a time."""

    batch_tokens: Batch | None = None
    """Maximum tokens of a batch, including padding, times the beam size or number of samples; bounds memory.
    By default 8,192 on a CPU, and on an accelerator as many as its memory allows."""
    batch_size: Batch | None = None
    """Maximum sentences of a batch; by default unlimited."""
    workers: Workers | None = None
    """Number of batches computed at the same time; by default one per core."""
    split_sentences: bool = False
    """Whether to translate each sentence of a text separately. The n-th best translation of a text joins the
    n-th best of its sentences."""
    too_long: Literal["split", "error"] = "split"
    """Treatment of a text that is too long for the model: split it, at the ends of sentences, else at white
    space, else between tokens, or report an error. Texts with more tokens than `data.max_tokens` are
    split, too, but only at the ends of sentences."""


class TranslateOptions(SearchSettings, total=False):
    """Settings of `TranslateConfig` and `SearchConfig` as keyword arguments."""

    batch_tokens: int | None
    batch_size: int | None
    workers: int | None
    split_sentences: bool
    too_long: Literal["split", "error"]


def configured(options: Mapping[str, Any], own: SearchConfig) -> tuple[TranslateConfig, SearchConfig]:
    """Combine the `TranslateOptions` of a call with the search settings of the model.

    Raises:
        UsageError: A setting is unknown, out of range, or has no effect beside the others.
    """
    beside = {name: value for name, value in options.items() if name in TranslateConfig.model_fields}
    given = {name: v for name, v in options.items() if name not in beside and v is not None}
    search = combined_search(given, own)
    return TranslateConfig.checked(**beside), search


def check_n_best(n_best: int, mbr: int | None) -> None:
    """Raise UsageError if `n_best` is out of range, or more than the number of samples."""
    require_counts(n_best=n_best)
    if mbr is not None and n_best > mbr:
        raise UsageError(
            f"n_best {n_best}: mbr draws only {mbr} samples; raise mbr", settings=["n_best", "mbr"]
        )
