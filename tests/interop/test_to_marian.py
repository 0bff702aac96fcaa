"""Exports to Marian and Bergamot come back with the same bits, and compute the same there."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.interop.foreign_models import SENTENCES
from tests.interop.marian_form import ENTRIES, random_model
from tests.packages import require_packages

from allyouneed import load_translator
from allyouneed.cli.program import main
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.inference.vocabulary_shortlist import Shortlist
from allyouneed.interop.bergamot import activation_factors
from allyouneed.interop.exporting import export_model
from allyouneed.interop.from_marian import FACTOR
from allyouneed.interop.importing import import_model
from allyouneed.interop.marian_files import read_arrays
from allyouneed.model.transformer import Transformer
from allyouneed.runs.loading import model_of
from allyouneed.storage.checkpoint import load_checkpoint
from allyouneed.storage.publish import sha256_of
from allyouneed.symbols import END
from allyouneed.tasks.task import SOURCE_TOKENIZER, TARGET_TOKENIZER

require_packages("sentencepiece", "yaml")

VARIANTS: Mapping[str, dict[str, Any]] = {
    "tied": {},
    "two vocabularies, a bias of the logits": {"tied_embeddings": "target", "output_bias": True},
    "untied, GELU, one layer in the decoder": {
        **{"tied_embeddings": "none", "activation": "gelu", "num_decoder_layers": 1}
    },
    "SSRU, Swish": {"autoregression": "ssru", "activation": "swish"},
}


@pytest.mark.parametrize("to", ["marian", "bergamot"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_model_comes_back_with_the_same_bits(variant: str, to: str, tmp_path: Path) -> None:
    model = random_model(tmp_path / "original", **VARIANTS[variant])
    options = {"precision": "float32"} if to == "bergamot" else {}
    found = export_model(model, to, tmp_path / "out", options)
    assert bool(found.lacking) == math.isnan(found.difference)
    import_model(tmp_path / "out", tmp_path / "back")
    before, after = load_checkpoint(model), load_checkpoint(tmp_path / "back")
    assert after.config.model == before.config.model
    assert after.weights.keys() == before.weights.keys()
    for name, tensor in before.weights.items():
        assert after.weights[name].numpy().tobytes() == tensor.numpy().tobytes(), name
    texts = [*SENTENCES[:5], "x </s> <pad> é 日本"]
    written = [
        [found.text for found in load_translator(each).translate(texts, max_length=9)]
        for each in (model, tmp_path / "back")
    ]
    assert written[0] == written[1]


@pytest.mark.parametrize("tied", ["all", "target"])
def test_a_shortlist_comes_back_with_the_same_candidates(tied: str, tmp_path: Path) -> None:
    model = random_model(tmp_path / "original", tied_embeddings=tied)
    rows = np.random.default_rng(1).integers(0, ENTRIES, (ENTRIES, 7), np.int32)  # 0 is padding
    if tied == "all":
        rows[:, 0] = np.arange(ENTRIES)  # as `allyouneed shortlist` has it: every token may be copied
    hashes = {name: sha256_of(model / name) for name in (SOURCE_TOKENIZER, TARGET_TOKENIZER)}
    before = Shortlist(rows, np.arange(20, 40, dtype=np.int32), ENTRIES, hashes)
    Shortlist.publish(tmp_path / "list", lambda: before, print)
    export_model(
        model, "bergamot", tmp_path / "out", {"precision": "float32", "shortlist": tmp_path / "list"}
    )
    import_model(tmp_path / "out", tmp_path / "back", shortlist=tmp_path / "list back")
    after = Shortlist.load(tmp_path / "list back", tmp_path / "back", (ENTRIES, ENTRIES))
    for token in range(ENTRIES):
        source = [token, END]
        assert after.candidates(source).tolist() == before.candidates(source).tolist(), token


def test_control_symbols_in_a_text_stay_text(tmp_path: Path) -> None:
    export_model(random_model(tmp_path / "original"), "marian", tmp_path / "out")
    import_model(tmp_path / "out", tmp_path / "back")
    tokenizer = Tokenizer.load(tmp_path / "back" / "source_tokenizer.json")
    text = "<sentinel> </s> <s> <pad>"
    assert min(tokenizer.encode(text)) > END
    assert tokenizer.decode(tokenizer.encode(text)) == text


def rounded(folder: Path, model: Path, text: str) -> dict[str, Any]:
    """The arrays of an int8 export whose activations were measured on a text."""
    (folder / "text").write_bytes(text.encode())
    export_model(model, "bergamot", folder / "out", {"text": folder / "text"})
    return read_arrays(folder / "out" / "model.ende.intgemm.alphas.bin")[0]


def test_a_rounded_model_differs_by_half_a_step_at_most(tmp_path: Path) -> None:
    model = random_model(tmp_path / "original", autoregression="ssru")
    arrays, weights = rounded(tmp_path, model, "the sun\n"), load_checkpoint(model).weights
    for ours, theirs in {
        "embeddings.matrices.shared": arrays["Wemb"],
        "decoder.1.self_attention.forget.weight": arrays["decoder_l2_rnn_Wf"].T,
        "encoder.0.feed_forward.inner.weight": arrays["encoder_l1_ffn_W1"].T,
    }.items():
        expected = weights[ours].numpy()
        step = np.abs(expected).max() / 127
        assert np.abs(theirs - expected).max() <= step * 0.5001
        assert len(np.unique(theirs)) <= 255
        assert not np.array_equal(theirs, expected)


def test_every_matrix_has_a_factor(tmp_path: Path) -> None:
    variants: list[dict[str, Any]] = [{}, {"autoregression": "ssru"}, {"tied_embeddings": "none"}]
    for settings in variants:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        arrays = rounded(folder, random_model(folder / "original", **settings), "the sun\n")
        multiplied = {
            name for name in arrays if "_W" in name and not name.endswith((FACTOR, "scale", "bias"))
        }
        multiplied -= {"encoder_Wemb", "decoder_Wemb"}  # only looked up
        output = "decoder_ff_logit_out_W" if "decoder_ff_logit_out_W" in arrays else "Wemb"
        assert {name for name in arrays if name.endswith(FACTOR)} == {
            f"{name}{FACTOR}" for name in {*multiplied, output, "none"}
        }
        assert all(arrays[name].shape == (1,) for name in arrays if name.endswith(FACTOR))


def test_a_factor_maps_the_largest_activation_to_127(tmp_path: Path) -> None:
    """That of the first layer's queries: the embeddings times sqrt(d_model), plus sines, then cosines."""
    model = model_of(load_checkpoint(random_model(tmp_path / "original")))
    assert isinstance(model, Transformer)
    ids = [20, 290, 7]
    vectors = model.embeddings.matrix("source").detach().numpy()[[*ids, END]] * 8
    angles = np.arange(4)[:, None] / 10_000 ** (np.arange(32) / 32)
    largest = np.abs(vectors + np.concatenate([np.sin(angles), np.cos(angles)], axis=1)).max()
    [factor] = activation_factors(model, [ids])["encoder_l1_self_Wq_QuantMultA"]
    assert factor == pytest.approx(127 / largest, rel=1e-5)


