"""Decoding on an accelerator as `translate` and `score` do it: is it right, how fast, where does time go.

`benchmarks/accelerator.py` runs it. Weights and sentences are random, outputs of a fixed length or of their
source's; batches are those that the program chooses for the device.
"""

import importlib.util
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.accelerator_profile import where_time_goes

from allyouneed.config.model import ModelConfig
from allyouneed.config.run import DecodingPrecision, SearchConfig
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.hardware.machine import wait_for
from allyouneed.hardware.memory import empty_cache, forget_peak_memory, memory_bytes
from allyouneed.inference.captured_steps import RepeatedStep
from allyouneed.inference.generate import generate
from allyouneed.inference.torch_engine import TorchEngine
from allyouneed.lab.bench.contenders import OURS
from allyouneed.lab.bench.decoding_workloads import task_of_shape
from allyouneed.lab.bench.training_workloads import Lengths, multi30k_lengths
from allyouneed.model.architectures import build_model
from allyouneed.runs.loading import load_translator
from allyouneed.symbols import CONTROL_SYMBOLS, NEVER_PRODUCED, UNKNOWN
from allyouneed.tasks.task import SOURCE_TOKENIZER
from allyouneed.tasks.translation.translator import Translator

PRECISIONS: tuple[DecodingPrecision, ...] = "bfloat16", "float32"
NUM_SENTENCES, NUM_TOKENS, NUM_ALONE, NUM_ORDINARY, ROUNDS = 1_024, 32, 20, 3_000, 3
_TINY = ModelConfig(
    source_vocab_size=300, target_vocab_size=300, d_model=16, d_ff=32, num_layers=1, num_heads=2
)
_CHECKED = ModelConfig(
    source_vocab_size=500, target_vocab_size=500, d_model=128, d_ff=256, num_layers=2, num_heads=4
)
_ORDINARY: dict[str, Callable[[], Lengths]] = {
    "like Multi30k's": multi30k_lengths,
    "like WMT's": partial(multi30k_lengths, 2),
}
_PEERS_BATCHES = 256, 1_024


def measure(device: torch.device, out: Path, tiny: bool) -> Iterator[tuple[str, Any]]:
    """Yield results with their names as they come, those of correctness first; `out` is a folder for data."""
    yield "decoding: checks", dict(checks(device, 16 if tiny else 400))
    peers = ["ctranslate2"] if importlib.util.find_spec("ctranslate2") else []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        model = _TINY if tiny else ModelConfig()
        task = task_of_shape(model, 1, NUM_TOKENS, peers, {}, folder)
        for precision in PRECISIONS:
            translator = load_translator(task.folders[OURS], device=device, precision=precision)
            tokenizer = Tokenizer.load(task.folders[OURS] / SOURCE_TOKENIZER)
            work = Workload(translator, tokenizer, 8 if tiny else NUM_SENTENCES, 5 if tiny else NUM_TOKENS)
            forget_peak_memory(device)
            for name, found in work.speeds(device, tiny=tiny):
                yield f"decoding: {precision}: {name}", found
            for beam_size in (4, 1):
                run = partial(work.translate, beam_size=beam_size)
                yield f"decoding profile: {precision}, beam {beam_size}", where_time_goes(run, device)
            run = partial(work.translate, work.texts[:1], beam_size=1)
            yield f"decoding profile: {precision}, one sentence", where_time_goes(run, device)
            texts, tokens = work.texts, work.num_tokens
            del translator, work, run
            empty_cache(device)
        if peers:
            names = tokenizer.names
            pieces = [[names[token] for token in tokenizer.encode(text)] for text in texts]
            yield "decoding: CTranslate2", ctranslate2(task.folders["ctranslate2"], pieces, tokens, device)


def checks(device: torch.device, num_sentences: int) -> Iterator[tuple[str, float | bool | None]]:
    """Shares of outputs that are the same as others; in float32 those of the CPU with its steps in numpy."""
    torch.manual_seed(1)
    model = build_model(_CHECKED).eval()
    with torch.no_grad():
        for parameter in model.embeddings.parameters():
            parameter.mul_(3)  # rounding must not decide what is decoded
    draw = np.random.default_rng(1)
    sources = [draw.integers(5, 500, length).tolist() for length in draw.integers(1, 40, num_sentences)]
    there = build_model(_CHECKED).eval()
    there.load_state_dict(model.state_dict())
    engine, reference = TorchEngine(there.to(device), resident=True), TorchEngine(model, resident=False)
    searches: dict[str, dict[str, Any]] = {
        "beam 4": {},
        "greedy": {"beam_size": 1},
        "beam 8, stopped early, at least 10 tokens": {
            "beam_size": 8,
            "early_stopping": True,
            "min_length": 10,
        },
        "sampled": {"sampling": True},
    }
    for name, settings in searches.items():
        config = SearchConfig.checked(**settings)
        expected, found, again = (_ids(each, sources, config) for each in (reference, engine, engine))
        yield f"{name}: as the CPU's", _share(found, expected)
        yield f"{name}: again the same", again == found
        if device.type == "cuda":
            failed, RepeatedStep.has_failed = RepeatedStep.has_failed, True
            yield f"{name}: without graphs the same", _share(_ids(engine, sources, config), found)
            RepeatedStep.has_failed = failed
    yield "steps were captured", not RepeatedStep.has_failed if device.type == "cuda" else None
    rounded = TorchEngine(there.bfloat16(), resident=True)
    yield (
        "beam 4, bfloat16: as in float32",
        _share(_ids(rounded, sources, SearchConfig()), _ids(reference, sources, SearchConfig())),
    )


