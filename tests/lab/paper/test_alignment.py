"""Heads learn to align: on the demo grammar, where it is known which words belong together, one does."""

from collections import Counter
from pathlib import Path

import pytest

from allyouneed import average, train
from allyouneed.config.presets import demo
from allyouneed.inference.alignment import Links
from allyouneed.inference.attention_weights import strongest_links
from allyouneed.lab.demo.grammar import DemoCorpus, DemoPair
from allyouneed.runs.loading import load_translator
from allyouneed.tasks.translation.translator import Translator

NUM_STEPS = 1_500
Heads = dict[tuple[int, int], list[Links]]
"""(layer, head), from 0, of the decoder -> the links of each sentence."""


def sure_links(links: Links) -> Links:
    """Those of one word with one word; where several words say something together all are only possible.

    So "rennt" may be linked to either word of "is running", and "zum" to either of "to the".
    """
    of_source, of_target = Counter(i for i, _ in links), Counter(j for _, j in links)
    return [(i, j) for i, j in links if of_source[i] == of_target[j] == 1]


def error_rate(found: list[Links], sure: list[Links], possible: list[Links]) -> float:
    """1 - (|A & S| + |A & P|) / (|A| + |S|): Och and Ney 2003, section 5.1."""
    right = sum(len({*a} & {*s}) + len({*a} & {*p}) for a, s, p in zip(found, sure, possible, strict=True))
    return 1 - right / sum(len(a) + len(s) for a, s in zip(found, sure, strict=True))


def error_rates(heads: Heads, pairs: list[DemoPair]) -> dict[tuple[int, int], float]:
    possible = [list(pair.alignment) for pair in pairs]
    sure = list(map(sure_links, possible))
    return {head: error_rate(found, sure, possible) for head, found in heads.items()}


def head_links(translator: Translator, pairs: list[DemoPair]) -> Heads:
    """For each word of a reference the source word that the head takes most of when the word is written."""
    heads: Heads = {}
    for pair in pairs:
        weights = translator.attention(pair.source, pair.target).in_words().cross
        for layer, of_layer in enumerate(weights):
            for head, of_head in enumerate(of_layer):
                heads.setdefault((layer, head), []).append(strongest_links(of_head[:-1, :-1]))
    return heads


def test_the_error_rate_is_that_of_och_and_ney_by_hand() -> None:
    sure, possible = [[(0, 0), (1, 1)]], [[(0, 0), (1, 1), (2, 1)]]
    assert error_rate(sure, sure, possible) == 0
    assert error_rate([[(2, 1)]], sure, possible) == pytest.approx(1 - 1 / 3)
    assert error_rate([[(0, 0), (0, 1)]], sure, possible) == pytest.approx(1 - 2 / 4)
    assert sure_links([(0, 0), (1, 1), (2, 1), (3, 2), (3, 4)]) == [(0, 0)]


@pytest.mark.release
def test_the_head_chosen_on_a_development_part_aligns_held_out_sentences(
    demo_corpus: DemoCorpus, demo_data: Path, tmp_path: Path
) -> None:
    # One head a layer: of several, none has to find the right word without the others.
    config = demo().replace(model={"num_heads": 1}, training={"num_steps": NUM_STEPS})
    train(tmp_path / "run", demo_data, config)
    average(tmp_path / "run", tmp_path / "model")
    translator = load_translator(tmp_path / "model")
    development, held_out = demo_corpus.valid[:200], demo_corpus.test[::2]
    on_development = error_rates(head_links(translator, development), development)
    chosen = min(on_development, key=lambda head: on_development[head])
    found = error_rates(head_links(translator, held_out), held_out)
    print(f"\nlayer {chosen[0] + 1}, head {chosen[1] + 1}: {found[chosen]:.3f} on {len(held_out)} sentences")
    assert len(held_out) == 500
    assert found[chosen] <= 0.10