def test_factors_of_several_sentences_leave_out_what_few_reach(tmp_path: Path) -> None:
    model = model_of(load_checkpoint(random_model(tmp_path / "original")))
    assert isinstance(model, Transformer)
    name = "encoder_l2_ffn_W2_QuantMultA"
    singles = [127 / activation_factors(model, [ids])[name][0] for ids in ([20, 290], [7], [9, 9, 30])]
    [factor] = activation_factors(model, [[20, 290], [7], [9, 9, 30]])[name]
    assert factor == pytest.approx(127 / (np.mean(singles) + 1.1 * np.std(singles)), rel=1e-5)


def test_a_folder_of_bergamot_names_its_files(tmp_path: Path) -> None:
    model = random_model(tmp_path / "original")
    export_model(model, "bergamot", tmp_path / "out", {"precision": "float32", "languages": ("fr", "en")})
    files = {path.name for path in (tmp_path / "out").iterdir()}
    assert files == {"MANIFEST.json", "config.yml", "model.fren.bin", "vocab.fren.spm"}
    lines = (tmp_path / "out" / "config.yml").read_bytes().decode().splitlines()
    start = ["relative-paths: true", "models:", "  - model.fren.bin", "vocabs:"]
    assert lines[:6] == [*start, *["  - vocab.fren.spm"] * 2]
    assert "gemm-precision: float32" in lines


