"""At every scale a model keeps the paper's proportions."""

import pytest

from allyouneed.config.presets import PRESETS
from allyouneed.lab.paper.reproduction import EXPERIMENTS, chosen_rows
from allyouneed.lab.paper.scales import SCALES

PAPER = SCALES["paper"]


def test_at_the_papers_scale_a_configuration_is_the_preset() -> None:
    scaled = PAPER(PRESETS["big"]())
    assert scaled.model.head_widths == (64, 64)
    assert scaled.replace(model={"d_k": None, "d_v": None}) == PRESETS["big"]()


@pytest.mark.parametrize("scale", ["quick", "tiny", "small"])
def test_every_row_fits_its_scale_and_keeps_the_papers_proportions(scale: str) -> None:
    base = SCALES[scale](PRESETS["base"]()).model
    for name, build in PRESETS.items():
        if name.startswith(("table3_", "aop")):
            paper, scaled = build().model, SCALES[scale](build()).model
            assert scaled.d_model / base.d_model == paper.d_model / 512
            assert scaled.d_ff / base.d_ff == paper.d_ff / 2048
            assert scaled.num_layers / base.num_layers == paper.num_layers / 6
            share = base.num_heads / 8
            assert scaled.num_heads == max(1, paper.num_heads * share)
            total = [model.num_heads * width for model in (paper, scaled) for width in model.head_widths]
            assert [width * base.d_model for width in total[:2]] == [width * 512 for width in total[2:]]
            if paper.num_heads * share >= 1:  # otherwise a head is narrower
                narrower = base.d_model / (512 * share)
                assert scaled.head_widths == tuple(width * narrower for width in paper.head_widths)
    for name in ("aop1", "aop2"):
        model = SCALES[scale](PRESETS[name]()).model
        per_layer = (
            model.parameter_heads * sum(model.parameter_head_widths) * (model.d_model + model.parameter_pairs)
        )
        assert per_layer == 2 * base.d_model * base.d_ff


@pytest.mark.parametrize("scale", ["quick", "small"])
def test_warm_up_takes_the_papers_share_of_a_run(scale: str) -> None:
    training = SCALES[scale](PRESETS["base"]()).training
    assert 0.04 <= training.warmup_steps / training.num_steps <= 0.08


@pytest.mark.parametrize("scale", ["quick", "tiny", "small"])
def test_no_rate_is_higher_than_one_that_is_known_to_work(scale: str) -> None:
    training = SCALES[scale].training
    rate = training["learning_rate_factor"] * (128 * training["warmup_steps"]) ** -0.5
    assert rate < 0.005, "what multi30k_tiny, as narrow, is trained with"


def test_rows_that_coincide_at_a_scale_stand_once() -> None:
    rows = {name: {row.name: row for row in EXPERIMENTS["table3"].rows(SCALES[name])} for name in SCALES}
    for name, of_scale in rows.items():
        configs = [SCALES[name](PRESETS[_preset(row)]()) for row in of_scale]
        assert all(config != other for i, config in enumerate(configs) for other in configs[:i])
    assert rows["paper"].keys() - rows["quick"].keys() == {"heads_1", "big"}
    both = rows["quick"]["heads_4"]
    assert both.what == "(A) h = 4; the same at this scale: (A) h = 1"
    assert (both.same, both.every_seed, both.paper["perplexity"]) == (["heads_1"], True, 5.00)
    chosen = chosen_rows(EXPERIMENTS["table3"], SCALES["quick"], ["heads_1"])
    assert [row.name for row in chosen] == ["base", "heads_4"]
    assert rows["paper"].keys() - rows["small"].keys() == {"big"}
    assert rows["paper"].keys() == rows["tiny"].keys()


def _preset(row: str) -> str:
    return row if row in PRESETS else f"table3_{row}"


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_no_checkpoint_that_a_row_averages_is_deleted_before(experiment: str) -> None:
    preset = PRESETS["parsing_wsj" if experiment == "table4" else "base"]()
    for scale in EXPERIMENTS[experiment].scales.values():
        training = scale(preset).training
        assert training.average_last <= training.keep_checkpoints
        every = training.checkpoint_every_steps
        assert every
        assert training.average_last <= training.num_steps // every
