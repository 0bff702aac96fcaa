"""`allyouneed serve`: answers requests for translations over HTTP."""

import contextlib
import signal
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar, get_args

from cyclopts import Parameter

from allyouneed.cli.option_sources import SERVE_SOURCES
from allyouneed.cli.shared_options import AtLeastOne, Device, Port, Positive, Threads, device_kind
from allyouneed.config.run import DecodingPrecision
from allyouneed.errors import UsageError

if TYPE_CHECKING:
    from allyouneed.serve.access import ServerSettings
    from allyouneed.serve.models import ModelSource

Choice = TypeVar("Choice")


@Parameter(name="*")
@dataclass(frozen=True)
class Directions:
    """The languages that are served."""

    direction: list[str] | None = None
    """Languages of a translation model, en-de=MODEL or en-pt_BR=MODEL; may be repeated."""
    languages: Annotated[tuple[str, ...], Parameter(consume_multiple=True, show_default=False)] = ()
    """Languages to offer of a model that translates between any two (M2M-100, NLLB), such as `en de fr`; by
    default all, which makes long lists."""


@Parameter(name="*")
@dataclass(frozen=True)
class Access:
    """Who may connect."""

    host: str = "127.0.0.1"
    """Address to listen on. Others than loopback's need --token-file or --insecure."""
    port: Port = 8000
    """Port to listen on; 0 chooses a free one."""
    token_file: Path | None = None
    """File with the token that clients must send; only its owner may read it."""
    insecure: bool = False
    """Listen on any address without a token."""
    allowed_hosts: Annotated[tuple[str, ...], Parameter(name="--allowed-host")] = ()
    """Name that clients use for this server, for example that of a proxy; may be repeated."""
    allowed_origins: Annotated[tuple[str, ...], Parameter(name="--allowed-origin")] = ()
    """Origin of a web site whose pages may use this server, such as https://example.org; may be repeated."""
    trusted_proxies: Annotated[tuple[str, ...], Parameter(name="--trusted-proxy")] = ()
    """Address or network of a proxy whose X-Forwarded-For names the client, and that no client has; may be
    repeated."""


@Parameter(name="*")
@dataclass(frozen=True)
class Limits:
    """How much clients may ask for."""

    most_characters: Annotated[AtLeastOne, Parameter(name="--max-characters")] = 5_000
    """Maximum characters of a text."""
    most_wait_seconds: Annotated[Positive, Parameter(name="--max-wait")] = 1.0
    """Estimated seconds of waiting from which on requests are refused (429), unless a worker is idle."""
    requests_per_second: Annotated[Positive, Parameter(name="--max-rate")] = 50.0
    """Maximum requests per second from one other machine."""
    request_seconds: Annotated[Positive, Parameter(name="--request-timeout")] = 30.0
    """Maximum seconds for a request."""
    drain_seconds: Annotated[Positive, Parameter(name="--drain-timeout")] = 30.0
    """Maximum seconds for requests in progress when the server is told to stop."""


@Parameter(name="*")
@dataclass(frozen=True)
class KeptTexts:
    """Spans and terms whose translations are given, and files."""

    keep: bool = False
    """Leave placeholders, addresses, code, hashtags, amounts with units and emoji as they are."""
    glossaries: Path | None = None
    """Folder for the glossaries that clients of DeepL's protocol store, up to 1,000; made if it is not there.
    Without it, none can be stored."""
    files: bool = False
    """Translate files, such as docx and po, up to 16 MiB: of LibreTranslate's and DeepL's clients, and of the
    page."""


@Parameter(name="*")
@dataclass(frozen=True)
class ServeComputing:
    """How the models compute."""

    precision: tuple[str, ...] = ()
    """Precision of matrix products: float32, bfloat16 or int8; MODEL=PRECISION for one model, named by the
    last part of its path; may be repeated. By default int8 where it is fast, else float32."""
    beam_size: tuple[str, ...] = ()
    """Beam size of requests that name none; MODEL=SIZE for one model; may be repeated. By default each
    model's own."""
    workers: Threads | None = None
    """Number of decoding threads; by default one per core."""
    batch_tokens: AtLeastOne | None = None
    """Maximum source tokens per batch, times the beam size; limits memory. By default 8,192 on a CPU, and on
    an accelerator as many as its memory allows."""
    device: Device = "auto"


