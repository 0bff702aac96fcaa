"""The demo: train a model on sentences of the demo grammar and score it beside two baselines.

OUT holds `corpus/` (text, trees and alignments), `data/`, `run/`, `model/`, the translations of the test set
(`test.de`) and `evaluate.json`; the command adds `attention.png`. A step whose output exists is skipped."""

import json
import math
import re
import signal
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch

from allyouneed.config.presets import demo as demo_preset
from allyouneed.config.run import RunConfig
from allyouneed.data.corpus_files import CorpusFiles
from allyouneed.data.lines import read_lines, write_lines
from allyouneed.evaluation.bleu import bleu_13a
from allyouneed.evaluation.metrics import chrf
from allyouneed.evaluation.scores import Score, scores_to_json
from allyouneed.lab.demo.grammar import DemoCorpus, demo_dictionary, generate_demo_corpus
from allyouneed.preparation.preparing import prepare
from allyouneed.runs.loading import load_translator
from allyouneed.runs.starting import average, train
from allyouneed.storage.publish import publish_directory, write_text
from allyouneed.training.trainer import Report

_TOKEN = re.compile(r"\w+|[^\w\s]")
_SPACE_BEFORE_MARK = re.compile(r"\s+(?=[.,;:!?])")


def translate_word_by_word(sentences: Sequence[str], dictionary: Mapping[str, str]) -> list[str]:
    """Replace every word by its dictionary entry, in source order.

    A word without an entry is looked up in lower case, then copied; an empty entry drops the word. The result
    starts with a capital letter.
    """
    found = []
    for sentence in sentences:
        tokens = _TOKEN.findall(sentence)
        words = (dictionary.get(word, dictionary.get(word.lower(), word)) for word in tokens)
        text = _SPACE_BEFORE_MARK.sub("", " ".join(word for word in words if word))
        found.append(text[:1].upper() + text[1:])
    return found


def nearest_sentence(
    sentences: Sequence[str], train_sources: Sequence[str], train_targets: Sequence[str]
) -> list[str]:
    """For each sentence, the target of the nearest training source; the first one on a tie.

    The nearest source has the highest cosine similarity between bags of words and word pairs, weighted by
    inverse document frequency, so that rare words and their neighbours count most. A sentence that shares
    nothing with any training source gets the first target.

    Raises:
        ValueError: There are no training sources, or the numbers of sources and targets differ.
    """
    if not train_sources or len(train_sources) != len(train_targets):
        raise ValueError(f"{len(train_sources)} training sources for {len(train_targets)} targets")
    bags = [_features(source) for source in train_sources]
    document_frequency = Counter(feature for bag in bags for feature in bag)
    idf = {feature: math.log(1 + len(bags) / count) for feature, count in document_frequency.items()}
    postings: dict[str, tuple[list[int], list[float]]] = defaultdict(lambda: ([], []))
    for row, bag in enumerate(bags):
        norm = math.sqrt(sum((count * idf[feature]) ** 2 for feature, count in bag.items()))
        for feature, count in bag.items():
            rows, shares = postings[feature]
            rows.append(row)
            shares.append(count * idf[feature] / norm)
    index = {feature: (np.array(rows), np.array(shares)) for feature, (rows, shares) in postings.items()}
    found = []
    for sentence in sentences:
        scores = np.zeros(len(bags))
        for feature, count in _features(sentence).items():
            if feature in index:
                places, parts = index[feature]
                scores[places] += count * idf[feature] * parts
        found.append(train_targets[int(scores.argmax())])
    return found


def _features(sentence: str) -> Counter[str]:
    words = _TOKEN.findall(sentence.lower())
    return Counter([*words, *map(" ".join, pairwise(words))])


MODEL = "this model"
DICTIONARY = "word by word"
NEAREST = "nearest training sentence"


@dataclass(frozen=True)
class TranslatedExample:
    """A test sentence with its reference and the model's translation."""

    source: str
    reference: str
    translation: str


