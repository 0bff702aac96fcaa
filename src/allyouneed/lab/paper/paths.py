"""Claims on paths (4) and on heads (3.2.2), tested by accuracy: networks learn to look far back."""

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from matplotlib.figure import Figure as Picture
from torch import Tensor, nn
from torch.nn import functional

from allyouneed.explorer.html_parts import finish_panel, heading, legend_of, panel, plot
from allyouneed.hardware.devices import PYTORCH_THREADS
from allyouneed.lab.paper.experiment import Experiment, Figure, Results, Row, Work
from allyouneed.lab.paper.scales import Scale
from allyouneed.model.comparison.layer_kinds import (
    ComparedLayer,
    ConvolutionalLayer,
    FullSelfAttention,
    PositionWise,
    RecurrentLayer,
    RestrictedSelfAttention,
)
from allyouneed.model.positional_encoding import SinusoidalPositions

NUM_ANSWERS = 16
"""Number of answers that are possible, all equally probable."""
NOT_ASKED = -100
"""The answer of a position that is not asked; PyTorch's losses ignore it."""
_NUM_KEYS = 64
"""Number of keys to draw from; more if a sequence has more."""
_KEYS_AT_ONCE = 4
"""Number of keys, all different, that a query of `joint` asks for: two to the power of it is NUM_ANSWERS."""
WIDTH, NUM_HEADS, K, R = 64, 8, 3, 16
"""Width of all networks, heads, kernel width k, and neighbourhood size r."""
LENGTHS = (4, 8, 16, 32, 64)
QUICK_LENGTHS = (4, 16)
_BATCH_TOKENS, _NUM_UPDATES, _WARMUP = 2_048, 800, 50
_RATE, _LAST_RATE = 4e-3, 0.05
"""Highest learning rate, and the share of it that is left at the end."""
_CHECK_EVERY, _LEARNED, _GUESSING = 50, 0.999, 1.3 / NUM_ANSWERS
_NUM_CHECKED, _NUM_ASKED = 1_024, 8_192
"""Number of answers that an accuracy is measured on, during training and in the end."""
REMEMBERED = 90.0
"""Accuracy in % from which a network counts as having learned a task."""

_NOTES = [
    "All networks have two blocks, for `joint` one, of a layer of the row's kind and a position-wise "
    f"network (3.3), width {WIDTH}, and sinusoids. A layer of restricted attention (r = {R}) sees {R // 2} "
    f"positions back, a convolution (k = {K}) the last {K}, and the dilated convolution of the second block "
    "three of the last seven.",
    "Tasks: `back`, what was n positions before? `recall`, which of 16 values came with this key, one of "
    "n? `joint`, which values, 0 or 1, came with these four keys of n, in this order? A sequence of size n "
    "has 2n positions, whose later half is asked.",
    "Each network learns each task and size by itself, from sequences that never come again: at most "
    f"{_NUM_UPDATES} updates of about {_BATCH_TOKENS:,} positions. Training ends early at an accuracy of "
    f"{_LEARNED:.1%}, or if it is no better than guessing after half of the updates. {NUM_ANSWERS} answers "
    f"are possible, so guessing has {100 / NUM_ANSWERS:.2f}%.",
    f"Adam, one learning rate for all: {_RATE:g} after {_WARMUP} updates, then falling in a straight line. "
    "It was chosen among 0.002, 0.004 and 0.01 for the recurrent network at n = 8 and 16.",
    f"`longest` is the largest size up to which all have an accuracy of at least {REMEMBERED:g}%. The "
    "paper's is the largest size within reach of two layers (Table 1); recurrent layers reach everything, "
    "by paths as long as the distance.",
]


class Sequences(NamedTuple):
    """A batch of sequences."""

    symbols: Int[Tensor, "batch length columns"]
    answers: Int[Tensor, "batch length"]


class RecallTask(NamedTuple):
    """A task of a size n."""

    title: str
    """The things that n counts."""
    draw: Callable[[int, int, torch.Generator], Sequences]
    """n, number of sequences, generator -> sequences of 2n positions, the later half asked."""
    vocabularies: Callable[[int], Sequence[int]]
    """n -> number of symbols in each column."""
    num_blocks: int
    """Blocks of the networks that learn it: as many as successive attentions that an answer takes."""


