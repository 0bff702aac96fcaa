"""Every variant of the model learns: the demo grammar, as well as the base model does."""

from pathlib import Path

import pytest
import torch

from allyouneed.lab.paper.experiment import Inputs
from allyouneed.lab.paper.reproduction import reproduce
from allyouneed.lab.paper.scales import SCALES
from allyouneed.lab.paper.variants import VARIANTS

TAKES_LONGER = {"unscaled", "symbol_dropout"}
"""Nothing is promised of these: 3.2.1 says why the first learns worse, the other hides a tenth of a text."""
MOST_BLEU_APART = 5.0


@pytest.mark.release
def test_every_variant_comes_within_5_bleu_of_the_base_model(demo_data: Path, tmp_path: Path) -> None:
    *_, results = reproduce(
        VARIANTS, tmp_path, SCALES["tiny"], torch.device("cpu"), Inputs(demo_data), num_seeds=1
    )
    [base] = results.values("base", "bleu")
    found = {row.name: results.values(row.name, "bleu")[0] - base for row in results.rows}
    print(f"\nbase {base:.2f}; " + ", ".join(f"{name} {apart:+.2f}" for name, apart in found.items()))
    assert all(apart >= -MOST_BLEU_APART for name, apart in found.items() if name not in TAKES_LONGER)
