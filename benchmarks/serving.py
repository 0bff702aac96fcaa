"""The server's speed beside that of the command and of CTranslate2 behind FastAPI, and its cost per request.

Models have random weights, so that all write outputs of the same length: base is the paper's base model with
a text per request, small has 3+3 layers of width 256 with 16 texts per request. Contenders take turns. The
load is made on the same cores; the processor time that it takes is printed.
"""

import asyncio
import json
import random
import resource
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
from tests.http_load import Connection, Tally, load  # noqa: E402

from allyouneed.config.model import ModelConfig  # noqa: E402
from allyouneed.data.tokenizer import Tokenizer  # noqa: E402
from allyouneed.hardware.machine import environment  # noqa: E402
from allyouneed.lab.bench.decoding_workloads import task_of_shape  # noqa: E402
from allyouneed.runs.loading import load_translator  # noqa: E402
from allyouneed.storage.checkpoint import load_checkpoint, save_checkpoint  # noqa: E402
from allyouneed.tasks.task import SOURCE_TOKENIZER, TARGET_TOKENIZER  # noqa: E402

_GIVEN = sys.argv[1:] if __name__ == "__main__" else []
ROUNDS = int(_GIVEN[0]) if _GIVEN else 3
SECONDS = float(_GIVEN[1]) if len(_GIVEN) > 1 else 20
RESULTS = Path(__file__).parent / "results" / "serving.json"
CLIENTS, LENGTH, BEAM_SIZE, NUM_TEXTS = 32, 15, 4, 512
SINGLE_REQUESTS = 200
CROWD, CROWD_SECONDS = 200, 60


@dataclass(frozen=True)
class Shape:
    """A model, and how it is asked."""

    name: str
    model: ModelConfig
    texts_per_request: int


SHAPES = (
    Shape("base", ModelConfig(source_vocab_size=37_000, target_vocab_size=37_000), 1),
    Shape(
        "small",
        ModelConfig(
            source_vocab_size=8_000,
            target_vocab_size=8_000,
            d_model=256,
            d_ff=1024,
            num_heads=4,
            num_layers=3,
        ),
        16,
    ),
)


def make_models(shape: Shape, folder: Path) -> tuple[Path, Path, list[str]]:
    """A model, the same in CTranslate2's format, and texts for it."""
    search = {"beam_size": BEAM_SIZE, "min_length": LENGTH, "max_length": LENGTH}
    task = task_of_shape(shape.model, NUM_TEXTS, LENGTH, ["ctranslate2"], search, folder)
    checkpoint = load_checkpoint(task.folders["allyouneed"])
    config = checkpoint.config.replace(data={"source_language": "en", "target_language": "de"}, search=search)
    names = SOURCE_TOKENIZER, TARGET_TOKENIZER
    attachments = {name: (checkpoint.directory / name).read_bytes() for name in names}
    save_checkpoint(folder / "model", config, checkpoint.weights, attachments, {})
    tokenizer = Tokenizer.load(folder / "model" / SOURCE_TOKENIZER)
    return folder / "model", task.folders["ctranslate2"], [tokenizer.decode(ids) for ids in task.sources]


@contextmanager
def server(arguments: Callable[[int], Sequence[str]]) -> Iterator[int]:
    """A server on a free port, once it answers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen([sys.executable, *arguments(port)], stderr=subprocess.DEVNULL)
    try:
        while process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.wait()


def ours(model: Path, *, limited: bool = False) -> Callable[[int], Sequence[str]]:
    """The arguments of Python for our server, with its usual limits or with none."""
    limits = [] if limited else ["--max-wait", "60", "--request-timeout", "60"]
    return lambda port: [
        "-m", "allyouneed", "serve", str(model), "--port", str(port), "--device", "cpu",
        "--precision", "int8", "--quiet", *limits,
    ]  # fmt: skip


def peer(model: Path) -> Callable[[int], Sequence[str]]:
    """The arguments of Python for CTranslate2's."""
    script = str(Path(__file__).parent / "serving_ctranslate2.py")
    return lambda port: [script, str(model), str(port), *map(str, (BEAM_SIZE, LENGTH, LENGTH))]


def served_speed(port: int, texts: Sequence[str], texts_per_request: int) -> tuple[float, float]:
    """Texts per second under load, and the share of a core that making the load took."""
    draw = random.Random(1)

    def next_request() -> tuple[Any, Callable[[Any], str | None], int]:
        chosen = draw.choices(texts, k=texts_per_request)
        return (
            {"text": chosen if texts_per_request > 1 else chosen[0]},
            _fault(texts_per_request),
            len(chosen),
        )

    asyncio.run(load(port, "/api/translate", CLIENTS, 2, next_request))  # warms up
    began, cpu = time.perf_counter(), _own_seconds()
    tally = asyncio.run(load(port, "/api/translate", CLIENTS, SECONDS, next_request))
    took = time.perf_counter() - began
    if tally.wrong or tally.refused:
        raise SystemExit(f"{len(tally.wrong)} wrong ({tally.wrong[:1]}), {len(tally.refused)} refused")
    return tally.num_texts / took, (_own_seconds() - cpu) / took


def _fault(num_texts: int) -> Callable[[Any], str | None]:
    return lambda answer: None if len(answer["results"]) == num_texts else "another number of results"