@SERVE_SOURCES.named()
def serve(
    models: list[Path] | None = None,
    /,
    *,
    directions: Directions = Directions(),
    access: Access = Access(),
    limits: Limits = Limits(),
    kept: KeptTexts = KeptTexts(),
    computation: ServeComputing = ServeComputing(),
    log_format: Literal["text", "json"] = "text",
    config: Path | None = None,
) -> None:
    """Serve models over HTTP: a page, a JSON API, and the protocols of other translation servers.

    ```
    allyouneed serve runs/first
    allyouneed serve models/en-de models/de-en models/parser --port 8080
    allyouneed serve --direction en-de=runs/first --direction de-fr=runs/second
    allyouneed serve models/en-de --host 0.0.0.0 --token-file token.txt --allowed-host translate.example.org
    allyouneed serve models/en-de models/de-en --beam-size 4 --beam-size de-en=1 --precision de-en=float32
    allyouneed serve models/en-de --keep --glossaries /var/lib/glossaries --files
    ALLYOUNEED_SERVE_PORT=8080 allyouneed serve models/en-de
    ```

    Open http://127.0.0.1:8000 in a browser. Clients of LibreTranslate, DeepL (version 2), OpenAI (chat) and
    Marian's web socket work with this server's address. Where no model translates a direction, two are used
    one after the other. A model that is replaced on disk is loaded again without a pause.

    Every option but --quiet and --debug may also be an environment variable, such as
    ALLYOUNEED_SERVE_MAX_WAIT=2.5, or a key such as max-wait = 2.5 of a TOML file (--config serve.toml). The
    command line goes before variables, these before the file.

    Args:
        models: Runs, checkpoints in them, or model folders, of translation models and parsers.
        directions: The languages that are served.
        access: Who may connect.
        limits: How much clients may ask for.
        kept: Spans and terms whose translations are given.
        computation: How the models compute.
        log_format: Format of the log on standard error: text or json.
        config: TOML file of options.
    """
    from allyouneed.hardware.allocator import give_back_freed_memory

    with _installed():
        from allyouneed.serve.access import require_safe_address
        from allyouneed.serve.models import load_models
    sources = _sources(models or [], directions, computation)
    require_safe_address(settings := _settings(access, limits, kept), insecure=access.insecure)
    device = device_kind(computation.device)
    give_back_freed_memory()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until there is a server that reads things again
    with ThreadPoolExecutor(1, "loading") as thread:
        loading = thread.submit(load_models, sources, device)
        with _installed():
            from allyouneed.serve.process import DecodingThreads, run  # the web framework takes a while, too

        loaded = loading.result()
    threads = DecodingThreads(computation.workers, computation.batch_tokens, device)
    run(loaded, threads, settings, log_format)


@contextlib.contextmanager
def _installed() -> Iterator[None]:
    """Report a package that the imports of the block lack."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise UsageError(
            f"serve needs {error.name}; install it with: pip install 'allyouneed[serve]'"
        ) from None


def _sources(
    models: Sequence[Path], directions: Directions, computation: ServeComputing
) -> "list[ModelSource]":
    from allyouneed.serve.models import ModelSource, direction_of, with_settings
    from allyouneed.serve.request_options import MOST_BEAMS

    given = [*map(ModelSource, models), *map(direction_of, directions.direction or [])]
    if not given:
        raise UsageError("no model is named; name a run or a model folder: allyouneed serve runs/first")
    precisions = {each: each for each in get_args(DecodingPrecision)}
    beam_sizes = {str(each): each for each in range(1, MOST_BEAMS + 1)}
    return with_settings(
        [replace(each, languages=directions.languages) for each in given],
        precision=_by_model("--precision", computation.precision, precisions),
        beam_size=_by_model("--beam-size", computation.beam_size, beam_sizes),
    )


def _by_model(option: str, given: Sequence[str], choices: Mapping[str, Choice]) -> dict[str, Choice]:
    """The values of an option by the names of models; that of "" is for all others."""
    found = {}
    for each in given:
        name, _, value = each.rpartition("=")
        if value not in choices:
            known = ", ".join(choices)
            raise UsageError(f"{option} {each}: choose from {known}; MODEL=VALUE is for one model")
        found[name] = choices[value]
    return found


def _settings(access: Access, limits: Limits, kept: KeptTexts) -> "ServerSettings":
    from allyouneed.serve.access import Proxies, ServerSettings, read_token

    try:
        Proxies(access.trusted_proxies)
    except ValueError as error:
        raise UsageError(
            f"--trusted-proxy: {error}; name an address, or a network such as 172.30.0.0/24"
        ) from None
    given = vars(access) | vars(limits) | vars(kept)
    del given["insecure"]
    token = None if access.token_file is None else read_token(access.token_file)
    return ServerSettings(**given, token=token)
