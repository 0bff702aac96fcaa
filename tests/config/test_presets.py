"""Presets hold the values of the paper's tables, and are found by name."""

import dataclasses

import pytest

from allyouneed.config.model import ModelConfig
from allyouneed.config.presets import (
    PRESETS,
    base,
    base_en_fr,
    big,
    big_en_fr,
    demo,
    laptop,
    multi30k_tiny,
    preset,
)
from allyouneed.config.run import RunConfig
from allyouneed.errors import UsageError
from allyouneed.training.optimizer import warm_up_remark


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of Table 3 in its own columns; the defaults are the row of the base model."""

    N: int = 6
    d_model: int = 512
    d_ff: int = 2048
    h: int = 8
    d_k: int = 64
    d_v: int = 64
    P_drop: float = 0.1
    eps_ls: float = 0.1
    steps: int = 100_000
    positions: str = "sinusoidal"


TABLE_3 = {
    "base": Row(),
    "table3_heads_1": Row(h=1, d_k=512, d_v=512),
    "table3_heads_4": Row(h=4, d_k=128, d_v=128),
    "table3_heads_16": Row(h=16, d_k=32, d_v=32),
    "table3_heads_32": Row(h=32, d_k=16, d_v=16),
    "table3_dk_16": Row(d_k=16),
    "table3_dk_32": Row(d_k=32),
    "table3_layers_2": Row(N=2),
    "table3_layers_4": Row(N=4),
    "table3_layers_8": Row(N=8),
    "table3_d_model_256": Row(d_model=256, d_k=32, d_v=32),
    "table3_d_model_1024": Row(d_model=1024, d_k=128, d_v=128),
    "table3_d_ff_1024": Row(d_ff=1024),
    "table3_d_ff_4096": Row(d_ff=4096),
    "table3_dropout_00": Row(P_drop=0.0),
    "table3_dropout_02": Row(P_drop=0.2),
    "table3_smoothing_00": Row(eps_ls=0.0),
    "table3_smoothing_02": Row(eps_ls=0.2),
    "table3_learned_positions": Row(positions="learned"),
    "big": Row(d_model=1024, d_ff=4096, h=16, P_drop=0.3, steps=300_000),
}


def row_of(config: RunConfig) -> Row:
    model, training = config.model, config.training
    return Row(
        model.num_layers,
        model.d_model,
        model.d_ff,
        model.num_heads,
        *model.head_widths,
        model.dropout,
        training.label_smoothing,
        training.num_steps,
        model.positions,
    )


@pytest.mark.parametrize("name", TABLE_3)
def test_every_row_of_table_3_has_the_papers_values(name: str) -> None:
    assert row_of(preset(name)) == TABLE_3[name]


def test_every_preset_named_after_table_3_is_in_it() -> None:
    assert {name for name in PRESETS if name.startswith("table3_")} == set(TABLE_3) - {"base", "big"}


@pytest.mark.parametrize("name", TABLE_3)
def test_a_row_differs_from_base_in_the_columns_of_the_table_only(name: str) -> None:
    columns = {"num_layers", "d_model", "d_ff", "num_heads", "d_k", "d_v", "dropout", "positions"}
    config, expected = preset(name), base()
    assert config.model.model_dump(exclude=columns) == expected.model.model_dump(exclude=columns)
    recipe = {"label_smoothing", "num_steps", "checkpoint_every_steps", "keep_checkpoints", "average_last"}
    assert config.training.model_dump(exclude=recipe) == expected.training.model_dump(exclude=recipe)
    assert (config.data, config.search) == (expected.data, expected.search)


def test_base_is_trained_and_searched_as_the_paper_says() -> None:
    training, search = base().training, base().search
    assert training.batch_tokens == 26_500
    assert (training.warmup_steps, training.learning_rate_factor) == (4_000, 1.0)
    assert (training.adam_beta1, training.adam_beta2, training.adam_epsilon) == (0.9, 0.98, 1e-9)
    assert (training.checkpoint_every_minutes, training.average_last) == (10.0, 5)
    assert (search.beam_size, search.length_penalty, search.max_extra_tokens) == (4, 0.6, 50)
    assert (base().model.source_vocab_size, base().data.vocab_size) == (37_000, 37_000)
    assert base().model.tied_embeddings == "all"


def test_big_averages_its_last_twenty_checkpoints_and_keeps_as_many() -> None:
    assert (big().training.average_last, big().training.keep_checkpoints) == (20, 20)


def test_english_french_drops_less_and_has_word_pieces() -> None:
    assert big_en_fr().model.dropout == 0.1
    assert big_en_fr().data.tokenizer == "wordpiece"
    assert big_en_fr().data.vocab_size == 32_000
    unchanged = {"dropout": 0.3, "source_vocab_size": 37_000, "target_vocab_size": 37_000}
    assert big_en_fr().model.replace(**unchanged) == big().model


def test_multi30k_tiny_is_the_small_recipe_that_works_on_multi30k() -> None:
    model, training = multi30k_tiny().model, multi30k_tiny().training
    assert (model.num_layers, model.d_model, model.d_ff, model.num_heads) == (4, 128, 256, 4)
    assert model.dropout == 0.3
    assert (training.learning_rate_factor, training.warmup_steps) == (2.5, 2_000)
    assert (training.batch_tokens, training.num_steps) == (4_096, 8_000)
    assert (training.checkpoint_every_steps, training.keep_checkpoints) == (250, 10)
    assert training.average_last == 10
    assert multi30k_tiny().search.beam_size == 5


def test_laptop_fits_runs_of_minutes() -> None:
    # So many were made in four minutes (docs/experiments/multi30k.md, 2026-11-29).
    training, least_updates = laptop().training, 2_303
    assert warm_up_remark(training, least_updates) == ""
    assert least_updates >= 2 * training.validate_every_steps
    assert training.checkpoint_every_steps is not None
    assert least_updates >= 2 * training.average_last * training.checkpoint_every_steps


@pytest.mark.parametrize("name", PRESETS)
def test_the_model_has_an_entry_for_every_sub_word_of_its_data(name: str) -> None:
    config = preset(name)
    assert config.model.source_vocab_size == config.data.vocab_size
    assert (config.model.target_vocab_size == config.data.vocab_size) is config.data.joint_vocabulary


def test_the_parsers_are_those_of_section_6_3() -> None:
    wsj, semi = preset("parsing_wsj"), preset("parsing_semi")
    assert (wsj.model.num_layers, wsj.model.d_model, wsj.data.vocab_size) == (4, 1024, 16_000)
    assert semi == wsj.replace(model={"source_vocab_size": 32_000}, data={"vocab_size": 32_000})
    assert (wsj.model.dropout, wsj.model.attention_dropout, wsj.training.warmup_steps) == (0.2, 0.2, 16_000)
    assert (wsj.model.num_heads, wsj.model.d_ff, wsj.model.tied_embeddings) == (8, 2048, "none")
    search = wsj.search
    assert (search.beam_size, search.length_penalty, search.max_extra_tokens) == (21, 0.3, 300)


@pytest.mark.parametrize("name", PRESETS)
def test_no_checkpoint_that_will_be_averaged_is_deleted_before(name: str) -> None:
    training = preset(name).training
    assert training.average_last <= training.keep_checkpoints


@pytest.mark.parametrize(("name", "seconds_per_update"), [("base", 0.4), ("big", 1.0), ("big_en_fr", 1.0)])
def test_checkpoints_to_average_are_ten_minutes_of_the_papers_machine_apart(
    name: str, seconds_per_update: float
) -> None:
    """5.2: "each training step took about 0.4 seconds"; for the big models "1.0 seconds"."""
    assert preset(name).training.checkpoint_every_steps == 600 / seconds_per_update


@pytest.mark.parametrize("build", [base, base_en_fr, big, big_en_fr, demo, laptop, multi30k_tiny])
def test_a_preset_function_is_found_under_its_name(build: object) -> None:
    name = getattr(build, "__name__", "")
    assert PRESETS[name] is build
    assert preset(name) == PRESETS[name]()


def test_the_defaults_of_the_configuration_are_the_base_model() -> None:
    assert base() == RunConfig()
    assert base().model == ModelConfig()


@pytest.mark.parametrize(
    ("name", "remedy"), [("bigg", "did you mean big?"), ("?", "presets: base, base_en_fr, big, big_en_fr")]
)
def test_an_unknown_preset_names_the_nearest_or_all(name: str, remedy: str) -> None:
    with pytest.raises(UsageError) as caught:
        preset(name)
    assert caught.value.messages[0].startswith(f"preset {name}: unknown; {remedy}")
