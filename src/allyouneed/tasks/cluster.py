"""Maps functions over the processes of a Ray cluster, in order, whatever process dies."""

import hashlib
import logging
import os
import shutil
import socket
import tempfile
from collections import deque
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from allyouneed.errors import DiskError, ResourceError, UsageError, UserError
from allyouneed.hardware.user_cache import is_ours
from allyouneed.storage.publish import disk_errors
from allyouneed.version import __version__

_ADDRESS = "RAY_ADDRESS"
_DEATHS = 10
"""Number of processes that may die over the same item."""
_WAITING = 3
"""Items on their way, for each that is computed, so that a slow one holds up nobody."""
_SECONDS_TO_CONNECT = 10
_ASKED_EVERY = 100  # items, for the size of the cluster, which may grow

Item = TypeVar("Item")
Result = TypeVar("Result")


class Cluster:
    """A Ray cluster, as a context: the one that `RAY_ADDRESS` names, or one of this machine alone.

    Args:
        num_cpus: Number of cores of this machine that are used, by default all; not with `RAY_ADDRESS`.

    Raises:
        UsageError: Ray is not installed, or there is no cluster at `RAY_ADDRESS`, or `num_cpus` is given for
            it.
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
        if self._address and num_cpus is not None:
            raise UsageError(
                f"workers: the cluster of {_ADDRESS} has its own number; leave it out", settings=["workers"]
            )

    def __enter__(self) -> Self:
        options: dict[str, Any] = {"include_dashboard": False, "num_cpus": self._num_cpus}
        if self._address:
            _require_reachable(self._address)
            options = {"address": self._address}
        else:
            options["_node_ip_address"] = "127.0.0.1"  # nobody else can reach it
        try:
            self._ray.init(**options, log_to_driver=False, logging_level=logging.ERROR)
        except (RuntimeError, ValueError, OSError) as error:
            place = f"{_ADDRESS}={self._address}" if self._address else "Ray"
            raise UsageError(f"{place}: no cluster could be used: {_first_line(error)}") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ray.shutdown()

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
            ResourceError: Processes die again and again over the same item, or none can be started.
        """
        ray = self._ray
        options = {"num_cpus": num_cpus, "num_gpus": num_gpus, "max_retries": _DEATHS}
        task = ray.remote(**options)(_called)
        sent = ray.put((__version__, function))
        waiting: deque[Any] = deque()
        room = 0
        try:
            for number, item in enumerate(items):
                if number % _ASKED_EVERY == 0:
                    room = _WAITING * self._num_at_once(num_cpus, num_gpus)
                while len(waiting) >= room:
                    yield self._result(waiting.popleft())
                waiting.append(task.remote(sent, item))
            while waiting:
                yield self._result(waiting.popleft())
        finally:
            for reference in waiting:
                ray.cancel(reference, force=True)

    def bundle(self, directory: Path) -> "Bundle":
        """Send the files of a directory, without those of its folders, to the cluster."""
        with disk_errors(directory):
            paths = sorted(path for path in directory.iterdir() if path.is_file())
            contents = {path.name: path.read_bytes() for path in paths}
        digest = hashlib.sha256()
        for name, content in contents.items():
            digest.update(f"{name}\n{hashlib.sha256(content).hexdigest()}\n".encode())
        return Bundle(digest.hexdigest()[:32], (self._ray.put(contents),))

    def _num_at_once(self, num_cpus: int, num_gpus: int) -> int:
        found = self._ray.cluster_resources()
        cores = found.get("CPU", 0) // num_cpus
        return max(1, int(min(cores, found.get("GPU", 0) // num_gpus) if num_gpus else cores))

    def _result(self, reference: Any) -> Any:
        errors = self._ray.exceptions
        try:
            return self._ray.get(reference)
        except errors.RayTaskError as error:
            if isinstance(error.cause, UserError):
                raise error.cause from None
            raise ResourceError(f"a process of the cluster failed: {_first_line(error.cause)}") from error
        except errors.RayError as error:
            raise ResourceError(
                f"the cluster gave up after {_DEATHS} attempts: {_first_line(error)}; look at its memory"
            ) from error


@dataclass(frozen=True)
class Bundle:
    """Files that calls need, by the digest of their contents; each machine gets them once."""

    digest: str
    _references: tuple[Any, ...] = field(compare=False, repr=False)

    def unpacked(self) -> Path:
        """A folder with the files, on the machine of the caller.

        Raises:
            DiskError: It cannot be written.
        """
        base = Path(tempfile.gettempdir(), f"allyouneed-{os.getuid()}")
        with disk_errors(base):
            base.mkdir(mode=0o700, exist_ok=True)
            if not is_ours(base):
                raise DiskError(f"{base}: others may write to it; remove it")
            place = base / self.digest
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
        except OSError:
            shutil.rmtree(aside)
            if not place.is_dir():  # another process was not faster
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


def _called(sent: tuple[str, Callable[[Any], Any]], item: Any) -> Any:
    version, function = sent
    if version != __version__:
        raise UsageError(
            f"a machine of the cluster has allyouneed {__version__}, this one {version}; install the same"
        )
    return function(item)


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).partition("\n")[0]
