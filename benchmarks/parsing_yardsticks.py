"""What a parser has to be better than: right-branching trees, and an unlexicalised PCFG decoded exactly.

    python benchmarks/parsing_yardsticks.py train.mrg dev.mrg [--max-words N]
    python benchmarks/parsing_yardsticks.py train.mrg --parents --text news.txt --silver silver.mrg

Both parse the words of the second treebank. Right-branching is a VP over what follows each word. The grammar
is read off the first treebank (Charniak 1996): rules with their relative frequencies, of trees whose
functions and traces are taken away, and whose rules of more than two children are made binary from the left,
with as many children remembered as `--horizontal` says, and with each label's parent where `--parents` is
given (Johnson 1998). Words seen once or never share a signature of their endings. CKY finds the most probable
tree, unary rules closed under themselves; where there is none, the tree is right-branching.

With `--silver`, the PCFG parses the sentences of `--text` instead, for `reproduce table4 --silver-trees`;
sentences that are too long, or have no tree, are left out.
"""

import argparse
import math
import multiprocessing
import os
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from allyouneed.cli.progress import progress
from allyouneed.data.lines import is_blank, read_lines, write_lines
from allyouneed.evaluation.scores import format_scores
from allyouneed.tasks.parsing.bracket_f1 import score_trees
from allyouneed.tasks.parsing.parser import penn_words
from allyouneed.tasks.parsing.treebank import clean_trees, without_unary_cycles
from allyouneed.tasks.parsing.trees import Constituent, Tree, labels_around_words, read_trees

_SAMPLE = Path(os.environ.get("ALLYOUNEED_DATA", ".")) / "ptb_sample"

Node = tuple[str, list]  # type: ignore[type-arg]
"""A label and its children: nodes, or one word."""


def right_branching(words: Sequence[str]) -> Tree:
    """An S, in it a VP over what follows each word; no one label fits better. A full stop stays out."""
    num = len(words)
    inner = num - 1 if num > 1 and words[-1] in (".", "?", "!") else num
    constituents = [Constituent("TOP", 0, num), Constituent("S", 0, num)]
    constituents += [Constituent("VP", start, inner) for start in range(1, inner - 1)]
    return Tree(tuple(words), ("XX",) * num, tuple(constituents))


def node_of(tree: Tree) -> Node:
    """The tree as nested nodes; those of a treebank are not deep."""
    root: Node = ("", [])
    open_nodes = [root]
    around = labels_around_words(tree.constituents, len(tree.words))
    for word, tag, (begun, ended) in zip(tree.words, tree.tags, around, strict=True):
        for label in begun:
            node: Node = (label, [])
            open_nodes[-1][1].append(node)
            open_nodes.append(node)
        open_nodes[-1][1].append((tag, [word]))
        del open_nodes[len(open_nodes) - len(ended) :]
    return root[1][0]  # type: ignore[no-any-return]


