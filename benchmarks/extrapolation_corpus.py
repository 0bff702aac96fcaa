"""Text of controlled lengths for `allyouneed reproduce extrapolation`, from the grammar of the demo.

    python benchmarks/extrapolation_corpus.py OUT
    cd OUT
    allyouneed prepare data --preset demo --source train.en --target train.de --valid-source valid.en \\
        --valid-target valid.de --max-tokens 200
    allyouneed reproduce extrapolation --data data

Texts of one sentence, and texts of two that are short enough to be trained on, are followed by texts of two
to five sentences, most of them longer than 20 sub-words: the experiment leaves these out of training and
tests on them. They are made of validation and test sentences, none of which is trained on.
"""

import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from allyouneed.data.lines import write_lines
from allyouneed.lab.demo.grammar import DemoPair, generate_demo_corpus

SHORT_WORDS = 7
"""Two texts with as many words have 20 sub-words at most, nearly always."""
NUM_JOINED = 10_000
NUM_LONG = 600
"""Texts of each number of sentences from two to five."""


def joined(
    pairs: Sequence[DemoPair], number: int, sentences: int, draw: random.Random
) -> Iterator[list[str]]:
    """Source and target of `number` texts of so many sentences."""
    for _ in range(number):
        chosen = draw.sample(pairs, sentences)
        yield [" ".join(pair.source for pair in chosen), " ".join(pair.target for pair in chosen)]


def main(out: Path) -> None:
    """Write train.en, train.de, valid.en and valid.de."""
    corpus, draw = generate_demo_corpus(), random.Random(1)
    out.mkdir(parents=True, exist_ok=True)
    short = [pair for pair in corpus.train if len(pair.source.split()) <= SHORT_WORDS]
    held_out = [*corpus.valid, *corpus.test]
    train = [[pair.source, pair.target] for pair in corpus.train]
    train += joined(short, NUM_JOINED, 2, draw)
    for sentences in range(2, 6):
        train += joined(held_out, NUM_LONG, sentences, draw)
    short = [pair for pair in corpus.valid if len(pair.source.split()) <= SHORT_WORDS]
    valid = [[pair.source, pair.target] for pair in corpus.valid]
    valid += joined(short, len(short), 2, draw)
    for name, pairs in (("train", train), ("valid", valid)):
        for side, suffix in enumerate(("en", "de")):
            write_lines(out / f"{name}.{suffix}", (pair[side] for pair in pairs))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
