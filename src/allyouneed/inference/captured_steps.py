"""A step on a device that is repeated with the same tensors: on CUDA, it is captured and replayed as a graph.

With few sentences, launching the hundreds of kernels of a step takes longer than computing them.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from allyouneed.errors import notice


class _Captures(threading.local):
    """The stream on which a thread captures, and its last graph, whose memory the next one uses again.

    Memory of a graph is given back only with all graphs that share it, and the libraries keep a workspace
    for each stream, so that a thread has one of either.
    """

    stream: torch.cuda.Stream | None = None
    graph: torch.cuda.CUDAGraph | None = None


_CAPTURES = _Captures()


class RepeatedStep:
    """Does a step: at first as it is, which also prepares what its kernels need, then as a CUDA graph.

    Everything that the step reads and changes must stay in its place in memory until `take` brings another
    step, and it must neither wait for the device nor send anything to it. On other devices, and if not
    `captured`, every step is done as it is; so it is of all models until the process ends, once a capture has
    failed.
    """

    has_failed = False
    """Whether a capture has failed in this process."""

    def __init__(self, device: torch.device, *, captured: bool = True) -> None:
        self._device, self._is_captured = device, captured and device.type == "cuda"
        self._step: Callable[[], None] = lambda: None
        self._num_done = 0
        self._graph: torch.cuda.CUDAGraph | None = None

    def take(self, step: Callable[[], None]) -> None:
        """Repeat this step from now on; the device must have finished the steps before."""
        self._step, self._num_done, self._graph = step, 0, None

    def __call__(self) -> None:
        """Do the step once; the device may still be at it afterwards."""
        if self._num_done == 1 and self._is_captured and not RepeatedStep.has_failed:
            self._capture()
        if self._graph is not None:
            self._graph.replay()
        elif self._is_captured:
            with self._on_stream_of_captures():  # where a workspace is made, outside the memory of graphs
                self._step()
        else:
            self._step()
        self._num_done += 1

    @contextmanager
    def _on_stream_of_captures(self) -> Iterator[None]:
        current = torch.cuda.current_stream(self._device)
        if _CAPTURES.stream is None or _CAPTURES.stream.device != current.device:
            _CAPTURES.stream, _CAPTURES.graph = torch.cuda.Stream(self._device), None
        _CAPTURES.stream.wait_stream(current)
        with torch.cuda.stream(_CAPTURES.stream):
            yield
        current.wait_stream(_CAPTURES.stream)

    def _capture(self) -> None:
        graph = torch.cuda.CUDAGraph()
        try:
            with self._on_stream_of_captures():
                pool = None if _CAPTURES.graph is None else _CAPTURES.graph.pool()
                graph.capture_begin(pool=pool, capture_error_mode="thread_local")
                try:
                    self._step()
                finally:
                    graph.capture_end()
        except RuntimeError as error:
            RepeatedStep.has_failed = True
            reason = str(error).partition("\n")[0]
            notice(
                f"decoding on {self._device}: steps are not captured as a CUDA graph ({reason}), so slower"
            )
        else:
            self._graph = _CAPTURES.graph = graph