class Grammar:
    """A PCFG in Chomsky normal form with unary rules.

    Args:
        trees: To read it off.
        horizontal: Children that a binarised rule remembers.
        parents: Whether labels of constituents carry that of their parent.
    """

    def __init__(self, trees: Sequence[Tree], horizontal: int, parents: bool) -> None:
        self._horizontal, self._parents = horizontal, parents
        frequency = Counter(word for tree in trees for word in tree.words)
        self._known = {word for word, number in frequency.items() if number > 1}
        rules: Counter[tuple[str, ...]] = Counter()
        lexicon: Counter[tuple[str, str]] = Counter()
        for tree in trees:
            for label, children in self._productions(node_of(without_unary_cycles(tree)), ""):
                if isinstance(children, str):
                    lexicon[label, self._known_form(children)] += 1
                else:
                    rules[(label, *children)] += 1
        self._index(rules, lexicon)

    def _known_form(self, word: str) -> str:
        return word if word in self._known else signature(word)

    def _productions(self, node: Node, parent: str) -> Iterator[tuple[str, tuple[str, ...] | str]]:
        waiting = [(node, parent)]
        while waiting:
            (label, children), above = waiting.pop()
            if isinstance(children[0], str):
                yield label, children[0]
                continue
            name = self._name(label, above)
            names = [
                child if isinstance(grandchildren[0], str) else self._name(child, label)
                for child, grandchildren in children
            ]
            waiting += [(child, label) for child in children]
            left = name
            while len(names) > 2:
                context = "_".join(names[: self._horizontal])
                rest = f"@{name}:{context}" if self._horizontal else f"@{name}"
                yield left, (names[0], rest)
                left, names = rest, names[1:]
            yield left, tuple(names)

    def _name(self, label: str, parent: str) -> str:
        return f"{label}^{parent}" if self._parents and label != "TOP" else label

    def _index(self, rules: Counter[tuple[str, ...]], lexicon: Counter[tuple[str, str]]) -> None:
        totals: Counter[str] = Counter()
        for (left, *_), number in [*rules.items(), *lexicon.items()]:
            totals[left] += number
        self.symbols = sorted({symbol for rule in rules for symbol in rule} | {tag for tag, _ in lexicon})
        place = {symbol: number for number, symbol in enumerate(self.symbols)}
        binary = [
            (place[r[0]], place[r[1]], place[r[2]], math.log(n / totals[r[0]]))
            for r, n in rules.items()
            if len(r) == 3
        ]
        self.left, self.first, self.second = (np.array(c) for c in list(zip(*binary, strict=True))[:3])
        self.weight = np.array([entry[3] for entry in binary])
        order = np.argsort(self.left, kind="stable")
        self.left, self.first, self.second, self.weight = (
            array[order] for array in (self.left, self.first, self.second, self.weight)
        )
        self.starts = np.flatnonzero(np.diff(self.left, prepend=-1))
        self.heads = self.left[self.starts]
        unary = np.full((len(place), len(place)), -np.inf)
        for rule, number in rules.items():
            if len(rule) == 2:
                unary[place[rule[0]], place[rule[1]]] = math.log(number / totals[rule[0]])
        self._close(unary)
        self.lexicon: dict[str, list[tuple[int, float]]] = defaultdict(list)
        for (tag, word), number in lexicon.items():
            self.lexicon[word].append((place[tag], math.log(number / totals[tag])))
        rare: Counter[str] = Counter()
        for (tag, word), number in lexicon.items():
            rare[tag] += number * word.startswith("<")
        # A word whose signature was never seen: whatever rare words are.
        self.unseen = [(place[tag], math.log(n / totals[tag])) for tag, n in rare.items() if n]
        self.root = place["TOP"]

    def _close(self, unary: NDArray[np.float64]) -> None:
        """The best chain of unary rules between any two symbols (Floyd and Warshall), at least the empty."""
        best = unary.copy()
        np.fill_diagonal(best, 0.0)
        between = np.full(best.shape, -1)
        for middle in range(len(best)):
            longer = best[:, middle, None] + best[None, middle]
            better = longer > best
            best[better], between[better] = longer[better], middle
        self.unary, self.between = best, between
        self.unary_parents = np.flatnonzero((np.isfinite(best) & ~np.eye(len(best), dtype=bool)).any(1))

    def chain(self, above: int, below: int) -> list[int]:
        """The symbols from `above` down to, not including, `below`."""
        if above == below:
            return []
        middle = self.between[above, below]
        if middle < 0:
            return [above]
        return self.chain(above, int(middle)) + self.chain(int(middle), below)

    def parse(self, words: Sequence[str]) -> Tree | None:
        """The most probable tree; None where the grammar has none."""
        num, size = len(words), len(self.symbols)
        before = np.full((num, num + 1, size), -np.inf)  # scores of spans, without a unary chain on top
        after = before.copy()
        split = np.zeros((num, num + 1, size), np.int32)
        rule = np.zeros((num, num + 1, size), np.int32)
        chained = np.zeros((num, num + 1, size), np.int32)
        for length in range(1, num + 1):
            for start in range(num - length + 1):
                end = start + length
                cell = before[start, end]
                if length == 1:
                    for tag, weight in self.lexicon.get(self._known_form(words[start])) or self.unseen:
                        cell[tag] = weight
                else:
                    self._combine(after, start, end, cell, split[start, end], rule[start, end])
                self._add_chains(cell, after[start, end], chained[start, end])
        if not np.isfinite(after[0, num, self.root]):
            return None
        return self._read(words, split, rule, chained)

    def _combine(self, after, start, end, cell, split, rule) -> None:  # type: ignore[no-untyped-def]
        """The best rule and place of division of each symbol over a span."""
        lefts = after[start, start + 1 : end]  # (divisions, symbols)
        rights = after[start + 1 : end, end]
        scores = lefts[:, self.first] + rights[:, self.second]  # (divisions, rules)
        division = scores.argmax(0)
        best = scores[division, np.arange(scores.shape[1])] + self.weight
        tops = np.maximum.reduceat(best, self.starts)
        is_top = best == np.repeat(tops, np.diff([*self.starts, len(best)]))
        winners = np.flatnonzero(is_top & np.isfinite(best))[::-1]  # the first one stays
        cell[self.left[winners]] = best[winners]
        split[self.left[winners]] = start + 1 + division[winners]
        rule[self.left[winners]] = winners

    def _add_chains(self, cell, after, chained) -> None:  # type: ignore[no-untyped-def]
        after[:] = cell
        chained[:] = np.arange(len(cell))
        present = np.flatnonzero(np.isfinite(cell))
        if len(present):
            scores = self.unary[np.ix_(self.unary_parents, present)] + cell[present]
            below = scores.argmax(1)
            best = scores[np.arange(len(scores)), below]
            after[self.unary_parents] = best
            chained[self.unary_parents] = present[below]

    def _read(self, words, split, rule, chained) -> Tree:  # type: ignore[no-untyped-def]
        tags = [""] * len(words)
        constituents: list[Constituent] = []
        waiting = [(0, len(words), self.root)]
        while waiting:
            start, end, symbol = waiting.pop()
            below = int(chained[start, end, symbol])
            chain = self.chain(symbol, below)
            inner = [*chain, below] if end - start > 1 else chain
            for each in inner:
                label = self.symbols[each].partition("^")[0]
                if not label.startswith("@"):
                    constituents.append(Constituent(label, start, end))
            if end - start == 1:
                tags[start] = self.symbols[below]
            else:
                number, middle = int(rule[start, end, below]), int(split[start, end, below])
                waiting.append((middle, end, int(self.second[number])))
                waiting.append((start, middle, int(self.first[number])))
        return Tree(tuple(words), tuple(tags), tuple(constituents))


