"""The server on one core, asked by k clients: requests and sentences a second, and how long they take.

    python benchmarks/serving_clients.py MODEL TEXTS [SECONDS]

The server is pinned to the first core that this process may use, the load to the others, if there are any.
Each client asks for a line of TEXTS, again as soon as it is answered; with --max-wait 60, nothing is refused.
"""

import asyncio
import json
import os
import random
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from serving import load, ours, server

from allyouneed.hardware.machine import environment

CLIENTS = 1, 4, 16, 64
RESULTS = Path(__file__).parent / "results" / "serving_clients.json"


def measure(port: int, texts: list[str], num_clients: int, seconds: float) -> dict[str, float]:
    """What a number of clients get."""
    draw, num_sentences = random.Random(num_clients), 0

    def count(answer: Any) -> str | None:
        nonlocal num_sentences
        num_sentences += len(answer["results"][0]["segments"])
        return None

    def next_request() -> tuple[Any, Any, int]:
        return {"text": draw.choice(texts)}, count, 1

    asyncio.run(load(port, "/api/translate", num_clients, seconds / 5, next_request))  # warms up
    began, num_sentences = time.perf_counter(), 0
    tally = asyncio.run(load(port, "/api/translate", num_clients, seconds, next_request))
    took = time.perf_counter() - began
    if tally.wrong or tally.refused:
        raise SystemExit(f"{len(tally.wrong)} wrong ({tally.wrong[:1]}), {len(tally.refused)} refused")
    return {
        "requests_per_second": len(tally.answered) / took,
        "sentences_per_second": num_sentences / took,
        "median_ms": 1000 * tally.percentile(tally.answered, 0.5),
        "p99_ms": 1000 * tally.percentile(tally.answered, 0.99),
    }


def main(model: str, file: str, seconds: float = 20) -> None:
    """Measure, print, and keep it in `results/`."""
    texts = [line for line in Path(file).read_bytes().decode().split("\n") if line.strip()]
    busy = os.getloadavg()[0]
    core, *others = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})  # which the server inherits
    figures = {}
    with server(ours(Path(model))) as port:
        os.sched_setaffinity(0, others or {core})
        for num_clients in CLIENTS:
            figures[num_clients] = measure(port, texts, num_clients, seconds)
            print(num_clients, json.dumps(figures[num_clients]), flush=True)
        [child] = Path(f"/proc/self/task/{os.getpid()}/children").read_bytes().split()
        if os.sched_getaffinity(int(child)) != {core}:
            raise SystemExit("another program has let the server use other cores; measure again without it")
    result = {
        "date": datetime.now(UTC).date().isoformat(),
        "environment": environment(torch.device("cpu")),
        "cores_of_load": len(others),
        "load_average_before": busy,  # of what else ran on the machine
        "seconds": seconds,
        "clients": figures,
    }
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(float, sys.argv[3:]))
