"""Measures the time and memory of an update on a source of 500 to 16,000 frames, with a neighbourhood or not.

    OMP_NUM_THREADS=1 python benchmarks/frames_scaling.py

Each length is a process of its own, whose CPU time and peak memory, beyond that of a small update, count. The
exponents are slopes of logarithms from 2,000 frames on: 1 is linear, 2 quadratic. Targets have 100 tokens.
"""

import json
import resource
import subprocess
import sys
import time

import numpy as np

LENGTHS = 500, 1_000, 2_000, 4_000, 8_000, 16_000
NEIGHBOURHOODS = 128, None
UPDATES = 2


def measure(num_frames: int, neighbourhood: int | None) -> None:
    """Print the CPU seconds of an update, and the memory that it takes, in MiB."""
    import torch

    from allyouneed.config.presets import frames_tiny
    from allyouneed.model.architectures import build_model
    from allyouneed.model.attention import fused_attention

    torch.manual_seed(1)
    model = build_model(frames_tiny().model.replace(neighbourhood=neighbourhood)).train()
    model.use_attention(fused_attention)
    source, target = torch.randn(1, num_frames, 80), torch.randint(5, 261, (1, 100))
    model(source[:, :100], target[:, :10]).sum().backward()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    for _ in range(UPDATES):
        model(source, target).square().sum().backward()
    seconds = (time.process_time() - began) / UPDATES
    mebibytes = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(json.dumps([seconds, mebibytes]))


def slope(values: list[float]) -> float:
    """The exponent: the slope of the logarithms over those of the lengths from 2,000 on."""
    logarithms = np.log(LENGTHS[2:]), np.log(values[2:])
    return float(np.polyfit(*logarithms, 1)[0])


def main() -> None:
    """Print a table of each neighbourhood, and its exponents."""
    for neighbourhood in NEIGHBOURHOODS:
        rows = []
        for length in LENGTHS:
            command = sys.executable, __file__, str(length), json.dumps(neighbourhood)
            rows.append(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))
            print(f"r = {neighbourhood}: {length:>6,} frames: {rows[-1][0]:7.2f} s, {rows[-1][1]:7.0f} MiB")
        seconds, mebibytes = (slope([*column]) for column in zip(*rows, strict=True))
        print(
            f"r = {neighbourhood}: time grows with frames^{seconds:.2f}, memory with frames^{mebibytes:.2f}"
        )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        measure(int(sys.argv[1]), json.loads(sys.argv[2]))
    else:
        main()
