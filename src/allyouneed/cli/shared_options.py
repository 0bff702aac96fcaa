"""Options that several commands share: numbers, device, search, configuration, continuation, engine."""

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, make_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast, get_args

from cyclopts import Parameter
from cyclopts.validators import Number

from allyouneed.config.run import DecodingPrecision, SearchConfig, SearchSettings
from allyouneed.config.settings import MAX_COUNT, MAX_OUTPUTS, MAX_THREADS, descriptions
from allyouneed.errors import UsageError
from allyouneed.language_codes import standard_code

if TYPE_CHECKING:
    import torch

    from allyouneed.config.run import RunConfig
    from allyouneed.hardware.cluster import Cluster


_GREATEST = 1e30


def _whole(_: type, tokens: Sequence[Any]) -> int:
    """Convert digits to a number; a fraction is rejected, not rounded."""
    written = str(tokens[0].value)
    if not re.fullmatch("[+-]?[0-9][0-9_]*", written):
        raise ValueError(f"{written!r} is not a whole number")
    return int(written)


def between(least: int, most: int) -> Parameter:
    """A whole number from `least` to `most`."""
    return Parameter(converter=_whole, validator=Number(gte=least, lte=most))


def _real(rule: str, is_good: Callable[[float], bool]) -> Parameter:
    """A number of which `is_good` is true, as the rule says; never so of nan."""

    def check(_: type, value: float | None) -> None:
        if value is not None and not is_good(value):
            raise ValueError(f"Must be {rule}.")

    return Parameter(validator=check)


SEVERAL = Parameter(consume_multiple=True)
"""An option that takes several values."""

Whole = Annotated[int, Parameter(converter=_whole)]
"""A whole number whose bounds the configuration checks."""
AtLeastOne = Annotated[int, between(1, MAX_COUNT)]
Threads = Annotated[int, between(1, MAX_THREADS)]
"""Number of threads or processes."""
Port = Annotated[int, between(0, 65_535)]
Outputs = Annotated[int, between(1, MAX_OUTPUTS)]
"""Number of outputs per input."""
Positive = Annotated[float, _real(f"> 0 and <= {_GREATEST:g}", lambda value: 0 < value <= _GREATEST)]
Finite = Annotated[
    float, _real(f">= -{_GREATEST:g} and <= {_GREATEST:g}", lambda value: abs(value) <= _GREATEST)
]
Share = Annotated[float, _real(">= 0 and <= 1", lambda value: 0 <= value <= 1)]


Device = Annotated[
    Literal["auto", "cpu", "cuda", "mps", "xpu"],
    Parameter(
        help="Device to compute on: `cuda` (NVIDIA, AMD), `mps` (Apple), `xpu` (Intel) or `cpu`; "
        "`auto` uses the accelerator if there is one."
    ),
]


_PAIR = re.compile(r"([^\W\d_]+(?:_\w+)*)-([^\W\d_]+(?:_\w+)*)")


def language_pair(languages: str | None) -> tuple[str, str] | None:
    """The codes of a source and a target language in one word, such as en-de; None for None."""
    found = _PAIR.fullmatch(languages or "")
    if languages is not None and found is None:
        raise UsageError(f"--languages {languages}: is not of the form SOURCE-TARGET, such as en-de")
    return found and (standard_code(found[1]), standard_code(found[2]))


def torch_device(name: Device) -> "torch.device":
    """The device of that name; raises as `device_kind`."""
    import torch

    return torch.device(device_kind(name))


def device_kind(name: Device) -> str:
    """The kind of device of that name; for `auto`, the fastest available.

    PyTorch is imported only if it has to be asked.

    Raises:
        UsageError: This machine has no such device, or torch cannot use it.
    """
    from allyouneed.hardware.accelerators import may_have_accelerator

    if name == "cpu" or (name == "auto" and not may_have_accelerator()):
        return "cpu"
    import torch

    available = available_devices()
    if name == "auto":
        return available[0]
    if name not in available:
        raise UsageError(
            f"--device {name}: torch {torch.__version__} finds none on this machine, "
            f"only {', '.join(available)}; see `allyouneed doctor`"
        )
    return name


def available_devices() -> list[str]:
    """Kinds of device that torch can use here, fastest first."""
    import torch

    accelerator = torch.accelerator.current_accelerator(check_available=True)
    return ["cpu"] if accelerator is None else [accelerator.type, "cpu"]


_ELSEWHERE = {"alignments", "alignment_layer", "alignment_head"}
"""Settings without an option here: `translate` has a flag for the first; the others belong to models."""


class _SearchOptions:
    """Search settings; by default the model's own."""

    def settings(self) -> SearchSettings:
        given = {name: value for name, value in asdict(cast(Any, self)).items() if value is not None}
        return cast(SearchSettings, given)


def _option(name: str) -> tuple[str, Any, Any]:
    setting = SearchConfig.model_fields[name]
    kind: Any = Whole if int in _kinds(setting.annotation) else setting.annotation
    if name == "mbr":
        kind = Outputs
    return name, Annotated[kind | None, Parameter(help=descriptions(SearchConfig)[name])], field(default=None)


def _kinds(hint: Any) -> Iterator[Any]:
    yield hint
    for part in get_args(hint):
        yield from _kinds(part)


if TYPE_CHECKING:
    SearchOptions = _SearchOptions
