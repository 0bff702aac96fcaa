"""How often splitters into sentences err on the marked texts of `tests/data/sentences`, and their speed.

Each line there is a text; "|" marks where a sentence ends. Rules were written with the lines of even number
in view (from 0); those of odd number are held out. Libraries that are not installed are left out:
`pip install pysbd syntok blingfire sentence-splitter`. A library without rules for a language uses those
for English. Seconds are those of the processor.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cache
from importlib import import_module, metadata
from itertools import accumulate
from pathlib import Path
from typing import Any

import sentencex
import torch

from allyouneed.data.lines import read_lines
from allyouneed.data.sentences import split_sentences
from allyouneed.hardware.machine import environment

Split = Callable[[str, str], list[str]]

TEXTS = Path(__file__).parents[1] / "tests" / "data" / "sentences"
RESULTS = Path(__file__).parent / "results" / "sentences.json"
ROUNDS = 5
ENGLISH = "en"


@cache
def _pysbd(language: str) -> Any:
    pysbd = import_module("pysbd")
    known = import_module("pysbd.languages").LANGUAGE_CODES
    return pysbd.Segmenter(language=language if language in known else ENGLISH, clean=False)


@cache
def _moses(language: str) -> Any:
    library = import_module("sentence_splitter")
    code = {"nb": "no"}.get(language, language)
    try:
        return library.SentenceSplitter(language=code)
    except library.SentenceSplitterException:
        return library.SentenceSplitter(language=ENGLISH)


def _syntok(text: str) -> list[str]:
    paragraphs = import_module("syntok.segmenter").analyze(text)
    return ["".join(t.spacing + t.value for t in sentence) for each in paragraphs for sentence in each]


def _blingfire(text: str) -> list[str]:
    split: list[str] = import_module("blingfire").text_to_sentences(text).split("\n")
    return split


SPLITTERS: dict[str, tuple[str, Split]] = {
    "allyouneed": ("sentencex", split_sentences),
    "sentencex": ("sentencex", lambda text, language: list(sentencex.segment(language, text))),
    "blingfire": ("blingfire", lambda text, _: _blingfire(text)),
    "syntok": ("syntok", lambda text, _: _syntok(text)),
    "sentence-splitter": ("sentence-splitter", lambda text, language: list(_moses(language).split(text))),
    "pysbd": ("pysbd", lambda text, language: list(_pysbd(language).segment(text))),
    "never": ("", lambda text, _: [text]),
}


def marked_texts(language: str) -> Iterator[tuple[str, list[str]]]:
    """Texts of a language with their sentences."""
    for line in read_lines(TEXTS / f"{language}.txt"):
        marked = line.replace(" | ", "| ")
        yield marked.replace("|", ""), [sentence.strip() for sentence in marked.split("|")]


def ends(sentences: list[str]) -> set[int]:
    """Ends of the sentences but the last, in characters without white space."""
    return set(accumulate(len("".join(sentence.split())) for sentence in sentences[:-1]))


def measure(split: Split) -> dict[str, Any]:
    """Error rates of a splitter by language, over all languages, and its speed."""
    rows: dict[str, dict[str, float]] = {}
    num_characters, seconds = 0, 0.0
    for language in sorted(path.stem for path in TEXTS.glob("*.txt")):
        texts = list(marked_texts(language))
        wrong, counts = [0, 0], Counter[str]()
        found = [split(text, language) for text, _ in texts]
        began = time.process_time()
        for _ in range(ROUNDS):
            for text, _ in texts:
                split(text, language)
        seconds += time.process_time() - began
        num_characters += ROUNDS * sum(len(text) for text, _ in texts)
        for number, ((_, sentences), got) in enumerate(zip(texts, found, strict=True)):
            true, made = ends(sentences), ends([sentence for sentence in got if sentence.strip()])
            wrong[number % 2] += true != made
            for name, part in (("true", true), ("made", made), ("right", true & made)):
                counts[name] += len(part)
        rows[language] = {
            "texts": len(texts),
            "error_rate_in_view": wrong[0] / ((len(texts) + 1) // 2),
            "error_rate_held_out": wrong[1] / (len(texts) // 2),
            "precision": counts["right"] / (counts["made"] or 1),
            "recall": counts["right"] / counts["true"],
        }
    names = ("error_rate_in_view", "error_rate_held_out", "precision", "recall")
    means = {name: sum(row[name] for row in rows.values()) / len(rows) for name in names}
    return {"mean": means, "characters_per_second": round(num_characters / seconds), "languages": rows}


def package(name: str) -> dict[str, Any]:
    """Version and size of a distribution; nothing for none."""
    if not name:
        return {}
    files = metadata.files(name) or []
    size = sum(file.size or 0 for file in files)
    return {"package": name, "version": metadata.version(name), "megabytes": round(size / 1e6, 1)}


def main() -> None:
    """Measure what is installed, print a table, and keep it in `results/`."""
    results = {}
    for name, (distribution, split) in SPLITTERS.items():
        try:
            about = package(distribution)
        except metadata.PackageNotFoundError:
            print(f"{name}: not installed")
            continue
        results[name] = about | measure(split)
        told = ", ".join(f"{key} {value:.1%}" for key, value in results[name]["mean"].items())
        print(f"{name}: {told}, {results[name]['characters_per_second']:,} characters a second")
    environs = environment(torch.device("cpu")) | {"threads": 1}
    result = {"date": datetime.now(UTC).date().isoformat(), "environment": environs, "splitters": results}
    RESULTS.write_bytes(json.dumps(result, indent=1).encode() + b"\n")


if __name__ == "__main__":
    main()