def _back(n: int, batch: int, generator: torch.Generator) -> Sequences:
    """The symbol n positions before."""
    symbols = torch.randint(NUM_ANSWERS, (batch, 2 * n), generator=generator)
    answers = torch.cat([torch.full((batch, n), NOT_ASKED), symbols[:, :n]], 1)
    return Sequences(symbols.unsqueeze(-1), answers)


def _recall(n: int, batch: int, generator: torch.Generator) -> Sequences:
    """The value of a key. Keys do not repeat, and each is asked once, in another order."""
    keys, values = _keys(n, batch, generator), torch.randint(NUM_ANSWERS, (batch, n), generator=generator)
    order = _orders(n, batch, generator)
    no_value, not_asked = torch.full_like(values, NUM_ANSWERS), torch.full_like(values, NOT_ASKED)
    pairs = torch.stack([keys, values], -1)
    queries = torch.stack([keys.gather(1, order), no_value], -1)
    return Sequences(torch.cat([pairs, queries], 1), torch.cat([not_asked, values.gather(1, order)], 1))


def _joint(n: int, batch: int, generator: torch.Generator) -> Sequences:
    """The values, 0 or 1, of four keys, which make one answer in their order."""
    keys, values = _keys(n, batch, generator), torch.randint(2, (batch, n), generator=generator)
    asked = _orders(n, batch * n, generator)[:, :_KEYS_AT_ONCE].view(batch, n, _KEYS_AT_ONCE)
    no_value, not_asked = torch.full_like(values, 2), torch.full_like(values, NOT_ASKED)
    no_key = torch.full_like(keys, max(n, _NUM_KEYS))
    pairs = torch.stack([keys, *[no_key] * (_KEYS_AT_ONCE - 1), values], -1)
    queries = torch.stack([*(keys.gather(1, places) for places in asked.unbind(-1)), no_value], -1)
    bits = [values.gather(1, places) << number for number, places in enumerate(asked.unbind(-1))]
    answers = torch.stack(bits).sum(0)
    return Sequences(torch.cat([pairs, queries], 1), torch.cat([not_asked, answers], 1))


def _keys(n: int, batch: int, generator: torch.Generator) -> Int[Tensor, "batch n"]:
    """Different keys for each sequence."""
    return _orders(max(n, _NUM_KEYS), batch, generator)[:, :n]


def _orders(n: int, batch: int, generator: torch.Generator) -> Int[Tensor, "batch n"]:
    """An order of n things for each sequence."""
    return torch.rand(batch, n, generator=generator).argsort(1)


TASKS = {
    "back": RecallTask("positions back", _back, lambda n: [NUM_ANSWERS], 2),
    "recall": RecallTask("keys with values", _recall, lambda n: [max(n, _NUM_KEYS), NUM_ANSWERS + 1], 2),
    "joint": RecallTask(
        "keys with values, four asked at once",
        _joint,
        lambda n: [*[max(n, _NUM_KEYS) + 1] * _KEYS_AT_ONCE, 3],
        1,
    ),
}
"""Name -> task."""


class NetworkKind(NamedTuple):
    """A kind of network."""

    what: str
    layer: Callable[[int], ComparedLayer]
    """The layer of a block, from its number, from 0."""
    reach: float | None = None
    """Number of positions that two blocks see back; None if the paper implies no limit."""