def _own_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def command_speed(model: Path, texts: Sequence[str]) -> float:
    """Texts per second of the command, without its start: the difference between many texts and few."""

    def seconds(lines: Sequence[str]) -> float:
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "allyouneed", "translate", str(model), "--precision", "int8",
             "--split-sentences", "--device", "cpu"],
            input="".join(f"{line}\n" for line in lines).encode(), capture_output=True, check=True,
        )  # fmt: skip
        return time.perf_counter() - began

    few = texts[:4]
    return (len(texts) - len(few)) / (seconds(texts) - seconds(few))


def overhead(port: int, model: Path, texts: Sequence[str]) -> dict[str, float]:
    """Milliseconds of a request on an idle server, and of the same text by `Translator.translate`."""
    translator = load_translator(model, precision="int8")

    async def alternate() -> tuple[list[float], list[float]]:
        connection, served, called = Connection(port), [], []
        for number in range(SINGLE_REQUESTS + 10):
            text = texts[number % len(texts)]
            reply = await connection.post("/api/translate", {"text": text})
            served.append(reply.seconds)
            began = time.perf_counter()
            translator.translate([text], split_sentences=True)
            called.append(time.perf_counter() - began)
        return served[10:], called[10:]

    served, called = asyncio.run(alternate())
    pairs = [1000 * (one - other) for one, other in zip(served, called, strict=True)]
    return {
        "served_ms": 1000 * statistics.median(served),
        "translate_ms": 1000 * statistics.median(called),
        "difference_ms": statistics.median(pairs),
    }


def start_up(model: Path, text: str) -> dict[str, float]:
    """Seconds from the start of the server to its first answer, and those of importing torch."""
    began = time.perf_counter()
    with server(ours(model)) as port:
        asyncio.run(Connection(port).post("/api/translate", {"text": text}))
        answered = time.perf_counter() - began
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import torch"], check=True)
    return {"first_answer_seconds": answered, "import_torch_seconds": time.perf_counter() - began}


def crowd(model: Path, words: Sequence[str]) -> dict[str, float]:
    """What `CROWD` clients get who ask a server with the usual limits, a tenth of them leaving early.

    Every text is different, and every answer is compared with that of `Translator.translate`.
    """
    draw, answers = random.Random(2), dict[str, str]()

    def next_request() -> tuple[Any, Callable[[Any], str | None], int]:
        text = " ".join(draw.choices(words, k=12))

        def keep(answer: Any) -> None:
            answers[text] = answer["results"][0]["translations"][0]["text"]

        return {"text": text}, keep, 1

    async def attack(port: int) -> tuple[Tally, list[float]]:
        health, connection = list[float](), Connection(port)

        async def look() -> None:
            while True:
                health.append((await connection.get("/healthz")).seconds)
                await asyncio.sleep(0.1)

        looking = asyncio.create_task(look())
        tally = await load(port, "/api/translate", CROWD, CROWD_SECONDS, next_request, leaving_share=0.1)
        looking.cancel()
        return tally, health

    with server(ours(model, limited=True)) as port:
        tally, health = asyncio.run(attack(port))
    translator = load_translator(model, precision="int8")
    expected = translator.translate(list(answers), split_sentences=True)
    num_wrong = sum(each.text != text for each, text in zip(expected, answers.values(), strict=True))
    return {
        "answered": len(tally.answered),
        "refused": len(tally.refused),
        "left": tally.left,
        "wrong": len(tally.wrong) + num_wrong,
        "accepted_p99_seconds": tally.percentile(tally.answered, 0.99),
        "refused_p99_seconds": tally.percentile(tally.refused, 0.99),
        "health_p99_seconds": tally.percentile(health, 0.99),
    }


def measure(shape: Shape, folder: Path) -> dict[str, Any]:
    """All figures of a shape, medians over rounds; ratios are taken within a round."""
    model, exported, texts = make_models(shape, folder)
    rounds = []
    for _ in range(ROUNDS):
        command = command_speed(model, texts)
        with server(ours(model)) as port:
            own, own_load = served_speed(port, texts, shape.texts_per_request)
            single = overhead(port, model, texts)
        with server(peer(exported)) as port:
            other, _ = served_speed(port, texts, shape.texts_per_request)
        rounds.append(
            {
                "command": command,
                "served": own,
                "ctranslate2_served": other,
                "share_of_command": own / command,
                "times_ctranslate2": own / other,
                "cores_of_load": own_load,
                **single,
                **start_up(model, texts[0]),
            }
        )
        print(shape.name, json.dumps(rounds[-1]), flush=True)
    return {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}


def main() -> None:
    """Measure, print, and keep it in `results/`."""
    figures = {}
    for shape in SHAPES:
        with TemporaryDirectory() as folder:
            figures[shape.name] = measure(shape, Path(folder))
            if shape is SHAPES[0]:
                words = Tokenizer.load(Path(folder) / "model" / SOURCE_TOKENIZER)
                figures["crowd"] = crowd(
                    Path(folder) / "model", [words.decode([token]).strip() for token in range(5_000, 9_000)]
                )
                print("crowd", json.dumps(figures["crowd"]), flush=True)
        print(shape.name, *(f"{name} {value:.2f}" for name, value in figures[shape.name].items()), sep="\n  ")
    result = {
        "date": datetime.now(UTC).date().isoformat(),
        "environment": environment(torch.device("cpu")),
        "rounds": ROUNDS,
        "seconds": SECONDS,
        "clients": CLIENTS,
        "units": "texts per second, milliseconds, and cores",
        "shapes": figures,
    }
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
