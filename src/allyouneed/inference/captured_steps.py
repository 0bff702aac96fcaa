"""A step on a device that is repeated with the same tensors: on CUDA, it is captured and replayed as a graph.

With few sentences, launching the hundreds of kernels of a step takes longer than computing them.
"""

from collections.abc import Callable

import torch

from allyouneed.errors import notice


class RepeatedStep:
    """Does a step: at first as it is, which also prepares what its kernels need, then as a CUDA graph.

    Everything that the step reads and changes must stay in its place in memory until `take` brings another
    step, and it must neither wait for the device nor send anything to it. On other devices, and for the rest
    of the process once a capture has failed, every step is done as it is.
    """

    fails = False
    """Whether a capture has failed in this process."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._step: Callable[[], None] = lambda: None
        self._num_done = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._is_current = False

    @property
    def is_captured(self) -> bool:
        """Whether the next step is a replay."""
        return self._is_current

    def take(self, step: Callable[[], None]) -> None:
        """Repeat this step from now on; the device must have finished the steps before."""
        self._step, self._num_done, self._is_current = step, 0, False

    def __call__(self) -> None:
        """Do the step once; the device may still be at it afterwards."""
        if self._num_done == 1 and self._device.type == "cuda" and not RepeatedStep.fails:
            self._capture()
        if self._is_current and self._graph is not None:
            self._graph.replay()
        else:
            self._step()
        self._num_done += 1

    def _capture(self) -> None:
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream(self._device)
        # The former graph's memory is used again; a pool of memory ends with its last graph.
        pool = None if self._graph is None else self._graph.pool()
        stream.wait_stream(torch.cuda.current_stream(self._device))
        try:
            with torch.cuda.stream(stream):
                graph.capture_begin(pool=pool, capture_error_mode="thread_local")
                try:
                    self._step()
                finally:
                    graph.capture_end()
        except RuntimeError as error:
            RepeatedStep.fails = True
            reason = str(error).partition("\n")[0]
            notice(
                f"decoding on {self._device}: steps are not captured as a CUDA graph ({reason}), so slower"
            )
            return
        torch.cuda.current_stream(self._device).wait_stream(stream)
        self._graph, self._is_current = graph, True
