"""Where an accelerator's time goes: shares of products, attention and the rest, and gaps between kernels."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from allyouneed.hardware.machine import wait_for

PARTS = {
    "attention": ("flash", "fmha", "attention", "sdpa"),
    "products": ("gemm", "nvjet", "cutlass", "xmma", "::mm", "::addmm", "::bmm", "::linear", "mkldnn"),
}
"""Kind of work -> parts of the names of its kernels and operators; a name counts for the first that fits."""
_NUM_NAMES = 12


def where_time_goes(run: Callable[[], object], device: torch.device) -> dict[str, Any]:
    """Profile a function that has run before; on a CPU, operators take the place of kernels."""
    is_cuda = device.type == "cuda"
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if is_cuda else [])]
    with profile(activities=activities) as profiled:
        run()
        wait_for(device)
    wanted = "CUDA" if is_cuda else "CPU"
    events = [
        event
        for event in profiled.events()
        if event.device_type.name == wanted and not getattr(event, "is_user_annotation", False)
    ]
    if not is_cuda:
        spent = [(event.name, event.self_cpu_time_total) for event in events]
        return _shares(spent, sum(time for _, time in spent))
    spans = sorted((event.time_range.start, event.time_range.end) for event in events)
    busy, until = 0.0, spans[0][0] if spans else 0.0
    for start, end in spans:
        busy, until = busy + max(0.0, end - max(start, until)), max(until, end)
    whole = until - spans[0][0] if spans else 0.0
    spent = [(event.name, event.time_range.end - event.time_range.start) for event in events]
    return {
        **_shares(spent, whole),
        "gaps": 1 - busy / whole if whole else None,
        "num_kernels": len(spans),
    }


def _shares(spent: Iterable[tuple[str, float]], whole: float) -> dict[str, Any]:
    """Shares of the whole by kind, and the names with the most time."""
    kinds, names = Counter[str](), Counter[str]()
    for name, microseconds in spent:
        kinds[kind_of(name)] += microseconds / max(whole, 1e-9)  # type: ignore[assignment]
        names[name[:100]] += microseconds / max(whole, 1e-9)  # type: ignore[assignment]
    shares = {kind: kinds[kind] for kind in (*PARTS, "rest")}
    return {**shares, "microseconds": whole, "most": dict(names.most_common(_NUM_NAMES))}


def kind_of(name: str) -> str:
    """The kind of work of a kernel or an operator, by its name."""
    lowered = name.lower()
    return next((kind for kind, parts in PARTS.items() if any(part in lowered for part in parts)), "rest")
