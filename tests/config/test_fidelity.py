"""Recipes have the values that were released, and every setting that is not the paper's is named."""

from allyouneed.config.fidelity import RECIPES, deviations, nearest_of_paper, with_recipe
from allyouneed.config.presets import (
    PAPER_PRESETS,
    PRESETS,
    base,
    multi30k_tiny,
    parsing_tiny,
    parsing_wsj,
)


def test_the_paper_is_what_every_preset_has() -> None:
    assert with_recipe("paper", base()) == base()


def test_the_code_of_2017_differs_in_positions_start_target_space_and_smoothing() -> None:
    changed = {d.setting: d.value for d in deviations(with_recipe("released-2017", base()))}
    assert changed == {
        "model.attention_bias": True,
        "model.positions": "concatenated",
        "model.decoder_start": "zeros",
        "model.target_space": True,
        "training.label_smoothing_over": "others",
    }


def test_the_later_code_is_pre_norm_without_biases_and_with_another_schedule_and_ties_all() -> None:
    config = with_recipe("released-later", base())
    assert (config.model.norm, config.model.tied_embeddings, config.model.attention_bias) == (
        "pre",
        "all",
        False,
    )
    assert with_recipe("released-later", parsing_wsj()).model.tied_embeddings == "none"
    assert (config.model.attention_dropout, config.model.feed_forward_dropout) == (0.1, 0.1)
    training = config.training
    assert (training.adam_beta2, training.learning_rate_factor, training.warmup_steps) == (0.997, 2.0, 8_000)
    assert "model.attention_bias" not in {d.setting for d in deviations(config)}


def test_a_recipe_keeps_the_sizes_of_its_preset() -> None:
    for recipe in RECIPES:
        assert with_recipe(recipe, multi30k_tiny()).model.d_model == 128


def test_each_model_of_the_paper_is_nearest_to_itself_and_departs_by_its_biases_alone() -> None:
    for name in PAPER_PRESETS:
        assert nearest_of_paper(PRESETS[name]()) == name
        assert [d.setting for d in deviations(PRESETS[name]())] == ["model.attention_bias"]


def test_a_parser_is_compared_with_parsers() -> None:
    assert nearest_of_paper(parsing_tiny()).startswith("parsing_")
    of_translator = base().replace(data={"task": "parsing"})
    assert nearest_of_paper(of_translator).startswith("parsing_")


def test_what_departs_is_told_with_both_values() -> None:
    found = {d.setting: (d.value, d.paper) for d in deviations(base().replace(training={"warmup_steps": 9}))}
    assert found["training.warmup_steps"] == (9, 4_000)
    found = {d.setting: (d.value, d.paper) for d in deviations(base().replace(training={"patience": 1}))}
    assert found["training.patience"] == (1, None)
    found = {d.setting: (d.value, d.paper) for d in deviations(base().replace(model={"neighbourhood": 9}))}
    assert found["model.neighbourhood"] == (9, None)
    found = {d.setting: (d.value, d.paper) for d in deviations(base().replace(data={"placeholders": True}))}
    assert found["data.placeholders"] == (True, False)


def test_head_widths_that_are_given_and_the_same_are_no_deviation() -> None:
    assert len(deviations(base().replace(model={"d_k": 64, "d_v": 64}))) == 1


def test_how_much_text_the_vocabulary_was_learned_from_is_no_deviation() -> None:
    assert deviations(base().replace(data={"vocab_sample_bytes": 0})) == deviations(base())


def test_the_nearest_model_of_the_paper_has_the_same_sizes_or_is_base() -> None:
    assert nearest_of_paper(multi30k_tiny()) == "base"
    assert nearest_of_paper(with_recipe("released-later", PRESETS["big"]())) == "big"
    assert nearest_of_paper(PRESETS["big"]().replace(model={"positions": "learned"})) == "big"


def test_the_vocabulary_is_among_what_departs() -> None:
    found = {d.setting: (d.value, d.paper) for d in deviations(multi30k_tiny())}
    assert found["data.vocab_size"] == (10_000, 37_000)
    pieces = base().replace(data={"tokenizer": "wordpiece", "joint_vocabulary": False})
    assert {"data.tokenizer", "data.joint_vocabulary"} <= {d.setting for d in deviations(pieces)}


def test_an_lstm_has_no_biases_of_attention_to_depart_by() -> None:
    assert "model.attention_bias" not in {d.setting for d in deviations(PRESETS["recurrent_gnmt"]())}


def test_a_task_that_is_not_the_papers_is_compared_with_base() -> None:
    assert nearest_of_paper(base().replace(data={"task": "reversal"})) == "base"
