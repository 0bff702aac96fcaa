"""The paper's claims, where our tables show whether they hold, and the rules that judge it."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from allyouneed.lab.paper.pages.results_table import Cell, ResultLine, ResultsTable

Mark = str
"""A verdict of `VERDICTS`, or PARTLY."""
PARTLY: Final = "partly"


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, and where our tables show whether it holds."""

    place: str
    text: str
    experiment: str
    column: str
    """Title of the column that is told and drawn."""
    rows: Mapping[str, str]
    """Row -> its name in the sentence, in the order of the plot."""
    rule: "Rule"


Lines = Sequence[tuple[ResultLine, Cell]]
"""The rows of a claim, and their cells in its column."""
Rule = Callable[[ResultsTable, Lines], Mark]


def number(text: str) -> float:
    """The value of a figure as tables print it: `29.81 ± 0.24`, `13,604`, `7.0e-08`, `∞`."""
    return math.inf if text == "∞" else float(text.partition(" ")[0].replace(",", ""))


def as_tested(table: ResultsTable, lines: Lines) -> Mark:
    """The mark by the tests of the claim's figure, which compare rows with baselines as the paper does."""
    return _together([cell.verdicts for _, cell in lines if cell.verdicts])


def _together(of_rows: Sequence[Sequence[str]]) -> Mark:
    """One mark for the verdicts of several rows; it is that of the paper if each row agrees."""
    found = {verdict for verdicts in of_rows for verdict in verdicts}
    if "as the paper" not in found:
        return next((name for name in ("not as the paper", "not told apart") if name in found), "not tested")
    agree = all("as the paper" in verdicts for verdicts in of_rows) and "not as the paper" not in found
    return "as the paper" if agree else PARTLY


def close(tolerance: float) -> Rule:
    """The figures are the paper's, up to a share of them, or of 1 if they are smaller."""

    def rule(table: ResultsTable, lines: Lines) -> Mark:
        pairs = [(number(cell.ours), number(cell.paper)) for _, cell in lines if cell.paper]
        near = [ours == paper or abs(ours - paper) <= tolerance * max(abs(paper), 1) for ours, paper in pairs]
        return "as the paper" if all(near) else PARTLY if any(near) else "not as the paper"

    return rule


def beside_first(*, higher: bool) -> Rule:
    """The paper has no figures, but says that the first row is the better one; tests show it."""

    def rule(table: ResultsTable, lines: Lines) -> Mark:
        first = number(lines[0][1].ours)
        return _together(
            [
                [_decided(verdict, (first > number(cell.ours)) == higher) for verdict in cell.verdicts]
                for _, cell in lines[1:]
            ]
        )

    return rule


def _decided(verdict: str, as_said: bool) -> str:
    if verdict != "differs":
        return verdict
    return "as the paper" if as_said else "not as the paper"


def untested(table: ResultsTable, lines: Lines) -> Mark:
    """Shown by one seed, or without a figure of the paper: the reader sees the figures."""
    return "not tested"


