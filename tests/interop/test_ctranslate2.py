"""A folder for CTranslate2 computes what the model computes, whatever the model's kind."""

import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from tests.interop.conftest import RandomModel, RunExample
from tests.packages import require_packages

from allyouneed import load_translator
from allyouneed.errors import ModelError
from allyouneed.interop import ctranslate2
from allyouneed.interop.exporting import FORMATS, export_model
from allyouneed.interop.importing import import_model
from allyouneed.model.transformer import Transformer
from allyouneed.storage.checkpoint import Checkpoint, load_checkpoint

require_packages("ctranslate2")

ROUNDING = 2e-5
TEXTS = ["sun moon star", "wolf likes bear", "", "river sees stone fish"]


def test_models_of_every_kind_keep_their_log_probabilities(model_of_every_kind: Path, tmp_path: Path) -> None:
    assert export_model(model_of_every_kind, "ctranslate2", tmp_path / "out").difference < ROUNDING


@pytest.mark.parametrize(
    "variant", [{"norm": "pre"}, {"decoder_start": "zeros"}, {"positions": "rotary"}], ids=str
)
def test_it_has_variants_that_others_lack(
    random_model: RandomModel, tmp_path: Path, variant: dict[str, Any]
) -> None:
    assert export_model(random_model(**variant), "ctranslate2", tmp_path / "out").difference < ROUNDING


def test_rotary_positions_come_back(random_model: RandomModel, tmp_path: Path) -> None:
    original = random_model(positions="rotary")
    export_model(original, "ctranslate2", tmp_path / "out")
    import_model(tmp_path / "out", tmp_path / "back")
    models = [load_checkpoint(path) for path in (original, tmp_path / "back")]
    assert models[1].config.model.positions == "rotary"
    for name, weight in models[0].weights.items():
        assert weight.equal(models[1].weights[name]), name


def test_other_positions_in_self_attention_are_refused(random_model: RandomModel, tmp_path: Path) -> None:
    export_model(random_model(positions="rotary"), "ctranslate2", folder := tmp_path / "out")
    content = (folder / "model.bin").read_bytes()
    base = struct.pack("<f", 10_000)
    assert base in content
    (folder / "model.bin").write_bytes(content.replace(base, struct.pack("<f", 500_000), 1))
    with pytest.raises(ModelError, match="positions in self-attention are not those that export writes"):
        import_model(folder, tmp_path / "back")


def test_learned_positions_are_kept_as_far_as_they_go(random_model: RandomModel, tmp_path: Path) -> None:
    model = random_model(positions="learned", max_positions=40)
    assert export_model(model, "ctranslate2", tmp_path / "out").difference < ROUNDING
    exported = ctranslate2.CTranslate2Model(tmp_path / "out")
    assert len(exported.score([[10] * 39], [[10] * 39])[0]) == 40
    with pytest.raises(RuntimeError, match="position"):
        exported.score([[10] * 40], [[10]])


def test_the_longest_source_and_output_of_the_original_fit(random_model: RandomModel, tmp_path: Path) -> None:
    export_model(random_model(), "ctranslate2", tmp_path / "out")
    exported = ctranslate2.CTranslate2Model(tmp_path / "out")
    assert len(exported.score([[10] * 1024], [[10] * 1074])[0]) == 1075


def test_greedy_translations_are_those_of_the_model(toy_model: Path, tmp_path: Path) -> None:
    from ctranslate2 import Translator

    export_model(toy_model, "ctranslate2", out := tmp_path / "out")
    source, target = (
        tokenizers.Tokenizer.from_file(str(out / f"{side}_tokenizer.json")) for side in ("source", "target")
    )
    pieces = [source.encode(text).tokens for text in TEXTS]
    found = Translator(str(out)).translate_batch(pieces, beam_size=1)
    ids = target.get_vocab()
    written = [target.decode([ids[piece] for piece in result.hypotheses[0]]) for result in found]
    assert written == [
        translation.text for translation in load_translator(toy_model).translate(TEXTS, beam_size=1)
    ]


def test_the_example_of_the_readme_writes_what_the_model_writes(
    random_model: RandomModel, toy_model: Path, run_example: RunExample, tmp_path: Path
) -> None:
    """Of a model on a text that it has learned, and greedily of an endless one with two vocabularies."""
    export_model(toy_model, "ctranslate2", tmp_path / "out")
    [expected] = load_translator(toy_model).translate([TEXTS[1]])
    assert expected.text
    assert run_example(tmp_path / "out", TEXTS[1]) == expected.text

    endless = random_model(tied_embeddings="target", source_vocab_size=261, beam_size=1)
    export_model(endless, "ctranslate2", tmp_path / "endless")
    [expected] = load_translator(endless).translate(["A dog runs."])
    assert len(expected.text) > len("A dog runs.")
    assert run_example(tmp_path / "endless") == expected.text


def test_a_folder_that_computes_something_else_is_not_published(
    random_model: RandomModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_another_epsilon(model: Transformer, checkpoint: Checkpoint, directory: Path) -> None:
        ctranslate2.write(model, checkpoint, directory)
        config = json.loads((directory / "config.json").read_bytes())
        (directory / "config.json").write_bytes(json.dumps(config | {"layer_norm_epsilon": 0.1}).encode())

    monkeypatch.setitem(FORMATS, "ctranslate2", replace(FORMATS["ctranslate2"], write=write_another_epsilon))
    with pytest.raises(ModelError, match="other log-probabilities than the model"):
        export_model(random_model(), "ctranslate2", tmp_path / "new" / "out")
    assert not (tmp_path / "new").exists()