def _ids(engine: TorchEngine, sources: Sequence[list[int]], config: SearchConfig) -> list[list[int]]:
    return [best.ids for best, *_ in generate(engine, sources, config)]


def _share(found: Sequence[object], expected: Sequence[object]) -> float:
    return sum(one == other for one, other in zip(found, expected, strict=True)) / len(found)


class Workload:
    """Texts that a translator translates into outputs of `num_tokens` tokens."""

    def __init__(
        self, translator: Translator, tokenizer: Tokenizer, num_sentences: int, num_tokens: int
    ) -> None:
        self._translator, self._tokenizer, self.num_tokens = translator, tokenizer, num_tokens
        self.texts = self._random_texts(np.full(num_sentences, num_tokens))

    def translate(self, texts: Sequence[str] | None = None, **search: Any) -> int:
        """Translate with the program's own choices of batches and workers; return the number of outputs."""
        fixed = {"min_length": self.num_tokens, "max_length": self.num_tokens}
        return len(self._translator.translate(self.texts if texts is None else texts, **fixed | search))

    def speeds(self, device: torch.device, *, tiny: bool) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield speeds with names: of many sentences, of one alone, of ordinary lengths, and of scores."""
        source_tokens = statistics.mean(len(self._translator.encode(text)) + 1 for text in self.texts)
        chosen = {"batch_tokens": self._translator.engine.batch_tokens, "source_tokens": source_tokens}
        for name, beam_size in (("beam 4", 4), ("greedy", 1)):
            seconds = _seconds(partial(self.translate, beam_size=beam_size), device)
            memory = memory_bytes(device)
            yield name, {"sentences_per_second": len(self.texts) / seconds, "memory_bytes": memory, **chosen}
        for name, beam_size in (("one sentence, greedy", 1), ("one sentence, beam 4", 4)):
            alone = [
                _seconds(partial(self.translate, [text], beam_size=beam_size), device, 1)
                for text in self.texts[: 2 if tiny else NUM_ALONE]
            ]
            captured = device.type == "cuda" and not RepeatedStep.has_failed
            per_token = statistics.median(alone) / self.num_tokens
            yield name, {"milliseconds_per_token": 1e3 * per_token, "captured": captured}
        for name, lengths in _ORDINARY.items():
            drawn = lengths()[: 8 if tiny else NUM_ORDINARY, 0]
            run = partial(
                self.translate, self._random_texts(drawn), min_length=0, max_length=None, max_extra_tokens=0
            )
            yield name, {"sentences_per_second": len(drawn) / _seconds(run, device, 1)}
        seconds = _seconds(partial(self._translator.score, self.texts, self.texts), device)
        scored = sum(len(self._translator.encode(text)) + 1 for text in self.texts)
        yield "score", {"target_tokens_per_second": scored / seconds}

    def _random_texts(self, lengths: Lengths) -> list[str]:
        """Texts of these numbers of source tokens, end symbols included."""
        draw, most = np.random.default_rng(1), self._translator.config.model.source_vocab_size
        texts = []
        for length in lengths.tolist():
            drawn = draw.integers(UNKNOWN + 1, most, length).tolist()
            # What random tokens spell may have other tokens, whose first ones are kept.
            again = self._tokenizer.encode(self._tokenizer.decode(drawn))[: max(1, length - 1)]
            texts.append(self._tokenizer.decode(again))
        return texts


def _seconds(run: Callable[[], object], device: torch.device, rounds: int = ROUNDS) -> float:
    """The least time of several runs, after one to warm up."""
    taken = []
    for _ in range(1 + rounds):
        wait_for(device)
        began = time.perf_counter()
        run()
        wait_for(device)
        taken.append(time.perf_counter() - began)
    return min(taken[1:])


def ctranslate2(
    folder: Path, pieces: list[list[str]], num_tokens: int, device: torch.device
) -> dict[str, Any]:
    """Sentences per second of CTranslate2 in float16 on the same card, with the best of a few batch sizes."""
    from ctranslate2 import Translator as Peer
    from ctranslate2 import __version__ as version

    on = {"device": "cuda", "compute_type": "float16"} if device.type == "cuda" else {"device": "cpu"}
    try:
        peer = Peer(str(folder), **on)
        found: dict[str, Any] = {"version": version, **on}
        for name, beam_size in (("beam 4", 4), ("greedy", 1)):
            speeds = {
                str(batch): len(pieces)
                / _seconds(
                    partial(
                        peer.translate_batch,
                        pieces,
                        beam_size=beam_size,
                        min_decoding_length=num_tokens - 1,
                        max_decoding_length=num_tokens,
                        suppress_sequences=[[CONTROL_SYMBOLS[token]] for token in NEVER_PRODUCED],
                        max_batch_size=batch,
                    ),
                    device,
                )
                for batch in _PEERS_BATCHES
            }
            found[name] = {"sentences_per_second": max(speeds.values()), "by_batch": speeds}
    except (RuntimeError, ValueError) as error:  # its wheel may not know the card, or lack a library
        return {"not measured": str(error).partition("\n")[0]}
    return found