_SYSTEMS: Final = {
    "transformer": "Transformer",
    "recurrent": "GNMT",
    "convolutional": "ConvS2S",
    "bytenet": "ByteNet",
    "experts": "MoE",
}
CLAIMS: Final = (
    Claim(
        "Table 1",
        "A self-attention layer costs n²·d operations, a recurrent or convolutional one n·d²",
        "table1",
        "exponent of n, FLOPs",
        {"self_attention": "self-attention", "recurrent": "recurrent", "convolutional": "convolutional"},
        close(0.05),
    ),
    Claim(
        "Table 1",
        "Any two of 64 positions are one step apart in self-attention; "
        "in a recurrent layer the path grows to 64",
        "table1",
        "path",
        {"self_attention": "self-attention", "dilated": "dilated", "restricted": "restricted"}
        | {"convolutional": "convolutional", "recurrent": "recurrent"},
        close(0.0),
    ),
    Claim(
        "4",
        "Short paths make distant dependencies easier to learn",
        "paths",
        "back, n = 64",
        {"self_attention": "self-attention", "restricted": "restricted", "dilated": "dilated"}
        | {"convolutional": "convolutional", "recurrent": "recurrent"},
        beside_first(higher=True),
    ),
    Claim(
        "3.2.2",
        "A single head averages over the places it attends to; several heads do not have to",
        "paths",
        "joint, n = 8",
        {"self_attention": "8 heads", "one_head": "1 head"},
        beside_first(higher=True),
    ),
    Claim(
        "3.2.1",
        "Dot products of random vectors have the variance d_k",
        "scaling",
        "variance",
        {f"random_unscaled_{d_k}": f"d_k {d_k}" for d_k in (4, 16, 64, 256, 1024)},
        close(0.02),
    ),
    Claim(
        "3.2.1",
        "Without scaling, dot products do worse than additive attention when d_k is large",
        "scaling",
        "BLEU",
        {"scaled_256": "scaled", "additive_256": "additive", "unscaled_256": "unscaled"},
        untested,
    ),
    Claim(
        "3.5",
        "PE(pos + k) is a linear function of PE(pos)",
        "extrapolation",
        "error of shift",
        {"linear": "ours"},
        close(1e-6),
    ),
    Claim(
        "3.5",
        "Sinusoids may extrapolate to sentences longer than those in training",
        "extrapolation",
        "perplexity, 41 to 60 tokens",
        {"sinusoids": "sinusoids", "learned": "learned"},
        beside_first(higher=False),
    ),
    Claim(
        "Table 2, En-De",
        "At equal training cost, the Transformer beats its rivals (the paper: at a fraction of their cost)",
        "table2",
        "BLEU",
        _SYSTEMS,
        as_tested,
    ),
    Claim(
        "Table 2, En-Fr",
        "The same from English to French",
        "table2-en-fr",
        "BLEU",
        _SYSTEMS,
        as_tested,
    ),
    Claim(
        "Table 3 (A)",
        "One head is worse than several, and so are too many",
        "table3",
        "BLEU",
        {"heads_1": "h 1", "heads_4": "4", "base": "8", "heads_16": "16", "heads_32": "32"},
        as_tested,
    ),
    Claim(
        "Table 3 (B)",
        "A smaller d_k hurts",
        "table3",
        "BLEU",
        {"dk_16": "d_k 16", "dk_32": "32", "base": "64"},
        as_tested,
    ),
    Claim(
        "Table 3 (C)",
        "Fewer layers hurt",
        "table3",
        "BLEU",
        {"layers_2": "N 2", "layers_4": "4", "base": "6"},
        as_tested,
    ),
    Claim(
        "Table 3 (C)",
        "Wider models are better",
        "table3",
        "BLEU",
        {"d_model_256": "d_model 256", "d_ff_1024": "d_ff 1024", "base": "base"}
        | {"d_ff_4096": "d_ff 4096", "d_model_1024": "d_model 1024"},
        as_tested,
    ),
    Claim(
        "Table 3 (D)",
        "Dropout helps to avoid overfitting",
        "table3",
        "BLEU",
        {"dropout_00": "0.0", "base": "0.1", "dropout_02": "0.2"},
        as_tested,
    ),
    Claim(
        "5.4",
        "Label smoothing hurts perplexity",
        "table3",
        "perplexity",
        {"smoothing_00": "0.0", "base": "0.1", "smoothing_02": "0.2"},
        as_tested,
    ),
    Claim(
        "5.4",
        "It helps BLEU all the same",
        "table3",
        "BLEU",
        {"smoothing_00": "0.0", "base": "0.1", "smoothing_02": "0.2"},
        as_tested,
    ),
    Claim(
        "Table 3 (E)",
        "Learned positions do nearly as well as sinusoids",
        "table3",
        "BLEU",
        {"base": "sinusoids", "learned_positions": "learned"},
        as_tested,
    ),
    Claim(
        "Table 4",
        "The Transformer learns to parse, and better with silver trees",
        "table4",
        "F1 unconstrained",
        {"supervised": "gold trees", "other_parser": "silver, too"},
        as_tested,
    ),
)
"""In the order of the page."""