def signature(word: str) -> str:
    """What stands for a rare word: capitals, digits, a hyphen, and its ending."""
    kind = "C" if word[0].isupper() else "l"
    kind += "9" if any(map(str.isdigit, word)) else ""
    kind += "-" if "-" in word else ""
    endings = ("ing", "ed", "ly", "tion", "er", "est", "ity", "al", "ble", "ous", "s", "y")
    return f"<{kind}{next((e for e in endings if word.endswith(e)), '')}>"


def write_silver(grammar: Grammar, options: argparse.Namespace) -> None:
    """Parse the sentences of `--text` on all cores, and write their trees."""
    sentences = (penn_words(line) for line in read_lines(options.text) if not is_blank(line))
    short = [words for words in sentences if len(words) <= options.max_words]
    trees = []
    with (
        multiprocessing.get_context("fork").Pool() as pool,
        progress(len(short), unit="sentences", description="parsing") as shown,
    ):
        for tree in pool.imap(grammar.parse, short, chunksize=16):
            shown.advance()
            trees += [tree] if tree else []
    write_lines(options.silver, map(str, trees))
    print(f"{options.silver}: {len(trees):,} trees of {len(short):,} sentences")


def main() -> None:
    """Print the scores of both."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for part in ("train", "dev"):
        given = f"by default $ALLYOUNEED_DATA/ptb_sample/{part}.mrg"
        parser.add_argument(part, type=Path, nargs="?", default=_SAMPLE / f"{part}.mrg", help=given)
    parser.add_argument("--max-words", type=int, default=10_000, help="leave longer sentences of dev out")
    parser.add_argument("--horizontal", type=int, default=1)
    parser.add_argument("--parents", action="store_true")
    parser.add_argument("--text", type=Path, help="sentences to parse for --silver, one a line")
    parser.add_argument("--silver", type=Path, help="file to write the trees of --text to")
    options = parser.parse_args()
    if (options.text is None) != (options.silver is None):
        parser.error("--text and --silver go together")
    other = options.text or options.dev
    if missing := [path for path in (options.train, other) if not path.is_file()]:
        print(f"NOT RUN: {missing[0]}: no such file; name trees to train on and trees to judge by")
        return
    train = [tree for tree, _ in clean_trees(read_trees(options.train))]
    if options.silver:
        write_silver(Grammar(train, options.horizontal, options.parents), options)
        return
    gold = [tree for tree, _ in clean_trees(read_trees(options.dev))]
    gold = [tree for tree in gold if len(tree.words) <= options.max_words]
    branching = [right_branching(tree.words) for tree in gold]
    print("right-branching", format_scores(score_trees(gold, branching).scores(tagged=False)), sep="\n")
    began = time.perf_counter()
    grammar = Grammar(train, options.horizontal, options.parents)
    found = [grammar.parse(tree.words) for tree in gold]
    complete = [tree or right_branching(tree_gold.words) for tree, tree_gold in zip(found, gold, strict=True)]
    scores = score_trees(gold, complete).scores(tagged=True)
    print(
        f"\nPCFG of {len(grammar.symbols):,} symbols and {len(grammar.weight):,} binary rules,"
        f" {sum(tree is None for tree in found)} sentences without a tree,"
        f" {time.perf_counter() - began:.0f} s",
        format_scores(scores),
        sep="\n",
    )


if __name__ == "__main__":
    main()
