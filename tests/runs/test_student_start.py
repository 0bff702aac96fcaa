"""A student begins with its teacher's encoder, whatever their depths and inner widths."""

from pathlib import Path

import pytest
import torch

from allyouneed import PreparedData
from allyouneed.config.model import ModelConfig
from allyouneed.config.presets import student_of
from allyouneed.model.architectures import build_model
from allyouneed.model.transformer import Transformer
from allyouneed.runs.run_configuration import completed
from allyouneed.runs.student_start import is_alike, student_weights, write_start
from allyouneed.storage.checkpoint import load_checkpoint

SIZES = {"source_vocab_size": 23, "target_vocab_size": 23, "d_model": 64, "d_ff": 48, "num_heads": 4}
SOURCE = torch.tensor([[5, 7, 11, 2], [13, 2, 0, 0]])


def made(config: ModelConfig) -> Transformer:
    model = build_model(config).eval()
    assert isinstance(model, Transformer)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model


def student_like(teacher: Transformer, **settings: object) -> Transformer:
    config = student_of("micro", teacher.config).model.replace(**settings)
    drawn = made(config)
    found = student_weights(drawn.state_dict(), config, teacher.state_dict(), teacher.config)
    drawn.load_state_dict(found)
    return drawn


def encoded(model: Transformer) -> torch.Tensor:
    return model.encode(SOURCE)[SOURCE != 0]


@pytest.mark.parametrize(
    ("num_layers", "d_ff"), [(3, 48), (5, 48), (3, 80), (6, 64)], ids=["same", "deeper", "wider", "both"]
)
def test_the_encoder_computes_what_the_teachers_does(num_layers: int, d_ff: int) -> None:
    torch.manual_seed(0)
    teacher = made(ModelConfig().replace(**SIZES, num_layers=3, norm="pre"))
    student = student_like(teacher, num_layers=num_layers, d_ff=d_ff)
    torch.testing.assert_close(encoded(student), encoded(teacher))
    student.state_dict()["encoder.0.feed_forward.inner.weight"].zero_()
    assert not torch.allclose(encoded(student), encoded(teacher))


def test_of_a_deeper_teacher_evenly_spaced_layers_are_taken_and_the_first_units_of_a_wider_one() -> None:
    torch.manual_seed(0)
    teacher = made(ModelConfig().replace(**SIZES, num_layers=6, norm="pre"))
    own, given = student_like(teacher, num_layers=3, d_ff=32).state_dict(), teacher.state_dict()
    for layer, place in ((0, 0), (1, 2), (2, 4)):
        mine, theirs = f"encoder.{layer}.", f"encoder.{place}."
        for part in ("self_attention.output.weight", "after_feed_forward.norm.bias"):
            assert torch.equal(own[mine + part], given[theirs + part])
        inner, outer = "feed_forward.inner.weight", "feed_forward.outer.weight"
        assert torch.equal(own[mine + inner], given[theirs + inner][:32])
        assert torch.equal(own[mine + outer], given[theirs + outer][:, :32])


def test_the_decoder_has_the_upper_layers_but_for_its_recurrent_units() -> None:
    torch.manual_seed(0)
    teacher = made(ModelConfig().replace(**SIZES, num_layers=4, norm="pre"))
    own, given = student_like(teacher, num_decoder_layers=2, d_ff=48).state_dict(), teacher.state_dict()
    names = [name for name in own if name.startswith("decoder.") and ".self_attention." not in name]
    assert len(names) > 20
    for name in names:
        place = int(name.split(".")[1])
        assert torch.equal(own[name], given[name.replace(f"decoder.{place}.", f"decoder.{place + 2}.", 1)])
    assert torch.equal(own["embeddings.matrices.shared"], given["embeddings.matrices.shared"])


@pytest.mark.parametrize(
    "setting", [{"norm": "post"}, {"positions": "concatenated"}, {"d_model": 32}, {"num_heads": 2}], ids=str
)
def test_models_of_another_form_are_not_alike(setting: dict[str, object]) -> None:
    teacher = ModelConfig().replace(**SIZES, norm="pre")
    assert is_alike(student_of("micro", teacher).model, teacher)
    assert not is_alike(student_of("micro", teacher).model.replace(**setting), teacher)


def test_a_start_is_written_only_if_the_teacher_suits(toy_run: Path, toy_data: Path, tmp_path: Path) -> None:
    prepared = PreparedData(toy_data)
    teacher = load_checkpoint(toy_run / "checkpoints" / "step-00000120")
    config = completed(student_of("micro", teacher.config.model), prepared, torch.device("cpu"))
    said: list[str] = []
    assert write_start(tmp_path / "start", config, toy_run, prepared, said.append)
    assert said == [
        f"{tmp_path}/start: begins with the embeddings, the encoder and the upper decoder of {toy_run}"
    ]
    weights = load_checkpoint(tmp_path / "start").weights
    assert all(
        torch.equal(weights[name], teacher.weights[name]) for name in weights if name.startswith("embeddings")
    )
    other = config.replace(model={"norm": "pre" if config.model.norm == "post" else "post"})
    assert not write_start(tmp_path / "other", other, toy_run, prepared)
    assert not (tmp_path / "other").exists()
