"""Sentences longer than any in training (3.5): sinusoids compared with other positional encodings.

Models are trained on pairs of up to 20 tokens per side, and tested on longer pairs of the same text.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from allyouneed.config.presets import PRESETS
from allyouneed.config.run import RunConfig
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.errors import DataError
from allyouneed.lab.paper.experiment import Experiment, Figure, Row, Work
from allyouneed.lab.paper.remade_data import remade_data
from allyouneed.lab.paper.scales import Scale
from allyouneed.lab.paper.training_rows import (
    SCORES,
    cost_of,
    require_validation,
    score,
    score_held_out,
    trained,
)
from allyouneed.model.position_tables import sinusoids
from allyouneed.preparation.prepared_data import PreparedData
from allyouneed.tasks.task import SOURCE_TOKENIZER, TARGET_TOKENIZER
from allyouneed.tasks.translation.translator import Translator

LONGEST_TRAINED = 20
_BUCKETS = ((21, 30), (31, 40), (41, 60))
_MOST_OF_A_BUCKET = 300
_FEWEST_OF_A_BUCKET = 10
_NOTES = [
    f"The models are trained on pairs of up to {LONGEST_TRAINED} tokens per side. `bleu` and `perplexity` "
    "are measured on validation pairs within that limit; the other figures on pairs whose longer side has "
    "the number of tokens in the figure's name, none of which occur in training.",
    "Section 3.5 states that PE(pos + k) is a linear function of PE(pos) for every k. The row `linear` tests "
    "this: its figure is the largest error over positions up to 1,000 and offsets k up to 60, with one "
    "matrix per k.",
]


def largest_error_of_shift(d_model: int, offset: int, num_positions: int = 1_000) -> float:
    """Largest absolute difference of PE(pos + k) and M_k PE(pos); M_k rotates each sine-cosine pair."""
    encodings = torch.from_numpy(sinusoids(num_positions + offset, d_model)).double()
    frequency = 10_000.0 ** -(torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    sine, cosine = (offset * frequency).sin(), (offset * frequency).cos()
    rotations = torch.stack([cosine, sine, -sine, cosine], dim=-1).view(-1, 2, 2)
    matrix = torch.block_diag(*rotations)
    return float((encodings[:num_positions] @ matrix.T - encodings[offset:]).abs().max())


def _linear(work: Work) -> Mapping[str, Any]:
    d_model = work.scale(PRESETS["base"]()).model.d_model
    return {"error_of_shift": max(largest_error_of_shift(d_model, offset) for offset in (1, 2, 7, 20, 60))}


def require_long_pairs(data: PreparedData) -> None:
    """Reject data without validation text, or with too few pairs longer than those trained on.

    Raises:
        UsageError: The data has no validation text.
        DataError: The data has too few pairs in the first range of lengths.
    """
    require_validation(data)
    shortest, longest = _BUCKETS[0]
    lengths = np.maximum(data.train.source_lengths, data.train.target_lengths)
    found = int(((shortest <= lengths) & (lengths <= longest)).sum())
    if found < _FEWEST_OF_A_BUCKET:
        raise DataError(
            f"{data.directory}: only {found} training pairs have {shortest} to {longest} tokens, "
            f"{_FEWEST_OF_A_BUCKET} are needed; prepare more text"
        )


def score_by_length(
    translator: Translator, data: Path, sources: Sequence[str], references: Sequence[str], keep: Path
) -> dict[str, Any]:
    """Perplexity and BLEU of pairs longer than those in training, by length in tokens.

    Ranges of lengths with too few pairs are left out.
    """
    source, target = (Tokenizer.load(data / name) for name in (SOURCE_TOKENIZER, TARGET_TOKENIZER))
    buckets: dict[tuple[int, int], list[int]] = {bucket: [] for bucket in _BUCKETS}
    for place, (text, reference) in enumerate(zip(sources, references, strict=True)):
        length = max(len(source.encode(text)), len(target.encode(reference)))
        for (shortest, longest), places in buckets.items():
            if shortest <= length <= longest and len(places) < _MOST_OF_A_BUCKET:
                places.append(place)
        if all(len(places) == _MOST_OF_A_BUCKET for places in buckets.values()):
            break
    figures: dict[str, Any] = {}
    for (shortest, longest), places in buckets.items():
        if len(places) < _FEWEST_OF_A_BUCKET:
            continue
        suffix = f"_{shortest}_{longest}"
        texts, translations = ([lines[i] for i in places] for lines in (sources, references))
        figures |= score(translator, texts, translations, keep, suffix)
        figures[f"pairs{suffix}"] = len(places)
    return figures


def _row(name: str, what: str, config: RunConfig) -> Row:
    def compute(work: Work) -> Mapping[str, Any]:
        # The data without pairs of more than 20 tokens.
        data = remade_data(work, "short", max_tokens=LONGEST_TRAINED)
        translator = trained(work, work.scale(config), data)
        given = PreparedData(work.data)
        sources, references = (given.lines("train", side) for side in ("source", "target"))
        by_length = score_by_length(translator, data, sources, references, work.directory)
        return score_held_out(work, translator, data) | by_length | cost_of(work.directory / "run")

    return Row(name, what, compute)


def _rows(scale: Scale) -> Sequence[Row]:
    exact = {"error_of_shift": 0.0}
    return [
        _row("sinusoids", "sinusoids", PRESETS["base"]()),
        _row("learned", "learned positions", PRESETS["table3_learned_positions"]()),
        *(
            _row(kind, f"{kind} positions", PRESETS["base"]().replace(model={"positions": kind}))
            for kind in ("rotary", "alibi", "relative")
        ),
        Row("linear", "PE(pos + k) = M_k PE(pos)", _linear, exact, every_seed=False, needs_data=False),
    ]


EXTRAPOLATION = Experiment(
    "extrapolation",
    "Longer sentences than were trained on (3.5)",
    _rows,
    SCORES
    | {
        f"{name}_{a}_{b}": figure.of_part(f"{a} to {b} tokens")
        for a, b in _BUCKETS
        for name, figure in SCORES.items()
    }
    | {
        "error_of_shift": Figure(
            "error of shift",
            "largest error of PE(pos + k) as a linear function of PE(pos), one matrix per k",
        )
    },
    require_long_pairs,
    notes=_NOTES,
)
