"""Translates on a Ray cluster, with the bits of one process."""

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import Any, Unpack

from allyouneed.hardware.cluster import Bundle, Cluster
from allyouneed.storage.run_directory import resolve_model
from allyouneed.tasks.requests import Answer, Failure, TranslateOptions, TranslationRequest
from allyouneed.tasks.translation.outputs import Translation

CALL_REQUESTS = 1_024
"""Number of requests in a call: seconds of work, and sentences enough for full batches."""

Request = TranslationRequest | Failure
Answered = Answer[list[Translation]] | Failure


class ClusterTranslator:
    """Answers requests as `Translator.answer` does, by the processes of a cluster.

    The arguments are those of `load_translator`, `threads` of each process; the device "auto" takes a GPU
    for each process if the cluster has some.
    """

    def __init__(
        self,
        cluster: Cluster,
        paths: Sequence[Path],
        *,
        shortlist: Path | None,
        device: str,
        precision: str,
        threads: int,
    ) -> None:
        self._cluster = cluster
        self._models = tuple(cluster.bundle(resolve_model(path)) for path in paths)
        self._shortlist = cluster.bundle(shortlist) if shortlist else None
        if device == "auto":
            device = "cuda" if cluster.has_gpus else "cpu"
        self._loading = ("device", device), ("precision", precision), ("threads", threads)
        self._needs = {"num_cpus": threads, "num_gpus": int(device.startswith("cuda"))}

    def answer(
        self, requests: Iterable[Request], *, n_best: int = 1, **options: Unpack[TranslateOptions]
    ) -> Generator[Answered, None, None]:
        """An answer or a failure for each request, in order; the arguments are those of `Translator`."""
        settings = {**options, "n_best": n_best, "workers": 1}
        call = partial(_answers, self._models, self._shortlist, self._loading, settings)
        with closing(self._cluster.map(call, _batches_of(requests), **self._needs)) as found:
            for answers in found:
                yield from answers


def _answers(
    models: tuple[Bundle, ...],
    shortlist: Bundle | None,
    loading: tuple[tuple[str, Any], ...],
    options: dict[str, Any],
    requests: list[Request],
) -> list[Answered]:
    return [*_loaded(models, shortlist, loading).answer(requests, **options)]


@lru_cache(maxsize=1)
def _loaded(
    models: tuple[Bundle, ...], shortlist: Bundle | None, loading: tuple[tuple[str, Any], ...]
) -> Any:
    """The translator, which stays in the process for further calls."""
    from allyouneed.hardware.allocator import give_back_freed_memory
    from allyouneed.runs.loading import load_translator

    give_back_freed_memory()
    limited = shortlist.unpacked() if shortlist else None
    return load_translator(*(model.unpacked() for model in models), shortlist=limited, **dict(loading))


def _batches_of(requests: Iterable[Request]) -> Iterator[list[Request]]:
    source = iter(requests)
    while batch := [*islice(source, CALL_REQUESTS)]:
        yield batch
