"""Labelled bracketing scores by the rules of EVALB with its COLLINS.prm (paper 6.3, Table 4).

https://nlp.cs.nyu.edu/evalb/. Words that the gold tree tags as punctuation are removed from both trees,
empty constituents and the root `TOP` do not count, and `ADVP` equals `PRT`.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from allyouneed.errors import DataError
from allyouneed.evaluation.scores import Score
from allyouneed.tasks.parsing.trees import Tree, without_function
from allyouneed.version import __version__

Span = tuple[str, int, int]
"""Label, index of the first word, and index after the last word."""


@dataclass(frozen=True)
class BracketRules:
    """Rules of the comparison; the defaults are those of COLLINS.prm."""

    deleted: frozenset[str] = frozenset({"TOP", "-NONE-", ",", ":", "``", "''", "."})
    """Tags of words to remove, and labels of constituents that do not count."""
    equal: tuple[frozenset[str], ...] = (frozenset({"ADVP", "PRT"}),)
    """Sets of labels, or tags, that count as equal."""

    def name(self, label: str) -> str:
        """The representative of a label without its function tag."""
        return self.representative(without_function(label))

    def representative(self, label: str) -> str:
        """The alphabetically first of all labels that equal this one."""
        return next((min(labels) for labels in self.equal if label in labels), label)


COLLINS = BracketRules()


@dataclass
class Brackets:
    """Number of constituents: matched, in the gold trees, and in the test trees."""

    matched: int = 0
    gold: int = 0
    test: int = 0

    @property
    def recall(self) -> float:
        """Recall in percent; 0 if the gold trees have no constituent."""
        return 100 * self.matched / self.gold if self.gold else 0.0

    @property
    def precision(self) -> float:
        """Precision in percent; 0 if the test trees have no constituent."""
        return 100 * self.matched / self.test if self.test else 0.0

    @property
    def f1(self) -> float:
        """F1 in percent, the harmonic mean of both; 0 if nothing matches."""
        both = self.gold + self.test
        return 200 * self.matched / both if both else 0.0

    def __iadd__(self, other: "Brackets") -> "Brackets":
        self.matched += other.matched
        self.gold += other.gold
        self.test += other.test
        return self


@dataclass
class SentenceScore:
    """Comparison of a tree with its gold tree."""

    length: int
    """Number of words, including punctuation."""
    brackets: Brackets
    by_label: dict[str, Brackets]
    num_words: int
    """Number of words without punctuation."""
    num_correct_tags: int
    """Number of these words with the correct tag."""
    is_exact: bool
    """Whether there is a tree and it has the same constituents."""


def score_tree(gold: Tree, test: Tree | None, rules: BracketRules = COLLINS) -> SentenceScore:
    """Compare a tree with its gold tree; a missing tree, None, has no constituent and no tag.

    Raises:
        DataError: The words of the two trees differ.
    """
    if test is not None:
        _require_same_words(gold, test)
    kept = [tag not in rules.deleted for tag in gold.tags]
    of_gold = _spans(gold, kept, rules)
    of_test = Counter[Span]() if test is None else _spans(test, kept, rules)
    matched = of_gold & of_test
    by_label: dict[str, Brackets] = {}
    for counts, name in ((matched, "matched"), (of_gold, "gold"), (of_test, "test")):
        for (label, _, _), number in counts.items():
            brackets = by_label.setdefault(label, Brackets())
            setattr(brackets, name, getattr(brackets, name) + number)
    tags = zip(gold.tags, test.tags if test else [""] * len(kept), kept, strict=True)
    return SentenceScore(
        length=sum(tag != "-NONE-" for tag in gold.tags),
        brackets=Brackets(matched.total(), of_gold.total(), of_test.total()),
        is_exact=test is not None and of_gold == of_test,
        by_label=by_label,
        num_words=sum(kept),
        num_correct_tags=sum(k and rules.representative(a) == rules.representative(b) for a, b, k in tags),
    )


def _require_same_words(gold: Tree, test: Tree) -> None:
    for place, (word, other) in enumerate(zip(gold.words, test.words, strict=False), start=1):
        if word != other:
            raise DataError(f"word {place} is {word!r} in the gold tree, but {other!r} in the other")
    if len(gold.words) != len(test.words):
        raise DataError(f"the gold tree has {len(gold.words)} words, the other {len(test.words)}")


def _spans(tree: Tree, kept: Sequence[bool], rules: BracketRules) -> Counter[Span]:
    """The constituents that count, as spans over the kept words."""
    place_of = [0]
    for is_kept in kept:
        place_of.append(place_of[-1] + is_kept)
    spans = ((rules.name(label), place_of[start], place_of[end]) for label, start, end in tree.constituents)
    return Counter(span for span in spans if span[1] < span[2] and span[0] not in rules.deleted)


@dataclass
class BracketScores:
    """Counts summed over sentences."""

    brackets: Brackets = field(default_factory=Brackets)
    by_label: dict[str, Brackets] = field(default_factory=lambda: defaultdict(Brackets))
    by_length: dict[int, Brackets] = field(default_factory=lambda: defaultdict(Brackets))
    """Length of a sentence in tens of words -> brackets; 0 stands for 1 to 10 words."""
    num_by_length: Counter[int] = field(default_factory=Counter)
    """Length of a sentence in tens of words -> number of sentences."""
    num_sentences: int = 0
    num_with_words: int = 0
    """Sentences not of punctuation alone, which EVALB skips."""
    num_exact: int = 0
    num_words: int = 0
    num_correct_tags: int = 0

    def add(self, sentence: SentenceScore) -> None:
        """Add the counts of one more sentence."""
        self.brackets += sentence.brackets
        for label, brackets in sentence.by_label.items():
            self.by_label[label] += brackets
        tens = (sentence.length - 1) // 10
        self.by_length[tens] += sentence.brackets
        self.num_by_length[tens] += 1
        self.num_sentences += 1
        self.num_with_words += sentence.num_words > 0
        self.num_exact += sentence.is_exact and sentence.num_words > 0
        self.num_words += sentence.num_words
        self.num_correct_tags += sentence.num_correct_tags

    def scores(self, tagged: bool) -> list[Score]:
        """F1, precision, recall, exact match, and tag accuracy if the model predicts tags (`tagged`)."""
        signature = f"evalb:COLLINS.prm|lengths:all|punctuation:by-gold-tags|version:allyouneed-{__version__}"
        values = {
            "bracket_f1": self.brackets.f1,
            "bracket_precision": self.brackets.precision,
            "bracket_recall": self.brackets.recall,
            "exact_match": 100 * self.num_exact / max(1, self.num_with_words),
        }
        if tagged:
            values["tag_accuracy"] = 100 * self.num_correct_tags / max(1, self.num_words)
        return [Score(name, value, signature) for name, value in values.items()]

    def label_table(self) -> str:
        """One line per label, most frequent in the gold trees first: counts, and scores in percent."""
        rows = sorted(self.by_label.items(), key=lambda item: (-item[1].gold, item[0]))
        return "\n".join([_row("label"), *(_row(label, brackets) for label, brackets in rows)])

    def length_table(self) -> str:
        """One line per range of sentence lengths: columns as in `label_table`, and number of sentences."""
        lines = [f"{_row('words')}{'sentences':>11}"]
        for tens, brackets in sorted(self.by_length.items()):
            lines.append(f"{_row(words_of(tens), brackets)}{self.num_by_length[tens]:>11}")
        return "\n".join(lines)


def words_of(tens: int) -> str:
    """The range of lengths of a key of `by_length`: `1-10` for 0."""
    return f"{10 * tens + 1}-{10 * tens + 10}"


def _row(name: str, brackets: Brackets | None = None) -> str:
    """A line of a table, or its header if `brackets` is None."""
    if brackets is None:
        return f"{name:<10}{'gold':>8}{'test':>8}{'matched':>9}{'recall':>9}{'precision':>11}{'F1':>8}"
    b = brackets
    counts = f"{name:<10}{b.gold:>8}{b.test:>8}{b.matched:>9}"
    return f"{counts}{b.recall:>9.2f}{b.precision:>11.2f}{b.f1:>8.2f}"


def score_trees(
    gold: Sequence[Tree | None], test: Sequence[Tree | None], rules: BracketRules = COLLINS
) -> BracketScores:
    """Compare trees with their gold trees, one by one; see `score_tree`.

    A sentence without a gold tree, None, keeps its number but is not scored.

    Raises:
        DataError: The numbers of trees differ or are 0, or a pair of trees has different words.
    """
    if len(gold) != len(test):
        raise DataError(f"{len(gold)} gold trees but {len(test)} to be scored; give one for each")
    if not any(gold):
        raise DataError("there are no trees to score; give at least one")
    total = BracketScores()
    for number, (wanted, found) in enumerate(zip(gold, test, strict=True), start=1):
        try:
            if wanted is not None:
                total.add(score_tree(wanted, found, rules))
        except DataError as error:
            raise DataError(
                f"sentence {number}: {error.messages[0]}; score trees of the same words"
            ) from None
    return total
