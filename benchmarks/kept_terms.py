"""What terms and placeholders cost and gain, with models that have learned them and models that have not.

    python benchmarks/kept_terms.py TEXT MODEL..

TEXT has `train.en`, `train.de`, `val.en` and `val.de` of Multi30k. The terms are the 200 most frequent
English words of the training part that translate one noun, by IBM model 1. For placeholders, `{x}` stands in
place of the first term on both sides, where the reference has all terms. Translations of `val` are compared
with its references by BLEU without case. Writes benchmarks/results/kept_terms.json.
"""

import json
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sacrebleu
import torch

from allyouneed import KeepingTranslator, load_translator
from allyouneed.data.corpus import read_parallel
from allyouneed.data.lines import read_lines
from allyouneed.data.word_translations import WordTranslations
from allyouneed.hardware.machine import environment
from allyouneed.tasks.translation.outputs import Translation
from allyouneed.tasks.translation.translator import Translator
from allyouneed.terms.glossary import Glossary, Term

RESULTS = Path(__file__).parent / "results" / "kept_terms.json"
NUM_TERMS, LEAST_LETTERS, PLACEHOLDER = 200, 4, "{x}"


def nouns(text: Path) -> list[tuple[str, str]]:
    """The most frequent words that translate one noun, with it."""
    pairs = [*read_parallel([text / "train.en"], [text / "train.de"])]
    counts = Counter(word.lower() for pair in pairs for word in re.findall(r"[A-Za-z]+", pair.source))
    found = list[tuple[str, str]]()
    for word, (noun, *others) in WordTranslations.learn(pairs).translations.items():
        if len(word) >= LEAST_LETTERS and noun[0].isupper() and not others:
            found.append((word, noun))
    return sorted(found, key=lambda each: -counts[each[0]])[:NUM_TERMS]


def with_placeholders(source: str, reference: str, term: Term) -> Iterator[tuple[str, str]]:
    """The texts with a placeholder in place of a term, if both have it once."""
    forms = "|".join(map(re.escape, dict.fromkeys(term.forms)))
    masked, number = re.subn(rf"(?<!\w)(?:{forms})(?!\w)", PLACEHOLDER, reference)
    if number == 1 and source.count(source[term.begin : term.end]) == 1:
        yield source[: term.begin] + PLACEHOLDER + source[term.end :], masked


def row(
    translator: Translator | KeepingTranslator, sources: Sequence[str], references: Sequence[str]
) -> tuple[dict[str, Any], Sequence[Translation]]:
    """BLEU, processor seconds and fates of a translation, and the translation."""
    began = time.process_time()
    found = translator.translate(sources)
    fates = Counter(part.fate for each in found for part in each.kept or ())
    seconds = round(time.process_time() - began, 1)
    return {"bleu": bleu(found, references), "cpu_seconds": seconds, "fates": fates}, found


def bleu(found: Iterable[Translation], references: Sequence[str]) -> float:
    """BLEU without case."""
    texts = [each.text for each in found]
    return round(float(sacrebleu.corpus_bleu(texts, [references], lowercase=True).score), 2)


def main(text: Path, models: Sequence[Path]) -> None:
    """Measure each model and write the results."""
    file = Path(tempfile.mkdtemp()) / "terms.tsv"
    file.write_bytes("".join(f"{source}\t{target}\n" for source, target in nouns(text)).encode())
    sources, references = ([*read_lines(text / f"val.{side}")] for side in ("en", "de"))
    terms = [*map(Glossary.read(file).terms, sources)]
    agree = [
        place
        for place, (its, reference) in enumerate(zip(terms, references, strict=True))
        if its and all(term.count_in(reference) for term in its)
    ]
    masked = [each for i in agree for each in with_placeholders(sources[i], references[i], terms[i][0])]
    results: dict[str, Any] = {
        "measured": datetime.now(UTC).isoformat(timespec="seconds"),
        "environment": environment(torch.device("cpu")),
        "num_terms": sum(map(len, terms)),
        "num_agreeing": len(agree),
        "num_with_placeholders": len(masked),
    }
    for model in models:
        translator = load_translator(model)
        ways: dict[str, Translator | KeepingTranslator] = {
            "plain": translator,
            "required": KeepingTranslator.of(translator, glossary=file),
        }
        if translator.config.data.annotate_terms:
            ways["suggested"] = KeepingTranslator.of(translator, glossary=file, suggest_terms=True)
        rows = results[model.name] = dict[str, Any]()
        for name, way in ways.items():
            rows[name], found = row(way, sources, references)
            there = [
                term.count_in(best.text) > 0 for its, best in zip(terms, found, strict=True) for term in its
            ]
            rows[name]["share_of_terms"] = round(sum(there) / len(there), 4)
            rows[name]["bleu_of_agreeing"] = bleu((found[i] for i in agree), [references[i] for i in agree])
        keeping = KeepingTranslator.of(translator, keep=True)
        rows["placeholders"], _ = row(keeping, [each for each, _ in masked], [each for _, each in masked])
        print(model.name, json.dumps(rows, indent=1))
    RESULTS.write_bytes(json.dumps(results, indent=1).encode())


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(each) for each in sys.argv[2:]])
