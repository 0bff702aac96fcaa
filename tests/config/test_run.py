"""Configurations go to TOML and back unchanged, and refuse with place and remedy what they cannot be."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from allyouneed.config.model import ModelConfig
from allyouneed.config.presets import PRESETS
from allyouneed.config.run import DataConfig, RunConfig, SearchConfig, TrainingConfig
from allyouneed.config.settings import Config, descriptions
from allyouneed.errors import UsageError
from allyouneed.model.architectures import build_model


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    return tmp_path / "settings.toml"


def refusal(path: Path, text: str) -> list[str]:
    path.write_bytes(text.encode())
    with pytest.raises(UsageError) as caught:
        RunConfig.from_toml(path)
    return list(caught.value.messages)


def refusal_of(*settings: str) -> list[str]:
    with pytest.raises(UsageError) as caught:
        RunConfig().with_settings(settings)
    return list(caught.value.messages)


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_comes_back_from_toml_unchanged(name: str, toml: Path) -> None:
    config = PRESETS[name]()
    toml.write_bytes(config.to_toml().encode())
    assert RunConfig.from_toml(toml) == config


@given(
    st.floats(min_value=0, max_value=1, exclude_max=True),
    st.floats(min_value=0, exclude_min=True, allow_infinity=False),
    st.integers(min_value=0, max_value=2**63 - 1),
    st.text(st.characters(codec="utf-8")),
)
def test_every_value_comes_back_from_toml_unchanged(
    tmp_path_factory: pytest.TempPathFactory, dropout: float, epsilon: float, seed: int, language: str
) -> None:
    config = RunConfig().replace(
        model={"dropout": dropout, "layer_norm_epsilon": epsilon},
        data={"source_language": language},
        training={"seed": seed},
    )
    path = tmp_path_factory.mktemp("config") / "config.toml"
    path.write_bytes(config.to_toml().encode())
    assert RunConfig.from_toml(path) == config


def test_directions_are_written_only_where_there_are_some(toml: Path) -> None:
    assert "directions" not in RunConfig().to_toml()
    assert "directions" not in DataConfig().model_dump()
    of_many = RunConfig().replace(data={"directions": [["en", "de"], ["de", "en"]]})
    toml.write_bytes(of_many.to_toml().encode())
    assert RunConfig.from_toml(toml).data.directions == (("en", "de"), ("de", "en"))
    [message] = refusal(toml, '[data]\ndirections = ["en-de"]\n')
    assert message.endswith(": data.directions.0: must be a list, not 'en-de'")


def test_what_a_file_leaves_out_keeps_its_value(toml: Path) -> None:
    toml.write_bytes(b"[training]\nwarmup_steps = 8000\n[model]\ndropout = 0\n")
    changed = PRESETS["big"]().with_toml(toml)
    assert changed == PRESETS["big"]().replace(training={"warmup_steps": 8000}, model={"dropout": 0.0})
    assert RunConfig.from_toml(toml).model.d_model == 512


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("[model]\nd_modl = 8", 2, "unknown setting model.d_modl; did you mean model.d_model?"),
        (
            "# first\n[training]\nseed = 1\n\nwarm_up_steps = 8",
            5,
            "unknown setting training.warm_up_steps; did you mean training.warmup_steps?",
        ),
        (
            "[search]\nqqq = 1",
            2,
            "unknown setting search.qqq; known here: accept_distance, accept_top, alignment_head, ",
        ),
        ("\n[trainig]\nseed = 1", 2, "unknown setting trainig; did you mean training?"),
        ("[model]\nd_model = true", 2, "model.d_model: must be a whole number, not True"),
        ("[model]\nseed = 3\n[training]\nseed = -1", 4, "training.seed: must be at least"),
    ],
)
def test_a_wrong_line_is_named_with_its_file_and_number(
    text: str, line: int, message: str, toml: Path
) -> None:
    assert any(found.startswith(f"{toml}:{line}: {message}") for found in refusal(toml, text))


def test_all_that_is_wrong_is_told_at_once(toml: Path) -> None:
    messages = refusal(toml, '[model]\nnum_layers = 0\ndropout = 1.0\n[search]\nbeam_size = "4"\n')
    assert [message.split(": ")[0] for message in messages] == [f"{toml}:{line}" for line in (2, 3, 5)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[model\n", "is not TOML"),
        (b"[model]\nd_ff = 1\nd_ff = 2\n", "is not TOML"),
        (b"\xff\xfe", "is not TOML"),
        (b"[model]\nd_model = 1e", "is not TOML"),
    ],
)
def test_what_is_no_toml_is_refused_by_name(content: bytes, message: str, toml: Path) -> None:
    toml.write_bytes(content)
    with pytest.raises(UsageError, match=message) as caught:
        RunConfig.from_toml(toml)
    assert str(toml) in caught.value.messages[0]


def test_a_file_that_is_not_there_is_named(toml: Path) -> None:
    with pytest.raises(UsageError, match="No such file or directory; name a TOML file of settings"):
        RunConfig.from_toml(toml)


@pytest.mark.parametrize(
    "setting",
    [
        "model.num_layers=0",
        "model.num_layers=-1",
        "model.num_layers=true",
        'model.num_layers="6"',
        "model.num_layers=6.0",
        "model.num_layers=[6]",
        "model.dropout=1.0",
        "model.dropout=-0.1",
        "model.dropout=nan",
        "model.dropout=true",
        "model.layer_norm_epsilon=0.0",
        "model.attention_bias=1",
        "model.positions=absolute",
        "model.tied_embeddings=true",
        "data.max_length_ratio=inf",
        "training.learning_rate_factor=nan",
        "training.learning_rate_factor=-inf",
        "training.learning_rate_factor=0",
        "training.label_smoothing=1.0",
        "training.num_steps=0",
        "training.warmup_steps=0",
        "training.keep_checkpoints=0",
        "training.checkpoint_every_steps=0",
        "training.checkpoint_every_minutes=0",
        "training.batch_tokens=-5",
        "training.precision=float16",
        f"training.seed={2**63}",
        "search.beam_size=0",
        "search.beam_size=1000000000",
        "search.length_penalty=-1",
        "search.max_extra_tokens=-1",
    ],
)
def test_a_value_out_of_range_or_of_a_wrong_type_is_refused(setting: str) -> None:
    key, _, _ = setting.partition("=")
    (message,) = refusal_of(setting)
    assert message.startswith(f"setting {key}: must be ")
    assert ", not " in message


def test_heads_that_do_not_divide_the_width_are_refused_with_those_that_do(toml: Path) -> None:
    (message,) = refusal_of("model.num_heads=5", "model.d_model=12")
    assert "num_heads = 5 does not divide d_model = 12; take one of [1, 2, 3, 4, 6, 12]" in message
    assert RunConfig().with_settings(["model.num_heads=5", "model.d_k=3", "model.d_v=4"]).model.head_widths
    (message,) = refusal(toml, "[model]\nnum_heads = 7\n")
    assert message.startswith(f"{toml}:1: model: num_heads = 7 does not divide d_model = 512")


def test_an_odd_width_is_refused_for_sinusoids_only() -> None:
    (message,) = refusal_of("model.d_model=11", "model.num_heads=1")
    assert "d_model = 11 is odd" in message
    odd = ["model.d_model=11", "model.num_heads=1", "model.positions=learned"]
    assert RunConfig().with_settings(odd).model.d_model == 11


def test_an_odd_width_is_refused_where_layers_are_halved_and_nowhere_else() -> None:
    for architecture in ("recurrent", "bytenet"):
        (message,) = refusal_of(f"model.architecture={architecture}", "model.d_model=11")
        assert "d_model = 11 is odd; this architecture splits layers in half: take an even number" in message
    convolutional = ["model.architecture=convolutional", "model.d_model=11"]
    (message,) = refusal_of(*convolutional)
    assert "sines and cosines come in pairs" in message
    model = RunConfig().with_settings([*convolutional, "model.positions=learned"]).model
    small = model.replace(num_layers=1, source_vocab_size=9, target_vocab_size=9)
    ids = torch.tensor([[5, 7, 2]])
    assert build_model(small)(ids, ids).shape == (1, 3, 11)


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_a_stack_to_be_restricted_needs_the_size_of_the_neighbourhood(side: str) -> None:
    (message,) = refusal_of(f"model.neighbourhood_in={side}")
    assert f'neighbourhood_in = "{side}" has no effect without neighbourhood; set that' in message
    model = RunConfig().with_settings(["model.neighbourhood=8", f"model.neighbourhood_in={side}"]).model
    assert [model.reach(causal=causal) is None for causal in (False, True)] == [
        side == "decoder",
        side == "encoder",
    ]


@pytest.mark.parametrize(
    ("setting", "known"),
    [
        ("attention_bias=false", {"transformer"}),
        ("feed_forward_dropout=0.1", {"transformer"}),
        ("layer_norm_epsilon=1e-5", {"transformer", "bytenet"}),
        ("neighbourhood=8", {"transformer"}),
    ],
)
@pytest.mark.parametrize("architecture", ["transformer", "recurrent", "convolutional", "bytenet"])
def test_a_setting_is_refused_by_the_architectures_that_have_no_place_for_it(
    setting: str, known: set[str], architecture: str
) -> None:
    settings = [f"model.architecture={architecture}", f"model.{setting}"]
    if architecture in known:
        assert RunConfig().with_settings(settings).model.architecture == architecture
    else:
        (message,) = refusal_of(*settings)
        assert f"{setting.partition('=')[0]} = " in message
        assert "leave it out" in message


def test_experts_of_a_recurrent_model_may_have_dropout() -> None:
    settings = [
        "model.architecture=recurrent",
        "model.feed_forward=experts",
        "model.feed_forward_dropout=0.1",
    ]
    assert RunConfig().with_settings(settings).model.feed_forward_dropout == 0.1


def test_one_matrix_for_two_vocabularies_is_refused() -> None:
    (message,) = refusal_of("model.source_vocab_size=10")
    assert "source_vocab_size = 10 and target_vocab_size = 37000" in message
    assert 'set tied_embeddings = "target"' in message


@pytest.mark.parametrize(
    ("setting", "group", "key", "value"),
    [
        ("training.warmup_steps=8000", "training", "warmup_steps", 8000),
        ("training.warmup_steps = 8_000", "training", "warmup_steps", 8000),
        ("model.layer_norm_epsilon=1e-5", "model", "layer_norm_epsilon", 1e-5),
        ("model.dropout=0", "model", "dropout", 0.0),
        ("model.attention_bias=false", "model", "attention_bias", False),
        ('model.positions="learned"', "model", "positions", "learned"),
        ("model.positions=learned", "model", "positions", "learned"),
        ("data.source_language=no", "data", "source_language", "no"),
        ("data.source_language=zh-Hans", "data", "source_language", "zh-Hans"),
        ("training.precision=bfloat16", "training", "precision", "bfloat16"),
        ("data.target_language=''", "data", "target_language", ""),
    ],
)
def test_settings_are_toml_values_or_bare_words(setting: str, group: str, key: str, value: Any) -> None:
    changed = RunConfig().with_settings([setting])
    assert changed == RunConfig().replace(**{group: {key: value}})
    assert getattr(getattr(changed, group), key) == value


@pytest.mark.parametrize("value", ["a=b", "two words", "1 2", "[1", ""])
def test_what_is_neither_toml_nor_a_word_is_refused(value: str) -> None:
    assert refusal_of(f"data.source_language={value}") == [
        f"setting data.source_language={value}: {value!r} is not a TOML value; "
        "give a number, true, false, or a quoted string"
    ]


@pytest.mark.parametrize("setting", ["warmup_steps=1", "training.warmup_steps", "", "=", "model", "model=3"])
def test_a_setting_without_group_or_value_shows_how_to_write_one(setting: str) -> None:
    assert refusal_of(setting) == [
        f"setting {setting}: write group.key=value, such as training.warmup_steps=8000"
    ]


def test_the_last_of_two_settings_of_one_key_counts() -> None:
    changed = RunConfig().with_settings(["training.seed=1", "model.dropout=0.2", "training.seed=2"])
    assert changed == RunConfig().replace(training={"seed": 2}, model={"dropout": 0.2})


def test_unknown_settings_name_the_nearest() -> None:
    assert refusal_of("training.warmup=1") == [
        "setting training.warmup: is unknown; did you mean training.warmup_steps?"
    ]
    (message,) = refusal_of("modle.d_ff=1")
    assert message == "setting modle: is unknown; did you mean model?"


def test_replace_changes_the_named_keys_of_a_group_only() -> None:
    config = RunConfig().replace(model={"d_ff": 7}, search={"beam_size": 1})
    again = config.replace(model={"dropout": 0.5})
    assert (again.model.d_ff, again.model.dropout, again.search.beam_size) == (7, 0.5, 1)
    assert RunConfig().model.d_ff == 2048
    assert again.replace() == again


def test_a_configuration_cannot_be_changed_in_place() -> None:
    with pytest.raises(ValidationError):
        RunConfig().model.d_model = 3


@pytest.mark.parametrize("config", [ModelConfig, DataConfig, TrainingConfig, SearchConfig])
def test_every_setting_says_what_it_is(config: type[Config]) -> None:
    assert descriptions(config).keys() == config.model_fields.keys()
    assert all(descriptions(config).values())


def test_checked_settings_are_named_in_messages_and_beside_them() -> None:
    with pytest.raises(UsageError) as caught:
        DataConfig.checked(vocab_size=-1, max_length_ratio=math.nan, tokenizer="bpe")
    assert [message.split(": ")[0] for message in caught.value.messages] == ["vocab_size", "max_length_ratio"]
    assert caught.value.settings == ("vocab_size", "max_length_ratio")
    assert DataConfig.checked(vocab_size=300) == DataConfig(vocab_size=300)


def test_mbr_is_a_setting_that_files_without_it_do_not_name(toml: Path) -> None:
    toml.write_bytes(b"[search]\nbeam_size = 2\n")
    config = RunConfig.from_toml(toml)
    assert config.search.mbr is None
    assert "mbr" not in config.to_toml()
    assert "mbr = 8" in config.replace(search={"mbr": 8}).to_toml()