@pytest.mark.parametrize(
    ("settings", "options", "message"),
    [
        ({}, ["--to", "bergamot"], "name a file of them, or the prepared data of the model: --text FILE"),
        ({}, ["--to", "marian", "--precision", "int8"], "--precision: has no effect with --to marian"),
        (
            {},
            ["--to", "bergamot", "--precision", "float32", "--text", "{text}"],
            "--text: is for --precision",
        ),
        ({}, ["--to", "bergamot", "--text", "{empty}"], "has no text to measure activations on"),
        (
            {"d_model": 48},
            ["--to", "bergamot", "--text", "{text}"],
            "that 64 divides, and model.d_model = 48; export with --precision float32, or train with another",
        ),
        ({"positions": "sinusoidal"}, ["--to", "marian"], "train one with `allyouneed train --for marian`"),
        ({"norm": "pre"}, ["--to", "marian"], "or it can go to ctranslate2, argos"),
        ({"tied_embeddings": "none"}, ["--to", "argos"], "argos: has one vocabulary for both languages"),
    ],
)
def test_a_refusal_is_one_line_with_a_remedy(
    settings: dict[str, Any],
    options: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "text").write_bytes(b"the sun\n")
    (tmp_path / "empty").write_bytes(b"\n \n")
    model = random_model(tmp_path / "original", **settings)
    given = [each.format(text=tmp_path / "text", empty=tmp_path / "empty") for each in options]
    assert main(["export", str(model), str(tmp_path / "out"), *given]) in (2, 3, 4)
    [line] = capsys.readouterr().err.splitlines()
    assert message in line
    assert not (tmp_path / "out").exists()


def test_other_sub_words_are_refused_with_the_way_to_prepare(
    toy_model: Path, toy_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", str(tmp_path / "run"), "--data", str(toy_data), "--for", "marian"]) == 2
    assert (
        main(["export", str(toy_model), str(tmp_path / "out"), "--to", "argos", "--languages", "en-de"]) == 2
    )
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert all("--tokenizer sentencepiece" in line for line in lines)
    assert not (tmp_path / "run").exists()


def test_plan_says_what_can_be_exported(capsys: pytest.CaptureFixture[str]) -> None:
    def told(*options: str) -> str:
        assert main(["plan", *options]) == 0
        [line] = [each for each in capsys.readouterr().out.splitlines() if "can be exported" in each]
        return line.removeprefix("can be exported to ")

    form = "marian, bergamot, web: `allyouneed train --for marian`"
    words = "`allyouneed prepare --tokenizer sentencepiece`"
    assert told() == f"ctranslate2, huggingface ({form}, {words})"
    pieces = "--set", "data.tokenizer=sentencepiece"
    assert told("--for", "marian", *pieces) == "ctranslate2, marian, bergamot, web, argos"
    assert told("--for", "marian", *pieces, "model.d_ff=96").endswith(
        "argos (bergamot and web in float32 only)"
    )
    assert told(*pieces, "model.norm=pre") == f"ctranslate2, argos ({form})"
    assert told("--set", "model.positions=rotary", "model.norm=pre") == f"ctranslate2 ({form}, {words})"
    assert told("--set", "model.positions=alibi", "model.norm=pre") == f"none ({form}, {words})"
    assert told("--preset", "parsing_wsj") == "none"


@pytest.mark.parametrize("setting", ["norm = pre", "positions = rotary", "scaled_embeddings = False"])
def test_a_setting_outside_of_the_form_is_refused(setting: str, capsys: pytest.CaptureFixture[str]) -> None:
    given = f"model.{setting.replace(' ', '').lower()}"
    assert main(["plan", "--for", "marian", "--set", given]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert f"--for marian: its models cannot have model.{setting}; leave that out, or --for" in line


def test_a_setting_of_the_form_may_be_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--for", "marian", "--set", "model.norm=post"]) == 0
    assert "can be exported to ctranslate2 (marian" in capsys.readouterr().out
