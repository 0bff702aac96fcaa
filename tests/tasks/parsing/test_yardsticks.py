"""The PCFG that parsers are compared with is decoded exactly: beside a slow and plain Viterbi search."""

import importlib.util
import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from allyouneed.tasks.parsing.treebank import without_unary_cycles
from allyouneed.tasks.parsing.trees import Tree, tree_of

BracketRules = dict[tuple[str, ...], float]
"""The left-hand side, then the right -> log-probability."""


@pytest.fixture(scope="module")
def yardsticks() -> Any:
    file = Path(__file__).parents[3] / "benchmarks" / "parsing_yardsticks.py"
    spec = importlib.util.spec_from_file_location("parsing_yardsticks", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def random_tree(draw: Random, depth: int = 0) -> str:
    """With up to three children a constituent, and chains of constituents over the same words."""
    if depth == 4 or (depth > 1 and draw.random() < 0.4):
        return f"({draw.choice('XYZ')} {draw.choice('abcd')})"
    children = " ".join(random_tree(draw, depth + 1) for _ in range(draw.choice((1, 1, 2, 2, 3))))
    return f"({draw.choice('ABC') if depth else 'TOP'} {children})"


def rules_of(grammar: Any, trees: Sequence[tuple[Any, ...]]) -> Counter[tuple[str, ...]]:
    """How often each rule occurs in some trees, as nodes; words are rules of one word."""
    return Counter(
        (left, *([f"word {right}"] if isinstance(right, str) else right))
        for tree in trees
        for left, right in grammar._productions(tree, "")
    )


def best_score(rules: BracketRules, words: Sequence[str]) -> float:
    """Of any tree over the words: all rules on all spans, unary ones until nothing gets better."""
    best: dict[tuple[int, int], dict[str, float]] = defaultdict(lambda: defaultdict(lambda: -math.inf))
    for length in range(1, len(words) + 1):
        for start in range(len(words) - length + 1):
            end = start + length
            here = best[start, end]
            for (left, *right), weight in rules.items():
                if right == [f"word {words[start]}"] and length == 1:
                    here[left] = weight
                for middle in range(start + 1, end) if len(right) == 2 else ():
                    score = weight + best[start, middle][right[0]] + best[middle, end][right[1]]
                    here[left] = max(here[left], score)
            before = None
            while before != dict(here):
                before = dict(here)
                for (left, *right), weight in rules.items():
                    if len(right) == 1 and right[0] in before:
                        here[left] = max(here[left], weight + before[right[0]])
    return best[0, len(words)]["TOP"]


@pytest.mark.parametrize("seed", range(6))
def test_the_tree_found_is_as_probable_as_any(yardsticks: Any, seed: int) -> None:
    draw = Random(seed)
    trees = [tree_of(random_tree(draw)) for _ in range(12)] + [
        tree_of("(TOP (A (X a) (Y b) (Z c) (X d)))")
    ] * 2
    grammar = yardsticks.Grammar(trees, horizontal=seed % 3, parents=seed % 2 == 1)

    def counts(of: Sequence[Tree]) -> Counter[tuple[str, ...]]:
        return rules_of(grammar, [yardsticks.node_of(without_unary_cycles(tree)) for tree in of])

    seen, totals = counts(trees), Counter[str]()
    for (left, *_), number in seen.items():
        totals[left] += number
    rules = {rule: math.log(number / totals[rule[0]]) for rule, number in seen.items()}
    num_found = 0
    for _ in range(15):
        words = draw.choices("abcd", k=draw.randint(1, 5))
        expected, found = best_score(rules, words), grammar.parse(words)
        if found is None:
            assert expected == -math.inf
            continue
        num_found += 1
        score = sum(number * rules[rule] for rule, number in counts([found]).items())
        assert score == pytest.approx(expected)
    assert num_found > 3