@dataclass(frozen=True)
class DemoResult:
    """Scores of the model and of each baseline, and the whole test set."""

    scores: Mapping[str, Sequence[Score]]
    examples: Sequence[TranslatedExample]


def run_demo(
    out: Path,
    device: torch.device,
    *,
    corpus: DemoCorpus | None = None,
    config: RunConfig | None = None,
    report: Report = lambda event: None,
    say: Callable[[str], None] = lambda line: None,
) -> DemoResult:
    """Generate the corpus, prepare it, train, average checkpoints, translate the test set and score it.

    Args:
        out: Output directory; an interrupted demo resumes from it.
        device: Device to compute on.
        corpus: Corpus to use instead of that of `generate_demo_corpus`.
        config: Configuration to use instead of the preset `demo`.
        report: Callback for every training event.
        say: Callback for a line as each step starts.
    """
    texts, data, run, model = out / "corpus", out / "data", out / "run", out / "model"
    say("generating English-German sentence pairs from a grammar")
    corpus, config = corpus or generate_demo_corpus(), config or demo_preset()
    if not texts.exists():
        _write_corpus(texts, corpus)
    if not data.exists():
        say("learning sub-words, storing the pairs as token ids")
        languages = config.data.replace(source_language="en", target_language="de")
        prepare(data, _files(texts, "train"), _files(texts, "valid"), languages)
    say("training")
    received = train(run, data, config, resume=True, device=device, report=report, say=say)
    if received is not None:
        signal.raise_signal(received)  # everything is saved; let the signal end the process
        raise SystemExit(128 + received)  # in case the process was started with the signal ignored
    if not model.exists():
        average(run, model)
    translations = out / "test.de"
    if not translations.exists():
        say("translating sentences that were not trained on")
        found = load_translator(model, device=device).translate([pair.source for pair in corpus.test])
        write_text(translations, "".join(f"{translation.text}\n" for translation in found))
    say("scoring")
    return _evaluate(out / "evaluate.json", corpus, list(read_lines(translations)))


def _write_corpus(directory: Path, corpus: DemoCorpus) -> None:
    """Write text, bracketed trees (`.trees`) and word alignments (`i-j`, from 0) of each set."""
    with publish_directory(directory, "corpus") as aside:
        for part, pairs in (("train", corpus.train), ("valid", corpus.valid), ("test", corpus.test)):
            write_lines(aside / f"{part}.en", (pair.source for pair in pairs))
            write_lines(aside / f"{part}.de", (pair.target for pair in pairs))
            write_lines(aside / f"{part}.en.trees", (pair.source_tree for pair in pairs))
            write_lines(aside / f"{part}.de.trees", (pair.target_tree for pair in pairs))
            alignments = (" ".join(f"{i}-{j}" for i, j in pair.alignment) for pair in pairs)
            write_lines(aside / f"{part}.alignments", alignments)


def _files(corpus: Path, part: str) -> CorpusFiles:
    return CorpusFiles(sources=[corpus / f"{part}.en"], targets=[corpus / f"{part}.de"])


def _evaluate(path: Path, corpus: DemoCorpus, translations: list[str]) -> DemoResult:
    sources, references = [pair.source for pair in corpus.test], [pair.target for pair in corpus.test]
    train_sources = [pair.source for pair in corpus.train]
    train_targets = [pair.target for pair in corpus.train]
    systems = {
        MODEL: translations,
        DICTIONARY: translate_word_by_word(sources, demo_dictionary(corpus.train)),
        NEAREST: nearest_sentence(sources, train_sources, train_targets),
    }
    scores = {
        name: [metric(texts, references) for metric in (bleu_13a, chrf)] for name, texts in systems.items()
    }
    contents = {name: scores_to_json(of_system) for name, of_system in scores.items()}
    write_text(path, json.dumps(contents, indent=1) + "\n")
    return DemoResult(
        scores, [TranslatedExample(*texts) for texts in zip(sources, references, translations, strict=True)]
    )
