"""A folder for Hugging Face computes what the model computes, and goes on doing so once saved again."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.interop.conftest import RandomModel, RunExample
from tests.packages import require_packages

from allyouneed import TranslateOptions, load_translator
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.errors import ModelError
from allyouneed.interop import huggingface
from allyouneed.interop.exporting import FORMATS, export_model
from allyouneed.interop.huggingface import HuggingFaceModel
from allyouneed.interop.importing import import_model
from allyouneed.model.transformer import Transformer
from allyouneed.storage.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from allyouneed.tasks.task import SOURCE_TOKENIZER, TARGET_TOKENIZER

require_packages("transformers")

ROUNDING = 3e-5
TEXTS = ["sun moon star", "wolf likes bear", "river sees stone fish"]


def test_models_of_every_kind_keep_their_log_probabilities(model_of_every_kind: Path, tmp_path: Path) -> None:
    assert export_model(model_of_every_kind, "huggingface", tmp_path / "out").difference < ROUNDING


@pytest.mark.parametrize(
    ("variant", "said"),
    [
        ({"norm": "pre"}, "does not have this variant"),
        ({"decoder_start": "zeros"}, "starts with the embedding"),
    ],
    ids=str,
)
def test_what_it_lacks_is_refused(
    random_model: RandomModel, tmp_path: Path, variant: dict[str, Any], said: str
) -> None:
    with pytest.raises(ModelError, match=said):
        export_model(random_model(**variant), "huggingface", tmp_path / "out")


def shrink_the_stream(model: Path) -> Path:
    """A copy of a model with so little in its stream that epsilon is much of the variance."""
    checkpoint = load_checkpoint(model)
    into_the_stream = (
        ".norm.weight",
        ".norm.bias",
        "output.weight",
        "output.bias",
        "outer.weight",
        "outer.bias",
    )
    weights = {
        name: tensor * 0.01
        if name.endswith(into_the_stream) and "1.after_feed_forward" not in name
        else tensor
        for name, tensor in checkpoint.weights.items()
    }
    save_checkpoint(model.with_name("shrunk"), checkpoint.config, weights, checkpoint.attachments, {})
    return model.with_name("shrunk")


def test_scaling_the_stream_makes_up_for_marians_epsilon(
    random_model: RandomModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = shrink_the_stream(random_model())
    assert export_model(model, "huggingface", tmp_path / "scaled").difference < ROUNDING
    monkeypatch.setattr(huggingface, "MARIAN_EPSILON", 1e-6)  # the model's own: nothing is scaled
    with pytest.raises(ModelError, match="other log-probabilities than the model"):
        export_model(model, "huggingface", tmp_path / "plain")


def test_an_epsilon_too_large_for_marians_first_normalisations_is_refused(
    random_model: RandomModel, tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match="other log-probabilities than the model"):
        export_model(random_model(layer_norm_epsilon=0.1), "huggingface", tmp_path / "out")


def test_learned_positions_are_refused(random_model: RandomModel, tmp_path: Path) -> None:
    model = random_model(positions="learned")
    with pytest.raises(ModelError, match=r"\(model.positions = learned\); it can go to ctranslate2$"):
        export_model(model, "huggingface", tmp_path / "new" / "out")
    assert not (tmp_path / "new").exists()


def test_what_transformers_saves_again_is_the_same_model(model_of_every_kind: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    export_model(model_of_every_kind, "huggingface", tmp_path / "out")
    for auto in (AutoModelForSeq2SeqLM, AutoTokenizer):
        auto.from_pretrained(tmp_path / "out").save_pretrained(tmp_path / "again")
    first, again = HuggingFaceModel(tmp_path / "out"), HuggingFaceModel(tmp_path / "again")
    pairs = [[7, 200, 30], [5]], [[40, 9], [260, 100, 11, 8]]
    assert again.score(*pairs) == first.score(*pairs)
    assert again.encode("a </s> b") == first.encode("a </s> b")


def test_no_text_becomes_a_control_symbol(random_model: RandomModel, tmp_path: Path) -> None:
    export_model(model := random_model(), "huggingface", tmp_path / "out")
    exported, ours = HuggingFaceModel(tmp_path / "out"), Tokenizer.load(model / SOURCE_TOKENIZER)
    for text in ("</s>", "<s> a <pad>", "<sentinel><unk>", " </s>  ", ""):
        assert exported.encode(text) == ours.encode(text)
        assert exported.decode(ours.encode(text)) == text


def test_symbols_of_languages_are_read_by_transformers_too(multilingual_model: Path, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    export_model(multilingual_model, "huggingface", tmp_path / "out")
    theirs, ours = AutoTokenizer.from_pretrained(tmp_path / "out"), load_translator(multilingual_model)
    for text in (">>fr<< sun moon.", ">>de<<sun", ">>fr<< ..."):
        assert theirs(text).input_ids[:-1] == ours.encode(text)
    assert theirs("sun moon").input_ids[:-1] == ours.encode(">>fr<< sun moon")[1:]
    import_model(tmp_path / "out", tmp_path / "back")
    again = load_translator(tmp_path / "back", to="fr")
    assert again.translate(TEXTS)[0].text == ours.translate(TEXTS, to="fr")[0].text


def test_two_vocabularies_have_a_tokeniser_each(random_model: RandomModel, tmp_path: Path) -> None:
    model = random_model(tied_embeddings="target", source_vocab_size=261)
    export_model(model, "huggingface", tmp_path / "out")
    exported, target = HuggingFaceModel(tmp_path / "out"), Tokenizer.load(model / TARGET_TOKENIZER)
    assert exported.encode("ab") == [5 + ord("a"), 5 + ord("b")]
    assert exported.decode(target.encode("nuso nomo")) == "nuso nomo"


def test_the_search_has_the_settings_of_the_model(random_model: RandomModel, tmp_path: Path) -> None:
    from transformers import AutoModelForSeq2SeqLM

    export_model(random_model(), "huggingface", tmp_path / "out")
    settings = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out").generation_config
    assert (settings.num_beams, settings.length_penalty) == (4, 0.6)
    assert settings.max_new_tokens == 256 + 50  # the longest sentence in training, and 50
    assert settings.suppress_tokens == [0, 1, 3]
    assert settings.decoder_start_token_id == 1


def test_a_model_whose_search_is_greedy_has_no_length_penalty(
    random_model: RandomModel, tmp_path: Path
) -> None:
    export_model(random_model(beam_size=1), "huggingface", tmp_path / "out")
    settings = json.loads((tmp_path / "out" / "generation_config.json").read_bytes())
    assert settings["num_beams"] == 1
    assert "length_penalty" not in settings


@pytest.mark.parametrize("beam_size", [1, 4])
def test_translations_are_those_of_the_model(toy_model: Path, tmp_path: Path, beam_size: int) -> None:
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    export_model(toy_model, "huggingface", tmp_path / "out")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out")
    batch = tokenizer(TEXTS, padding=True, return_tensors="pt")
    with torch.inference_mode():
        written = model.generate(**batch, num_beams=beam_size, length_penalty=0.0, max_new_tokens=60)
    search: TranslateOptions = {"beam_size": beam_size, "length_normalization": "none"}
    ours = [translation.text for translation in load_translator(toy_model).translate(TEXTS, **search)]
    assert tokenizer.batch_decode(written, skip_special_tokens=True) == ours


def test_the_example_of_the_readme_writes_what_the_model_writes(
    random_model: RandomModel, toy_model: Path, run_example: RunExample, tmp_path: Path
) -> None:
    """Of a model with a vocabulary for each side, and of one that has learned, on a text like those."""
    untrained = random_model(tied_embeddings="target", source_vocab_size=261)
    for model, text in ((untrained, "A dog runs."), (toy_model, TEXTS[1])):
        export_model(model, "huggingface", out := tmp_path / f"exported {model.name}")
        [expected] = load_translator(model).translate([text])
        assert expected.text
        assert run_example(out, text) == str([expected.text])


def test_a_folder_that_computes_something_else_is_not_published(
    random_model: RandomModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_another_weight(model: Transformer, checkpoint: Checkpoint, directory: Path) -> None:
        huggingface.write(model, checkpoint, directory)
        weights = load_file(path := directory / "model.safetensors")
        weights["model.encoder.layers.0.fc1.bias"][0] += 1.0
        save_file(weights, path, metadata={"format": "pt"})

    monkeypatch.setitem(FORMATS, "huggingface", replace(FORMATS["huggingface"], write=write_another_weight))
    with pytest.raises(ModelError, match="other log-probabilities than the model"):
        export_model(random_model(), "huggingface", tmp_path / "new" / "out")
    assert not (tmp_path / "new").exists()
