"""Maps functions over the processes of a Ray cluster, in order, whatever process dies."""

import hashlib
import logging
import os
import platform
import shutil
import signal
import socket
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self, TypeVar

from allyouneed.config.environment import is_ours
from allyouneed.errors import DiskError, InternalError, ResourceError, UsageError, UserError, is_out_of_memory
from allyouneed.storage.publish import disk_errors
from allyouneed.version import __version__

_ADDRESS = "RAY_ADDRESS"
_DEATHS = 10
"""Number of processes that may die over the same item."""
_WAITING = 3
"""Items on their way, for each that is computed, so that a slow one holds up nobody."""
_SECONDS_TO_CONNECT = 10
_MOST_WAITING = 1_500
"""Items on their way at most, so that their memory is bounded; more cores than one command can feed."""
_ASKED_EVERY = 100  # items, for the size of the cluster, which may grow

Item = TypeVar("Item")
Result = TypeVar("Result")


class Cluster:
    """A Ray cluster, as a context: the one that `RAY_ADDRESS` names, or one of this machine alone.

    `num_cpus` is the number of cores of this machine that are used, by default all; not with `RAY_ADDRESS`.
    Raises UsageError if Ray is not installed, or there is no cluster at `RAY_ADDRESS`.
    """

    def __init__(self, num_cpus: int | None = None) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # which Ray would send away
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        try:
            import ray
        except ImportError:
            raise UsageError("the engine ray needs Ray: pip install 'allyouneed[ray]'") from None
        self._ray: Any = ray
        self._address, self._num_cpus = os.environ.get(_ADDRESS), num_cpus
        self._handler: Any = None  # the one of SIGTERM before
        self._had_messages = True
        self._stop: SystemExit | None = None
        if num_cpus == 0:
            raise UsageError("workers 0: the engine ray needs a core; leave it out", settings=["workers"])
        if self._address and num_cpus is not None:
            raise UsageError(
                f"workers: the cluster of {_ADDRESS} has its own number; leave it out", settings=["workers"]
            )

    def __enter__(self) -> Self:
        options: dict[str, Any] = {"address": self._address}
        if self._address:
            _require_reachable(self._address)
        else:  # a new one, which nobody else can reach
            options = {
                **{"address": "local", "num_cpus": self._num_cpus, "include_dashboard": False},
                "_node_ip_address": "127.0.0.1",
            }
        self._handler = signal.getsignal(signal.SIGTERM)
        # Ray would write its messages about processes that die to stdout, into what is translated.
        messages = self._ray._private.worker
        self._had_messages = getattr(messages, "_worker_logs_enabled", True)
        messages._worker_logs_enabled = False
        try:
            self._ray.init(**options, log_to_driver=False, logging_level=logging.ERROR)
        except (RuntimeError, ValueError, OSError) as error:
            place, remedy = "Ray", ""
            if self._address:
                place = f"{_ADDRESS}={self._address}"
                remedy = "; if it wants a token, set RAY_AUTH_MODE=token"
            raise UsageError(f"{place}: no cluster could be used: {_first_line(error)}{remedy}") from error
        finally:  # Ray has put its own there
            self._handle_sigterm(self._handler)
        if callable(self._handler):
            self._handle_sigterm(self._note_stop)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._ray.shutdown()
        finally:
            self._ray._private.worker._worker_logs_enabled = self._had_messages
            self._handle_sigterm(self._handler)
        if self._stop and error is not self._stop:
            raise self._stop from None

    def _handle_sigterm(self, handler: Any) -> None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)

    def _note_stop(self, number: int, frame: FrameType | None) -> None:
        """Call the program's handler, and keep its `SystemExit`: Ray's calls make another one of it."""
        try:
            self._handler(number, frame)
        except SystemExit as stop:
            self._stop = stop
            raise

    @property
    def has_gpus(self) -> bool:
        """Whether a machine has a GPU."""
        return bool(self._ray.cluster_resources().get("GPU"))

    def map(
        self,
        function: Callable[[Item], Result],
        items: Iterable[Item],
        *,
        num_cpus: int = 1,
        num_gpus: int = 0,
    ) -> Generator[Result, None, None]:
        """The results of a function for items, in their order. It is called again if its process dies.

        Args:
            function: A function of a module that all machines have, or a `functools.partial` of one; what it
                keeps in its module stays for the next call. It should depend on nothing but its argument.
            items: Read ahead: three for each that is computed.
            num_cpus: Number of cores that a call takes.
            num_gpus: Number of GPUs that a call takes.

        Raises:
            UsageError: No machine has so many cores or GPUs.
            ResourceError: Processes die again and again over the same item.
            UserError: The function raises it.
        """
        ray = self._ray
        self._require_room(num_cpus, num_gpus)
        options = {"num_cpus": num_cpus, "num_gpus": num_gpus, "max_retries": _DEATHS}
        task = ray.remote(**options)(_called)
        sent = ray.put(function)
        waiting: deque[Any] = deque()
        room = 0
        try:
            for number, item in enumerate(items):
                if number % _ASKED_EVERY == 0:
                    found, needs = ray.cluster_resources(), {"CPU": num_cpus, "GPU": num_gpus}
                    at_once = min(found.get(name, 0) // need for name, need in needs.items() if need)
                    room = min(_MOST_WAITING, _WAITING * max(1, int(at_once)))
                while len(waiting) >= room or (waiting and ray.wait([waiting[0]], timeout=0)[0]):
                    yield self._result(waiting.popleft())
                waiting.append(task.remote(__version__, sent, item))
            while waiting:
                yield self._result(waiting.popleft())
        finally:
            if ray.is_initialized():  # else the cluster has ended, and everything with it
                for reference in waiting:
                    ray.cancel(reference, force=True)

    def bundle(self, directory: Path) -> "Bundle":
        """Send the files of a directory, without those of its folders, to the cluster."""
        with disk_errors(directory):
            paths = sorted(path for path in directory.iterdir() if path.is_file())
            contents = {path.name: path.read_bytes() for path in paths}
        sizes = tuple((name, len(content)) for name, content in contents.items())
        digest = hashlib.sha256()
        for name, content in contents.items():
            digest.update(f"{name}\n{hashlib.sha256(content).hexdigest()}\n".encode())
        return Bundle(digest.hexdigest()[:32], sizes, (self._ray.put(contents),))

    def _require_room(self, num_cpus: int, num_gpus: int) -> None:
        machines = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        if not any(each.get("CPU", 0) >= num_cpus and each.get("GPU", 0) >= num_gpus for each in machines):
            raise UsageError(
                f"no machine of the cluster has the cores ({num_cpus}) and GPUs ({num_gpus}) that a process "
                "takes; change threads or device, or start it with more",
                settings=["threads", "device"],
            )

    def _result(self, reference: Any) -> Any:
        if self._stop:
            raise self._stop
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            raise self._stop or self._explained(error) from error

    def _explained(self, error: Any) -> UserError:
        if not isinstance(error, self._ray.exceptions.RayTaskError):
            return ResourceError(
                f"the cluster gave up after {_DEATHS} attempts: {_first_line(error)}; look at its memory"
            )
        cause = error.cause
        if isinstance(cause, UserError):
            return cause
        if is_out_of_memory(cause):
            return ResourceError(f"a process of the cluster: {_first_line(cause)}")
        what = f"{type(cause).__name__}: {_first_line(cause)}"
        return InternalError(f"a process of the cluster failed: {what}; please report it")


@dataclass(frozen=True)
class Bundle:
    """Files that calls need, by the digest of their contents; each machine gets them once."""

    digest: str
    sizes: tuple[tuple[str, int], ...]
    """The names of the files, and their sizes in bytes."""
    _references: tuple[Any, ...] = field(compare=False, repr=False)

    def unpacked(self) -> Path:
        """A folder with the files, on the machine of the caller; raises DiskError if it cannot be written."""
        base = Path(tempfile.gettempdir(), f"allyouneed-{os.getuid()}")
        with disk_errors(base):
            base.mkdir(mode=0o700, exist_ok=True)
            if not is_ours(base):
                raise DiskError(f"{base}: others may write to it; remove it")
            place = base / self.digest
            paths = [(place / name, size) for name, size in self.sizes]
            if place.is_dir() and not all(p.is_file() and p.stat().st_size == size for p, size in paths):
                shutil.rmtree(place, ignore_errors=True)  # something has cleaned up
            if not place.is_dir():
                self._unpack(place)
        return place

    def _unpack(self, place: Path) -> None:
        import ray

        aside = Path(tempfile.mkdtemp(dir=place.parent))
        try:
            for name, content in ray.get(self._references[0]).items():
                (aside / name).write_bytes(content)
            aside.rename(place)
        except BaseException as error:
            shutil.rmtree(aside)
            if not (isinstance(error, OSError) and place.is_dir()):  # another process was faster
                raise


def _require_reachable(address: str) -> None:
    """Check that something listens at HOST:PORT; Ray would end this process if not."""
    host, _, port = address.rpartition(":")
    if not port.isdigit() or "://" in address:
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), _SECONDS_TO_CONNECT).close()
    except (OSError, OverflowError) as error:
        raise UsageError(
            f"{_ADDRESS}={address}: no cluster could be used: {_first_line(error)}; "
            "start one there with `ray start`"
        ) from None


def _called(version: str, function: Callable[[Any], Any], item: Any) -> Any:
    """Call a function in a process of the cluster; errors name its machine."""
    if version != __version__:
        raise UsageError(
            f"{platform.node()} has allyouneed {__version__}, this machine {version}; install the same"
        )
    try:
        return function(item)
    except UserError as error:
        raise type(error)(
            [f"{platform.node()}: {message}" for message in error.messages],
            label=error.label,
            settings=error.settings,
        ) from None


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).partition("\n")[0]