else:
    _names = [name for name in SearchConfig.model_fields if name not in _ELSEWHERE]
    SearchOptions = make_dataclass(
        "SearchOptions",
        map(_option, _names),
        bases=(_SearchOptions,),
        frozen=True,
        namespace={
            "__module__": __name__,
            "__doc__": _SearchOptions.__doc__,
        },  # cyclopts ignores those of `types`
    )


@Parameter(name="*")
@dataclass(frozen=True)
class ConfigurationOptions:
    """Sources of a configuration; each overrides the ones before."""

    preset: str | None = None
    """A named configuration: base (the default; for trees parsing_wsj), big, ...; `plan --all` lists them."""
    fidelity: Literal["paper", "released-2017", "released-later"] | None = None
    """Recipe applied to the preset: the paper's (the default), or that of the authors' code."""
    config: Path | None = None
    """A TOML file of settings that override both."""
    for_: Annotated[Literal["marian"] | None, Parameter(name="--for")] = None
    """Form of other software that the model must have: `marian` for Marian, Firefox (Bergamot) and web pages,
    whose decoder starts with zeros, whose sinusoids have another order, and which normalise after the sums;
    short for settings."""
    set_: Annotated[list[str] | None, Parameter(name="--set")] = None
    """Settings as group.key=value that override everything else."""

    def settings(self) -> list[str]:
        """The settings that `for_` is short for, and those of `set_`."""
        from allyouneed.interop.export_limits import FORMS

        form = {} if self.for_ is None else FORMS[self.for_]
        return [*(f"model.{name}={value}" for name, value in form.items()), *(self.set_ or ())]

    def sets(self, name: str) -> bool:
        """Whether `set_` has a setting of this name."""
        return any(each.partition("=")[0].strip() == name for each in self.set_ or ())

    def require_sub_words(self, data: Path) -> None:
        """Raise UsageError if the software of `for_` has other sub-words than the data."""
        from allyouneed.interop.export_limits import SUB_WORDS
        from allyouneed.preparation.prepared_data import PreparedData

        if self.for_ and (found := PreparedData(data).config.tokenizer) != SUB_WORDS:
            raise UsageError(
                f"--for {self.for_}: reads SentencePiece's sub-words, and {data} has {found}; prepare it "
                f"with --tokenizer {SUB_WORDS}"
            )

    def resolve(self, otherwise: "RunConfig") -> "RunConfig":
        """The resulting configuration; `otherwise` replaces the preset if none is named.

        Raises:
            UsageError: A setting is unknown, out of range or not in the form of `for_`, or the task is
                unknown.
        """
        from allyouneed.config.fidelity import with_recipe
        from allyouneed.config.presets import preset
        from allyouneed.interop.export_limits import differences
        from allyouneed.tasks.catalogue import task_named

        chosen = otherwise if self.preset is None else preset(self.preset)
        if self.fidelity is not None:
            chosen = with_recipe(self.fidelity, chosen)
        if self.config is not None:
            chosen = chosen.with_toml(self.config)
        chosen = chosen.with_settings(self.settings())
        task_named(chosen.data.task)
        if self.for_ and (others := differences(self.for_, chosen.model)):
            named = ", ".join(f"model.{name} = {value}" for name, value in others.items())
            raise UsageError(f"--for {self.for_}: its models cannot have {named}; leave that out, or --for")
        return chosen


@Parameter(name="*")
@dataclass(frozen=True)
class ContinuationOptions:
    """A model to continue, and data to replay; each is short for a setting, which the run records."""

    init_from: Path | None = None
    """Model to continue: a run, a checkpoint or a model folder. The run takes over its architecture, weights
    and settings, unless you give other settings. Prepare the data with its sub-words
    (`--tokenizer-from`)."""
    init_moments: bool = False
    """Take Adam's moments from that model, too; it must be one of the two newest checkpoints of a run."""
    replay: Path | None = None
    """Prepared data of which a share is replayed, such as those of the model, so that it forgets less."""
    replay_share: float | None = None
    """Share of the target tokens of every batch that is replayed, such as 0.2."""

    def applied_to(self, config: "RunConfig") -> "RunConfig":
        """The configuration with the given options."""
        given = {name: value for name, value in vars(self).items() if not (value is None or value is False)}
        paths = {name: str(value) for name, value in given.items() if isinstance(value, Path)}
        return config.replace(training=given | paths)


@Parameter(name="*")
@dataclass(frozen=True)
class Computing:
    """Precision, parallelism and device."""

    precision: DecodingPrecision = "float32"
    """Precision of matrix products; on a CPU, int8 needs the C kernels, and bfloat16 is fast only on
    processors that multiply it."""
    workers: Threads | None = None
    """Number of batches computed at the same time; by default as many as the cores allow."""
    threads: Threads = 1
    """Number of threads per worker; more of them speed up a single sentence."""
    device: Device = "auto"

    def for_loading(self) -> dict[str, Any]:
        """The keyword arguments of `load_translator` and `load_parser`."""
        return {"device": device_kind(self.device), "precision": self.precision, "threads": self.threads}


Engine = Annotated[
    Literal["local", "ray"],
    Parameter(
        help="`local`: this machine. `ray`: the cluster at `RAY_ADDRESS` or, without it, a new one on this "
        "machine with `--workers` processes (needs `allyouneed[ray]`). The result is the same."
    ),
]


def workers_of(
    engine: Engine, workers: int | None
) -> "contextlib.AbstractContextManager[int | Cluster | None]":
    """The number of processes of this machine, or a cluster."""
    if engine == "local":
        return contextlib.nullcontext(workers)
    from allyouneed.hardware.cluster import Cluster

    return Cluster(workers)
