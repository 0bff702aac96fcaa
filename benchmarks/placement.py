"""How often a tag covers exactly the words that translate its own, on sentences whose alignment is known.

    python benchmarks/placement.py [DEMO]

DEMO is the folder of `allyouneed demo`, which makes one where it is missing. An element covers one to three
words whose translations stand together, and translate no other word, in a test sentence of the demo's grammar
that the model translates as its reference, so that the grammar's own alignment counts. The first 300 such
sentences are measured, or all if there are fewer: of the demo's own model, of that model after it has gone to
Hugging Face and come back, and of a MarianMT model, which transformers trains here from random weights, for
three minutes of a processor.
"""

import json
import random
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from allyouneed import load_translator
from allyouneed.hardware.machine import environment
from allyouneed.interop.exporting import export_model
from allyouneed.interop.importing import import_model
from allyouneed.lab.demo.demo_run import run_demo
from allyouneed.lab.demo.grammar import DemoPair, generate_demo_corpus

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.interop.foreign_models import make_marian_folder

RESULTS = Path(__file__).parent / "results" / "placement.json"
NUM_SENTENCES = 300
TRAINING_SECONDS, BATCH_SIZE, LEARNING_RATE = 180.0, 64, 0.001
_LEAF = re.compile(r"\(\S+ ([^()\s]+)\)")


def leaves(text: str, tree: str) -> list[tuple[int, int]]:
    """Begin and end of the words and signs of a sentence."""
    found, end = list[tuple[int, int]](), 0
    for leaf in _LEAF.findall(tree):
        begin = text.index(leaf, end)
        end = begin + len(leaf)
        found.append((begin, end))
    return found


def elements(pair: DemoPair) -> list[tuple[str, str]]:
    """The sentence with an element, and its reference with the same, for each place that it can have."""
    sides = leaves(pair.source, pair.source_tree), leaves(pair.target, pair.target_tree)
    found = list[tuple[str, str]]()
    for first in range(len(sides[0])):
        for last in range(first, min(first + 3, len(sides[0]) - 1)):
            inner = {j for i, j in pair.alignment if first <= i <= last}
            outer = {j for i, j in pair.alignment if not first <= i <= last}
            ends = {i for i, _ in pair.alignment}
            is_one = inner and max(inner) - min(inner) + 1 == len(inner) and not inner & outer
            if is_one and {first, last} <= ends:
                spans = (
                    (sides[0][first][0], sides[0][last][1]),
                    (sides[1][min(inner)][0], sides[1][max(inner)][1]),
                )
                found.append((tagged(pair.source, *spans[0]), tagged(pair.target, *spans[1])))
    return found


def tagged(text: str, begin: int, end: int) -> str:
    """A text with an element around a part of it."""
    return f"{text[:begin]}<b>{text[begin:end]}</b>{text[end:]}"


def placed(model: Path, pairs: Sequence[DemoPair]) -> dict[str, Any]:
    """Measure a model."""
    translator, draw = load_translator(model), random.Random(1)
    found = translator.translate([pair.source for pair in pairs])
    known = [
        pair for pair, best in zip(pairs, found, strict=True) if best.text == pair.target and elements(pair)
    ]
    chosen = [draw.choice(elements(pair)) for pair in known[:NUM_SENTENCES]]
    pages = translator.translate([source for source, _ in chosen], markup="html")
    right = sum(page.text == wanted for page, (_, wanted) in zip(pages, chosen, strict=True))
    return {"sentences": len(chosen), "right": right, "share": right / len(chosen)}


def train_with_transformers(folder: Path, pairs: Sequence[DemoPair]) -> Path:
    """Train a MarianMT model, as wide as the demo's, from random weights."""
    from transformers import MarianMTModel, MarianTokenizer

    texts = [text for pair in pairs for text in (pair.source, pair.target)]
    sizes: dict[str, Any] = {"d_model": 128, "encoder_ffn_dim": 512, "decoder_ffn_dim": 512}
    sizes |= {"encoder_attention_heads": 4, "decoder_attention_heads": 4}
    make_marian_folder(folder, sentences=texts, vocab_size=1_000, **sizes)
    tokenizer = MarianTokenizer.from_pretrained(folder, local_files_only=True)
    model = MarianMTModel(MarianMTModel.from_pretrained(folder, local_files_only=True).config).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.98))
    end = time.process_time() + TRAINING_SECONDS
    for batch in batches(pairs):
        sides = [pair.source for pair in batch], [pair.target for pair in batch]
        ids = tokenizer(sides[0], text_target=sides[1], padding=True, return_tensors="pt")
        ids["labels"][ids["labels"] == tokenizer.pad_token_id] = -100
        model(**ids).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if time.process_time() > end:
            break
    model.save_pretrained(folder)
    return folder


def batches(pairs: Sequence[DemoPair]) -> Iterator[list[DemoPair]]:
    """Endless batches of pairs of similar length."""
    draw = random.Random(1)
    ordered = sorted(pairs, key=lambda pair: len(pair.source))
    while True:
        start = draw.randrange(len(ordered) - BATCH_SIZE)
        yield ordered[start : start + BATCH_SIZE]


def main() -> None:
    """Measure, print, and keep the figures in `results/`."""
    corpus = generate_demo_corpus()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        demo = Path(sys.argv[1]) if len(sys.argv) > 1 else folder / "demo"
        if not (demo / "model").exists():
            run_demo(demo, torch.device("cpu"), corpus=corpus)
        export_model(demo / "model", "huggingface", folder / "exported")
        import_model(folder / "exported", folder / "returned")
        import_model(train_with_transformers(folder / "marian", corpus.train), folder / "imported")
        models = {
            "own": demo / "model",
            "exported, imported": folder / "returned",
            "MarianMT": folder / "imported",
        }
        rows = {name: placed(model, corpus.test) for name, model in models.items()}
    for name, row in rows.items():
        print(f"{name}: {row['right']} of {row['sentences']} elements stand right ({row['share']:.1%})")
    kept = {"date": datetime.now(UTC).date().isoformat(), "environment": environment(torch.device("cpu"))}
    RESULTS.write_text(json.dumps({**kept, "rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