KINDS = {
    "self_attention": NetworkKind(
        f"self-attention, h = {NUM_HEADS}", lambda block: FullSelfAttention(WIDTH, NUM_HEADS), math.inf
    ),
    "one_head": NetworkKind("self-attention, h = 1", lambda block: FullSelfAttention(WIDTH, 1), math.inf),
    "restricted": NetworkKind(
        f"restricted self-attention, r = {R}",
        lambda block: RestrictedSelfAttention(WIDTH, R, NUM_HEADS),
        2 * (R // 2),
    ),
    "recurrent": NetworkKind("recurrent (LSTM)", lambda block: RecurrentLayer(WIDTH)),
    "convolutional": NetworkKind("convolutional", lambda block: ConvolutionalLayer(WIDTH, K), 2 * (K - 1)),
    "dilated": NetworkKind(
        "convolutional, dilated", lambda block: ConvolutionalLayer(WIDTH, K, K**block), (1 + K) * (K - 1)
    ),
}
"""Row -> kind of network."""


class Labeller(nn.Module):
    """Answers at every position of a sequence.

    Args:
        kind: Kind of its layers.
        num_blocks: Number of blocks of a layer and a position-wise network.
        vocabularies: Number of symbols in each column.
    """

    def __init__(self, kind: NetworkKind, num_blocks: int, vocabularies: Sequence[int]) -> None:
        super().__init__()
        self.embeddings = nn.ModuleList(nn.Embedding(size, WIDTH) for size in vocabularies)
        self.positions = SinusoidalPositions(WIDTH)
        self.layers = nn.Sequential(
            *(layer for block in range(num_blocks) for layer in (kind.layer(block), PositionWise(WIDTH)))
        )
        self.answers = nn.Linear(WIDTH, NUM_ANSWERS)

    def forward(self, symbols: Int[Tensor, "batch length columns"]) -> Float[Tensor, "batch length answers"]:
        """Logits of the answers."""
        columns = zip(self.embeddings, symbols.unbind(-1), strict=True)
        embedded = torch.stack([embedding(column) for embedding, column in columns]).sum(0)
        logits: Tensor = self.answers(self.layers(embedded + self.positions(symbols.size(1))))
        return logits


def accuracy_after_training(
    kind: NetworkKind, task: RecallTask, n: int, seed: int, device: torch.device
) -> float:
    """Train a network of a kind on a task of size n; its accuracy in % on new sequences."""
    torch.manual_seed(seed)
    network = Labeller(kind, task.num_blocks, task.vocabularies(n)).to(device)
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(network.parameters(), lr=_RATE, betas=(0.9, 0.98), eps=1e-9)

    def share(update: int) -> float:
        return min((update + 1) / _WARMUP, max(_LAST_RATE, 1 - update / _NUM_UPDATES))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, share)
    for update in range(1, _NUM_UPDATES + 1):
        symbols, answers = task.draw(n, max(1, _BATCH_TOKENS // (2 * n)), generator)
        logits = network(symbols.to(device))
        functional.cross_entropy(
            logits.flatten(0, 1), answers.to(device).flatten(), ignore_index=NOT_ASKED
        ).backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        if update % _CHECK_EVERY == 0:
            accuracy = _accuracy(network, task, n, generator, device, _NUM_CHECKED)
            if accuracy >= _LEARNED or (update == _NUM_UPDATES // 2 and accuracy < _GUESSING):
                break
    return 100 * _accuracy(network, task, n, generator, device, _NUM_ASKED)


@torch.no_grad()
def _accuracy(
    network: Labeller, task: RecallTask, n: int, generator: torch.Generator, device: torch.device, asked: int
) -> float:
    """Share of right answers among at least as many as asked."""
    right = total = 0
    while total < asked:
        symbols, answers = task.draw(n, max(1, _BATCH_TOKENS // (2 * n)), generator)
        found = network(symbols.to(device)).argmax(-1).cpu()
        right += int((found == answers).sum())
        total += int((answers != NOT_ASKED).sum())
    return right / total


def _compute(work: Work, *, kind: NetworkKind) -> Mapping[str, Any]:
    figures: dict[str, Any] = {}
    for name, task in TASKS.items():
        accuracies = {}
        for n in lengths(work.scale):
            with PYTORCH_THREADS.limited_to(1):  # so small operations are slower when shared
                accuracies[n] = accuracy_after_training(kind, task, n, work.seed, work.device)
            figures[accuracy_of(name, n)] = accuracies[n]
        figures[longest_of(name)] = longest(accuracies)
        told = ", ".join(f"{accuracy:.0f}% at n = {n}" for n, accuracy in accuracies.items())
        work.say(f"{name}: {told}")
    return figures


def longest(accuracies: Mapping[int, float]) -> int:
    """The largest size up to which a network has learned a task, from size -> accuracy; 0 if none."""
    found = 0
    for n, accuracy in sorted(accuracies.items()):
        if accuracy < REMEMBERED:
            break
        found = n
    return found


def lengths(scale: Scale) -> Sequence[int]:
    """The sizes n at a scale."""
    return QUICK_LENGTHS if scale.name == "quick" else LENGTHS


def accuracy_of(task: str, n: int) -> str:
    """Name of the figure for the accuracy on a task of size n."""
    return f"{task}_n{n}"


def longest_of(task: str) -> str:
    """Name of the figure for the largest size that a network has learned."""
    return f"longest_{task}"


def _rows(scale: Scale) -> Sequence[Row]:
    return [
        Row(name, kind.what, partial(_compute, kind=kind), _implied(kind, lengths(scale)))
        for name, kind in KINDS.items()
    ]


def _verdict(results: Results, counted: str) -> str:
    """The largest size that each kind of network solves, by the worst seed."""
    found = []
    for task in TASKS:
        values = {row.name: results.values(row.name, longest_of(task)) for row in results.rows}
        least = {row: min(of_seeds) for row, of_seeds in values.items() if of_seeds}
        ranked = sorted({*least.values()}, reverse=True)
        rows = [f"{n:g} ({', '.join(row for row in least if least[row] == n)})" for n in ranked]
        found += [f"{task} up to n = {', '.join(rows)}"] if rows else []
    return f"Solved by every seed: {'; '.join(found)}." if found else counted


def _implied(kind: NetworkKind, sizes: Sequence[int]) -> dict[str, float]:
    """The largest of the sizes that are in reach."""
    if kind.reach is None:
        return {}
    return {longest_of("back"): max((n for n in sizes if n <= kind.reach), default=0)}


def _sections(results: Results) -> Iterator[str]:
    """The page's section as HTML, for the rows computed so far."""
    curves = {(task, kind): _curve(results, task, kind) for task in TASKS for kind in KINDS}
    if not any(curves.values()):
        return
    yield heading(
        "How far back a network finds what it needs",
        "Self-attention connects all positions by a path of length one. A convolution or a neighbourhood "
        "ends at its reach, and a recurrent network must carry everything in its state. One head averages "
        "what it attends to (3.2.2), so `joint` asks for four things at once. The dotted line is guessing.",
    )
    yield plot(_pictures(curves), "accuracy of each kind of network against the size of three tasks")


def _curve(results: Results, task: str, kind: str) -> dict[int, list[float]]:
    """Size -> accuracy per seed."""
    found = {n: results.values(kind, accuracy_of(task, n)) for n in lengths(results.scale)}
    return {n: values for n, values in found.items() if values}


def _pictures(curves: Mapping[tuple[str, str], Mapping[int, list[float]]]) -> Iterator[Picture]:
    for name, task in TASKS.items():
        picture, axes = panel()
        for kind, described in KINDS.items():
            curve = curves[name, kind]
            if not curve:
                continue
            means = [statistics.fmean(values) for values in curve.values()]
            (line,) = axes.plot(list(curve), means, "o-", markersize=4, label=described.what)
            low, high = ([end(values) for values in curve.values()] for end in (min, max))
            axes.fill_between(list(curve), low, high, color=line.get_color(), alpha=0.15, linewidth=0)
        axes.axhline(100 / NUM_ANSWERS, color="gray", linewidth=0.7, linestyle=":")
        title = f"{name}, accuracy in %"
        axes.set_ylim(0, 105)
        finish_panel(axes, title=title, xlabel=f"n, {task.title}", legend=False)
        yield picture
    yield legend_of(axes)


def _longest_figure(task: str, what: str) -> Figure:
    """The figure of `longest_of`, whose meaning explains the accuracies, too."""
    meaning = f"largest n up to which {what}; {task}, n = 8, and others: the accuracy in %"
    return Figure(f"longest {task}", meaning)


_FIGURES = {
    longest_of("back"): _longest_figure("back", "n positions back are remembered"),
    longest_of("recall"): _longest_figure("recall", "one of n keys is found"),
    longest_of("joint"): _longest_figure("joint", "four of n keys are found at once"),
} | {accuracy_of(task, n): Figure(f"{task}, n = {n}", judged=True) for task in TASKS for n in LENGTHS}


PATHS = Experiment(
    "paths",
    "Paths and heads: who finds what lies far back?",
    _rows,
    _FIGURES,
    notes=_NOTES,
    scales={
        "quick": Scale("quick", 1, 1, sized_for="ten minutes a seed on one core"),
        "tiny": Scale("tiny", 1, 1, sized_for="half an hour a seed on one core"),
    },
    verdict=_verdict,
    sections=_sections,
    sections_first=True,
    settings=lambda scale: [f"sizes n = {', '.join(map(str, lengths(scale)))}"],
)
