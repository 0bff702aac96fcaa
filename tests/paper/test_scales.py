"""At every scale a model keeps the paper's proportions."""

import pytest

from allyouneed.config.presets import PRESETS
from allyouneed.paper.catalogue import EXPERIMENTS
from allyouneed.paper.scales import SCALES

PAPER = SCALES["paper"]


def test_at_the_papers_scale_a_configuration_is_the_preset() -> None:
    scaled = PAPER(PRESETS["big"]())
    assert scaled.model.head_widths == (64, 64)
    assert scaled.replace(model={"d_k": None, "d_v": None}) == PRESETS["big"]()


@pytest.mark.parametrize("scale", ["tiny", "small"])
def test_every_row_fits_its_scale_and_keeps_the_papers_proportions(scale: str) -> None:
    base = SCALES[scale](PRESETS["base"]()).model
    for name, build in PRESETS.items():
        if name.startswith(("table3_", "aop")):
            paper, scaled = build().model, SCALES[scale](build()).model
            assert scaled.d_model / base.d_model == paper.d_model / 512
            assert scaled.d_ff / base.d_ff == paper.d_ff / 2048
            assert scaled.num_layers / base.num_layers == paper.num_layers / 6
            assert scaled.head_widths[0] * 64 == paper.head_widths[0] * base.head_widths[0]
    for name in ("aop1", "aop2"):
        model = SCALES[scale](PRESETS[name]()).model
        per_layer = (
            model.parameter_heads * sum(model.parameter_head_widths) * (model.d_model + model.parameter_pairs)
        )
        assert per_layer == 2 * base.d_model * base.d_ff


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_no_checkpoint_that_a_row_averages_is_deleted_before(experiment: str) -> None:
    preset = PRESETS["parsing_wsj" if experiment == "table4" else "base"]()
    for scale in EXPERIMENTS[experiment].scales.values():
        training = scale(preset).training
        assert training.average_last <= training.keep_checkpoints
        every = training.checkpoint_every_steps
        assert every
        assert training.average_last <= training.num_steps // every
