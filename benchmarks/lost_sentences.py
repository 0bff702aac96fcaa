"""What the search for lost sentences costs: its share of the seconds of translating the same lines.

The model is random and of the preset `multi30k_tiny`. The lines are the demo's sentences, one or four to a
line; an output has at most as many tokens as its line. Lines stand for their own translations, so that both
sides of a line of four sentences are divided, and no notice ends the search. Translation, by one worker of
one thread, and search take turns. Seconds are those of the processor, as other programs may compute beside
it; medians are reported.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import torch

from allyouneed.config.presets import multi30k_tiny
from allyouneed.data.sentences import lost_sentences
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.hardware.machine import environment
from allyouneed.lab.demo.grammar.grammar_corpus import generate_demo_corpus
from allyouneed.model.transformer import Transformer
from allyouneed.tasks.translation.translator import Translator

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 10
RESULTS = Path(__file__).parent / "results" / "lost_sentences.json"
NUM_LINES, VOCAB_SIZE = 400, 1_000
BEAM_SIZES = 1, 5


def random_translator(lines: list[str]) -> Translator:
    """A translator whose weights are random, with a vocabulary of the lines."""
    sizes = {"source_vocab_size": VOCAB_SIZE, "target_vocab_size": VOCAB_SIZE}
    config = multi30k_tiny().replace(model=sizes, search={"max_extra_tokens": 0})
    torch.manual_seed(1)
    tokenizer = Tokenizer.train(lines, "bpe", VOCAB_SIZE)
    return Translator(Transformer(config.model).eval(), config, tokenizer, tokenizer)


def seconds(work: Callable[[], object]) -> float:
    """Of the processor."""
    began = time.process_time()
    work()
    return time.process_time() - began


def search(lines: list[str]) -> None:
    """Look for lost sentences in lines that are their own translations."""
    for line in lines:
        assert lost_sentences(line, line, "en", "en") is None


def share(translator: Translator, lines: list[str], beam_size: int) -> float:
    """Seconds of the search by those of translation."""

    def translate() -> None:
        for _ in translator.stream(lines, beam_size=beam_size, workers=1):
            pass

    return seconds(lambda: search(lines)) / seconds(translate)


def main() -> None:
    """Measure, print a table, and keep it in `results/`."""
    sentences = [pair.source for pair in generate_demo_corpus(4 * NUM_LINES, 1, 1, seed=1).train]
    translator = random_translator(sentences)
    rows = []
    for per_line in (1, 4):
        lines = [
            " ".join(sentences[begin : begin + per_line])
            for begin in range(0, NUM_LINES * per_line, per_line)
        ]
        for beam_size in BEAM_SIZES:
            shares = [share(translator, lines, beam_size) for _ in range(ROUNDS + 1)][1:]
            rows.append(
                {
                    "sentences_per_line": per_line,
                    "beam_size": beam_size,
                    "share": statistics.median(shares),
                    "greatest": max(shares),
                }
            )
            name = f"{per_line} sentences a line, beam {beam_size}"
            print(f"{name}: {statistics.median(shares):.2%} of translate, {max(shares):.2%} at most")
    result = {
        "date": datetime.now(UTC).date().isoformat(),
        "environment": environment(torch.device("cpu")) | {"threads": 1},
        "rounds": ROUNDS,
        "lines": NUM_LINES,
        "rows": rows,
    }
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
