"""Folders of Hugging Face as they are found: their settings of search, rounded tables, other tokenisers."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.interop.conftest import RandomModel
from tests.interop.foreign_models import make_marian_folder
from tests.packages import require_packages

from allyouneed.cli.program import main
from allyouneed.config.run import SearchConfig
from allyouneed.errors import ModelError
from allyouneed.interop.exporting import export_model
from allyouneed.interop.importing import Proof, import_model
from allyouneed.storage.checkpoint import load_checkpoint, save_checkpoint

require_packages("sentencepiece", "transformers")

ROUNDING = 3e-5


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_marian_folder(tmp_path_factory.mktemp("marian") / "opus")


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "opus"))


def set_in(file: Path, **settings: Any) -> None:
    found = json.loads(file.read_bytes()) if file.is_file() else {}
    file.write_bytes(json.dumps({**found, **settings}).encode())


def search_of(folder: Path) -> SearchConfig:
    import_model(folder, folder.parent / "model")
    return load_checkpoint(folder.parent / "model").config.search


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"num_beams": 6}, {"beam_size": 6, "length_normalization": "average"}),
        ({"num_beams": 6, "length_penalty": 1.0}, {"beam_size": 6, "length_normalization": "average"}),
        ({"num_beams": 5, "length_penalty": 0}, {"beam_size": 5, "length_normalization": "none"}),
        ({"num_beams": 3, "length_penalty": 0.8}, {"beam_size": 3, "length_penalty": 0.8}),
        ({"num_beams": 1}, {"beam_size": 1}),
        ({"num_beams": 5_000, "length_penalty": -1.0}, {}),
        ({"num_beams": None, "max_length": 512, "bad_words_ids": [[7]]}, {}),
        (
            {"no_repeat_ngram_size": 3, "repetition_penalty": 1.3},
            {"no_repeat_ngram_size": 3, "repetition_penalty": 1.3},
        ),
    ],
    ids=str,
)
def test_settings_of_search_that_ours_has_are_taken(
    settings: dict[str, Any], expected: dict[str, Any], folder: Path
) -> None:
    """They change what transformers writes, but not whether the model is proved."""
    set_in(folder / "generation_config.json", **settings)
    assert search_of(folder) == SearchConfig(**expected)


def test_settings_of_search_were_once_in_the_configuration(folder: Path) -> None:
    (folder / "generation_config.json").unlink()
    set_in(folder / "config.json", num_beams=7, length_penalty=0.0)
    assert search_of(folder) == SearchConfig(beam_size=7, length_normalization="none")


@pytest.mark.parametrize("alpha", [0.6, 0.9])
def test_the_search_of_an_export_comes_back(random_model: RandomModel, alpha: float, tmp_path: Path) -> None:
    model = random_model(beam_size=5)
    set_length_penalty(model, alpha)
    export_model(model, "huggingface", tmp_path / "out")
    assert search_of(tmp_path / "out") == SearchConfig(beam_size=5, length_penalty=alpha)


def set_length_penalty(model: Path, alpha: float) -> None:
    checkpoint = load_checkpoint(model)
    config = checkpoint.config.replace(search={"length_penalty": alpha})
    save_checkpoint(model, config, checkpoint.weights, checkpoint.attachments, {}, replace=True)


@pytest.mark.parametrize("name", ["num_beams", "length_penalty", "repetition_penalty"])
def test_a_setting_of_search_that_is_no_number_is_refused(name: str, folder: Path) -> None:
    set_in(folder / "generation_config.json", **{name: "4"})
    with pytest.raises(ModelError, match=rf"generation_config\.json: {name} is '4', not a number"):
        search_of(folder)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_a_table_of_sinusoids_may_be_rounded_as_the_weights_are(dtype: torch.dtype, folder: Path) -> None:
    from transformers import MarianMTModel

    model = MarianMTModel.from_pretrained(folder)
    tables = {
        f"model.{stack}.embed_positions.weight": getattr(model.model, stack).embed_positions.weight.clone()
        for stack in ("encoder", "decoder")
    }
    weights = load_file(folder / "model.safetensors") | tables
    save_file({name: each.to(dtype) for name, each in weights.items()}, folder / "model.safetensors")
    proof = import_model(folder, folder.parent / "model")
    require_proof(proof)
    assert len(proof.notices) == (dtype != torch.float32)
    name = "model.encoder.embed_positions.weight"
    weights[name] = weights[name].roll(1, dims=0)
    save_file({name: each.to(dtype) for name, each in weights.items()}, folder / "model.safetensors")
    with pytest.raises(ModelError, match=f"{name} are no sinusoids"):
        import_model(folder, folder.parent / "other")


def require_proof(proof: Proof) -> None:
    assert proof.difference is not None
    assert proof.difference < ROUNDING


@pytest.mark.parametrize("size", [None, "left out"])
def test_one_size_for_both_sides(size: str | None, folder: Path) -> None:
    settings = json.loads((folder / "config.json").read_bytes())
    del settings["decoder_vocab_size"]
    if size is None:
        settings["decoder_vocab_size"] = None
    (folder / "config.json").write_bytes(json.dumps(settings).encode())
    require_proof(import_model(folder, folder.parent / "model"))


def test_the_remedy_for_a_pickle_works(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(weights, folder / "pytorch_model.bin")
    assert main(["import", str(folder), str(folder.parent / "model")]) == 4
    said = capsys.readouterr().err
    safe = str(folder.parent / "safe")
    for auto in ("AutoModelForSeq2SeqLM", "AutoTokenizer"):
        assert f"{auto}.from_pretrained(PATH).save_pretrained(SAFE)" in said
    AutoModelForSeq2SeqLM.from_pretrained(folder).save_pretrained(safe)
    AutoTokenizer.from_pretrained(folder).save_pretrained(safe)
    assert main(["import", safe, str(folder.parent / "model")]) == 0


def test_a_tokeniser_that_splits_otherwise_is_found(folder: Path) -> None:
    """Here a setting that ours does not read makes a symbol of a letter."""
    set_in(folder / "tokenizer_config.json", additional_special_tokens=["o"])
    with pytest.raises(ModelError, match="splits text into other sub-words than its own software"):
        import_model(folder, folder.parent / "model")


def test_the_folder_does_not_choose_the_class_of_its_tokeniser(folder: Path) -> None:
    """It could choose one that unpickles."""
    set_in(folder / "tokenizer_config.json", tokenizer_class="NoSuchTokenizer")
    require_proof(import_model(folder, folder.parent / "model"))


def test_the_folder_does_not_name_other_files_for_transformers_to_open(folder: Path) -> None:
    """Read, each of these would take all memory, or wait for ever.

    Promise: Foreign models.
    """
    os.mkfifo(folder / "pipe")
    set_in(
        folder / "tokenizer_config.json",
        **dict.fromkeys(("source_spm", "target_spm", "vocab"), "/dev/zero"),
        sp_model_kwargs={"model_file": str(folder / "pipe")},
    )
    for name in ("adapter_config.json", "model.safetensors.index.json", "chat_template.jinja"):
        os.mkfifo(folder / name)
    set_in(folder / "config.json", _attn_implementation="org/kernel", quantization_config={"a": 1})
    require_proof(import_model(folder, folder.parent / "model"))


def test_out_of_memory_is_no_fault_of_the_model(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr("allyouneed.interop.transformers_marian.TransformersMarian", fail)
    assert main(["import", str(folder), str(folder.parent / "model")]) == 7
    assert "there is not enough memory" in capsys.readouterr().err


def test_what_transformers_cannot_run_is_told_in_a_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    set_in(folder / "tokenizer_config.json", added_tokens_decoder="nonsense")
    assert main(["import", str(folder), str(folder.parent / "model")]) == 4
    [line] = capsys.readouterr().err.strip().splitlines()
    assert "error[E-MODEL]: transformers cannot run the model (" in line
    assert "AttributeError: 'str' object" in line
    assert not (folder.parent / "model").exists()
