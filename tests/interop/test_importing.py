"""Models of other software compute here what they compute there."""

import hashlib
import json
import re
import shutil
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tests.interop.conftest import RandomModel
from tests.interop.foreign_models import (
    SENTENCES,
    Item,
    argos_package,
    convert_to_ctranslate2,
    fine_tune,
    firefox_items,
    make_marian_folder,
    marian_binary,
)
from tests.kernels import require_kernels
from tests.packages import require_packages

from allyouneed import RunConfig, Translator, load_translator
from allyouneed.cli.program import main
from allyouneed.data.sentencepiece_tokenizer import SentencePieceTokenizer
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.errors import ModelError, UsageError
from allyouneed.inference.native_engine import NativeEngine
from allyouneed.inference.scoring import score_targets
from allyouneed.inference.torch_engine import TorchEngine
from allyouneed.interop import from_marian
from allyouneed.interop.exporting import export_model
from allyouneed.interop.importing import FORMATS, import_model
from allyouneed.model.transformer import Transformer
from allyouneed.runs.loading import load_for, model_of
from allyouneed.storage.checkpoint import save_checkpoint
from allyouneed.storage.publish import read_manifest
from allyouneed.symbols import END, START
from allyouneed.tasks.translation.task import TRANSLATION

require_packages("sentencepiece", "transformers", "ctranslate2", "yaml")

ROUNDING = 2e-5
FIXTURES = Path(__file__).parent / "fixtures" / "marian"


@pytest.fixture(scope="module")
def marian(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_marian_folder(tmp_path_factory.mktemp("marian") / "opus")


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"activation_function": "relu", "decoder_layers": 1},
        {"activation_function": "gelu", "scale_embedding": False},
        {"tie_word_embeddings": False, "share_encoder_decoder_embeddings": False},
    ],
    ids=str,
)
def test_marian_models_of_transformers_are_proved(settings: dict[str, Any], tmp_path: Path) -> None:
    folder = make_marian_folder(tmp_path / "opus", **settings)
    proof = import_model(folder, tmp_path / "model")
    assert proof.format == "huggingface"
    assert proof.difference is not None
    assert proof.difference < ROUNDING
    data = load_for(tmp_path / "model", TRANSLATION).config.data
    assert (data.source_language, data.target_language) == ("en", "de")


def test_greedy_outputs_are_those_of_transformers(marian: Path, tmp_path: Path) -> None:
    from transformers import MarianMTModel, MarianTokenizer

    folder = tmp_path / "tuned"
    shutil.copytree(marian, folder)
    fine_tune(folder, num_updates=200)  # random weights write one word again and again
    import_model(folder, tmp_path / "model")
    tokenizer = MarianTokenizer.from_pretrained(folder, local_files_only=True)
    model = MarianMTModel.from_pretrained(folder, local_files_only=True)
    ours = load_translator(tmp_path / "model").translate(SENTENCES[:60], beam_size=1, max_length=12)
    for text, translation in zip(SENTENCES[:60], ours, strict=True):
        batch = tokenizer([text], return_tensors="pt")
        [ids] = model.generate(
            **batch,
            max_new_tokens=12,
            **{"num_beams": 1, "do_sample": False, "forced_eos_token_id": None},
            suppress_tokens=[model.config.pad_token_id],
        )
        assert tokenizer.decode(ids, skip_special_tokens=True) == translation.text
    assert len({translation.text for translation in ours}) > 20


def test_models_of_several_languages_are_told_which_one_to_write(tmp_path: Path) -> None:
    from transformers import MarianTokenizer

    folder = make_marian_folder(tmp_path / "opus", languages=["fra", "por_BR"])
    theirs = MarianTokenizer.from_pretrained(folder, local_files_only=True)
    for path in (folder, convert_to_ctranslate2(folder, tmp_path / "ct2", None)):
        model = tmp_path / f"{path.name}-imported"
        import_model(path, model)
        ours = Tokenizer.load(model / "source_tokenizer.json")
        assert isinstance(ours, SentencePieceTokenizer)
        translator = load_translator(model)
        for text, to in ((">>fra<< the wolf sees", "fr"), (">>por_BR<< sun.", "pt-BR")):
            expected = theirs.convert_ids_to_tokens(theirs(text)["input_ids"][:-1])
            assert [ours.names[token] for token in translator.encode(text)] == expected
            assert translator.into(to).encode(text.split(" ", 1)[1]) == translator.encode(text)
        expected = theirs.convert_ids_to_tokens(theirs("sun moon")["input_ids"][:-1])
        assert [ours.names[token] for token in ours.encode("sun moon")] == expected
    export_model(tmp_path / "opus-imported", "huggingface", tmp_path / "out")
    back = MarianTokenizer.from_pretrained(tmp_path / "out", local_files_only=True)
    assert back.tokenize(">>fra<< sun") == theirs.tokenize(">>fra<< sun")


def test_a_start_that_transformers_has_trained(marian: Path, tmp_path: Path) -> None:
    """Training changes the vector of padding, with which the decoder starts, through the output layer."""
    folder = tmp_path / "tuned"
    shutil.copytree(marian, folder)
    fine_tune(folder, num_updates=20)
    proof = import_model(folder, tmp_path / "model")
    assert proof.difference is not None
    assert proof.difference < ROUNDING
    assert load_for(tmp_path / "model", TRANSLATION).config.model.decoder_start == "symbol"
    assert export_model(tmp_path / "model", "huggingface", tmp_path / "out").difference < ROUNDING
    assert import_model(tmp_path / "out", tmp_path / "back").difference is not None


@pytest.mark.parametrize("quantization", [None, "int8", "float16", "bfloat16"])
def test_folders_of_ctranslate2_are_proved(marian: Path, tmp_path: Path, quantization: str | None) -> None:
    folder = convert_to_ctranslate2(marian, tmp_path / "ct2", quantization)
    proof = import_model(folder, tmp_path / "model")
    assert (proof.format, bool(proof.notices)) == ("ctranslate2", quantization is not None)
    assert proof.difference is not None
    assert proof.difference < ROUNDING


def test_models_have_the_size_of_real_ones(tmp_path: Path) -> None:
    """Those of OPUS-MT have 300 MB, more than any other file that is read whole."""
    sizes: Any = dict.fromkeys(("encoder_layers", "decoder_layers"), 1)
    sizes |= dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), 400_000)
    folder = make_marian_folder(tmp_path / "opus", **sizes)
    converted = convert_to_ctranslate2(folder, tmp_path / "ct2", None)
    for number, (path, file) in enumerate([(folder, "model.safetensors"), (converted, "model.bin")]):
        assert (path / file).stat().st_size > 2**27
        proof = import_model(path, tmp_path / f"model{number}")
        assert proof.difference is not None
        assert proof.difference < 10 * ROUNDING


def test_decoders_that_start_with_the_end_symbol(random_model: RandomModel, tmp_path: Path) -> None:
    """As fairseq trains them; its vocabularies have a start symbol, too, whose logit remains."""
    export_model(random_model(norm="pre"), "ctranslate2", tmp_path / "out")
    settings = json.loads((tmp_path / "out" / "config.json").read_text())
    (tmp_path / "out" / "config.json").write_text(json.dumps({**settings, "decoder_start_token": "</s>"}))
    proof = import_model(tmp_path / "out", tmp_path / "back")
    assert proof.difference is not None
    assert proof.difference < ROUNDING


def test_argos_packages_are_proved(marian: Path, tmp_path: Path) -> None:
    package = argos_package(marian, tmp_path)
    proof = import_model(package, tmp_path / "model")
    assert proof.format == "argos"
    facts = json.loads((tmp_path / "model" / "MANIFEST.json").read_text())
    assert facts["imported_sha256"] == {package.name: hashlib.sha256(package.read_bytes()).hexdigest()}
    assert proof.difference is not None
    assert proof.difference < ROUNDING
    data = load_for(tmp_path / "model", TRANSLATION).config.data
    assert (data.source_language, data.target_language) == ("en", "fr")


@pytest.mark.parametrize("name", ["swish", "ssru"])
def test_marian_itself_wrote_the_same(name: str, tmp_path: Path) -> None:
    """`expected.json` has what Marian 1.12.42 wrote, with log-probabilities of six digits."""
    for file in (f"{name}.npz", "vocab.spm"):
        shutil.copy(FIXTURES / file, tmp_path)
    import_model(tmp_path / f"{name}.npz", tmp_path / "model")
    expected = json.loads((FIXTURES / "expected.json").read_bytes())
    translator = load_translator(tmp_path / "model")
    target = Tokenizer.load(tmp_path / "model" / "target_tokenizer.json")
    assert max(differences(tmp_path / "model", name)) < 1e-4
    texts = expected["texts"]
    found = translator.translate(texts, beam_size=1, max_length=30)
    assert [each.text for each in found] == [target.decode(ids) for ids in expected[f"{name} greedy"]]


def differences(model: Path, name: str) -> list[float]:
    """The differences from log-probabilities that Marian itself gave, relative below -1."""
    expected = json.loads((FIXTURES / "expected.json").read_bytes())[name]
    pairs = [[each[side] for each in expected] for side in ("source", "target")]
    found = score_targets(TorchEngine(model_of(load_for(model, TRANSLATION))), *pairs)
    return [
        abs(ours - theirs) / max(1, abs(theirs))
        for scored, each in zip(found, expected, strict=True)
        for ours, theirs in zip(scored.token_log_probs, each["log_probs"], strict=True)
    ]


def test_a_model_that_marian_has_rounded(tmp_path: Path) -> None:
    """`swish.int8.bin` is of `pymarian convert --gemm-type intgemm8`; Wemb stays float32 there."""
    (tmp_path / "in").mkdir()
    shutil.copy(FIXTURES / "swish.int8.bin", tmp_path / "in" / "model.bin")
    shutil.copy(FIXTURES / "vocab.spm", tmp_path / "in")
    proof = import_model(tmp_path / "in", tmp_path / "model")
    assert proof.format == "marian"
    assert proof.difference is None or proof.difference < ROUNDING
    [notice] = proof.notices
    assert "rounded to integers" in notice
    import_model(FIXTURES / "swish.npz", tmp_path / "float")
    before, after = (load_file(tmp_path / name / "model.safetensors") for name in ("float", "model"))
    for name, weights in before.items():
        step = weights.abs().max() / 127
        assert (weights - after[name]).abs().max() <= 0.51 * step, name
    assert 1e-3 < max(differences(tmp_path / "model", "swish")) < 0.2


def test_a_model_as_firefox_has_them(tmp_path: Path) -> None:
    """Other numbers of types, rounded embeddings that are not transposed, and factors of activations."""
    with np.load(FIXTURES / "swish.npz") as arrays:
        items = firefox_items(arrays)
    factor = struct.pack("<f", 9.0)
    items |= {f"{name}_QuantMultA": Item(0x0404, (1, 1), factor) for name in items if name[-3:-1] == "_W"}
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "model.deen.intgemm.alphas.bin").write_bytes(marian_binary(items))
    shutil.copy(FIXTURES / "vocab.spm", tmp_path / "in")
    import_model(tmp_path / "in", tmp_path / "model")
    import_model(FIXTURES / "swish.npz", tmp_path / "float")
    before, after = (load_file(tmp_path / name / "model.safetensors") for name in ("float", "model"))
    shared = "embeddings.matrices.shared"
    assert 0 < (before[shared] - after[shared]).abs().max() <= before[shared].abs().max() / 127
    assert 1e-3 < max(differences(tmp_path / "model", "swish")) < 0.4


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_students_of_marian_run_on_the_kernels(precision: Any, tmp_path: Path) -> None:
    for file in ("ssru.npz", "vocab.spm"):
        shutil.copy(FIXTURES / file, tmp_path)
    import_model(tmp_path, tmp_path / "model")
    require_kernels()
    translator = load_translator(tmp_path / "model", precision=precision)
    assert isinstance(translator, Translator)
    assert isinstance(translator.engine, NativeEngine)
    if precision == "float32":
        expected = json.loads((FIXTURES / "expected.json").read_bytes())
        target = Tokenizer.load(tmp_path / "model" / "target_tokenizer.json")
        greedy = translator.translate(expected["texts"], beam_size=1, max_length=30)
        assert [each.text for each in greedy] == [target.decode(ids) for ids in expected["ssru greedy"]]
    texts = SENTENCES[:40]
    one_by_one = [each.text for text in texts for each in translator.translate([text])]
    assert one_by_one == [each.text for each in translator.translate(texts)]


def test_it_is_an_ordinary_model(marian: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Verified, attended to, exported to where it is from, and imported once more."""
    assert main(["import", str(marian), str(tmp_path / "model"), "--languages", "en-zh_Hant"]) == 0
    assert "log-probabilities differ by" in capsys.readouterr().out
    assert main(["verify", str(tmp_path / "model")]) == 0
    assert main(["export", str(tmp_path / "model"), str(tmp_path / "out"), "--to", "huggingface"]) == 0
    assert "log-probabilities differ by" in capsys.readouterr().out
    assert import_model(tmp_path / "out", tmp_path / "back").format == "huggingface"
    assert load_translator(tmp_path / "back").config.data.target_language == "zh-Hant"
    attention = load_translator(tmp_path / "model").attention("sun moon")
    assert [word.text for word in attention.source.words][:2] == ["sun", "moon"]
    manifest = read_manifest(tmp_path / "model", "model")
    assert manifest["imported_format"] == "huggingface"
    assert list(manifest["imported_sha256"]) == ["model.safetensors"]


@pytest.mark.parametrize("name", ["transformers", "marian"])
def test_imported_models_go_on_to_ctranslate2_and_come_back(
    marian: Path,
    name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if name == "marian":
        marian = tmp_path / "marian"
        marian.mkdir()
        for file in ("swish.npz", "vocab.spm"):
            shutil.copy(FIXTURES / file, marian)
    import_model(marian, tmp_path / "model", ("en", "de"))
    assert export_model(tmp_path / "model", "ctranslate2", tmp_path / "out").difference < ROUNDING
    proof = import_model(tmp_path / "out", tmp_path / "back")
    assert proof.difference is not None
    assert proof.difference < ROUNDING
    texts = ["sun moon", "the wolf sees a bear"]
    search: Any = {"beam_size": 4, "length_normalization": "none", "max_length": 12}
    ours, again = (load_translator(tmp_path / each).translate(texts, **search) for each in ("model", "back"))
    assert [each.text for each in again] == [each.text for each in ours]
    [code] = re.findall("```python\n(.*?)```", (tmp_path / "out" / "README.md").read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path / "out")
    capsys.readouterr()
    exec(code.replace("A dog runs.", "sun moon"), {})
    written = capsys.readouterr().out.removesuffix("\n")
    [expected] = load_translator(tmp_path / "model").translate(["sun moon"])
    assert len(written) > len("sun moon")
    assert written == expected.text


@pytest.mark.parametrize("to", ["ctranslate2", "huggingface"])
@pytest.mark.parametrize("joint", [True, False])
def test_ours_with_sentencepiece_come_back_with_the_same_bits(to: str, joint: bool, tmp_path: Path) -> None:
    sides = [SentencePieceTokenizer.learn(SENTENCES, 300)]
    if not joint:
        sides.append(SentencePieceTokenizer.learn([text[::-1] for text in SENTENCES], 298))
    sizes = {"d_model": 24, "d_ff": 40, "num_heads": 3, "num_layers": 2, "layer_norm_epsilon": 1e-5}
    config = RunConfig().replace(
        model={
            **{**sizes, "source_vocab_size": sides[0].vocab_size, "target_vocab_size": sides[-1].vocab_size},
            "tied_embeddings": "all" if joint else "target",
        },
        data={"tokenizer": "sentencepiece", "joint_vocabulary": joint},
    )
    torch.manual_seed(1)
    files = {}
    for name, tokenizer in (("source_tokenizer.json", sides[0]), ("target_tokenizer.json", sides[-1])):
        tokenizer.save(tmp_path / name)
        files[name] = (tmp_path / name).read_bytes()
    model = tmp_path / "model"
    save_checkpoint(model, config, dict(Transformer(config.model).state_dict()), files, {})
    export_model(model, to, tmp_path / "out")
    if to == "huggingface":
        from transformers import MarianTokenizer

        ids, tokenizer = sides[-1].encode(SENTENCES[0]), MarianTokenizer.from_pretrained(tmp_path / "out")
        [written] = tokenizer.batch_decode([[START, *ids, END]], skip_special_tokens=True)
        assert written == sides[-1].decode(ids), "the start symbol is left in it"
    import_model(tmp_path / "out", tmp_path / "back")
    before, after = (load_file(path / "model.safetensors") for path in (model, tmp_path / "back"))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert {name: (tmp_path / "back" / name).read_bytes() for name in files} == files


@pytest.mark.parametrize("start", ["symbol", "zeros"])
def test_sources_without_an_end_symbol(random_model: RandomModel, start: str, tmp_path: Path) -> None:
    """As OpenNMT-py has trained the models of Argos Translate."""
    model, folder = random_model(decoder_start=start, norm="pre", source_end=False), tmp_path / "out"
    export_model(model, "ctranslate2", folder)
    proof = import_model(folder, tmp_path / "back")
    assert proof.difference is not None
    assert proof.difference < ROUNDING
    assert "no end symbol" in proof.notices[-1]
    assert not load_for(tmp_path / "back", TRANSLATION).config.model.source_end
    with pytest.raises(ModelError, match="source_end = False"):
        export_model(model, "huggingface", tmp_path / "other")


@pytest.mark.parametrize("to", ["ctranslate2", "huggingface"])
def test_ours_come_back_with_the_same_bits(random_model: RandomModel, to: str, tmp_path: Path) -> None:
    model = random_model(layer_norm_epsilon=1e-5, tied_embeddings="none")
    export_model(model, to, tmp_path / "out")
    import_model(tmp_path / "out", tmp_path / "back")
    before, after = (load_file(path / "model.safetensors") for path in (model, tmp_path / "back"))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    for side in ("source", "target"):
        name = f"{side}_tokenizer.json"
        assert (model / name).read_bytes() == (tmp_path / "back" / name).read_bytes()


@pytest.mark.parametrize("num_positions", [2, 3, 8])
def test_models_of_few_positions_come_back(
    random_model: RandomModel, tmp_path: Path, num_positions: int
) -> None:
    model = random_model(positions="learned", max_positions=num_positions)
    export_model(model, "ctranslate2", tmp_path / "out")
    assert import_model(tmp_path / "out", tmp_path / "back").difference is not None


def test_a_model_of_a_single_position_is_refused(random_model: RandomModel, tmp_path: Path) -> None:
    export_model(random_model(positions="learned", max_positions=1), "ctranslate2", tmp_path / "out")
    with pytest.raises(ModelError, match="a single position, too few for a sentence"):
        import_model(tmp_path / "out", tmp_path / "back")


def test_what_computes_something_else_is_not_published(
    marian: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("allyouneed.interop.from_huggingface.MARIAN_EPSILON", 0.1)
    with pytest.raises(ModelError, match="other log-probabilities"):
        import_model(marian, tmp_path / "new" / "model")
    assert not (tmp_path / "new").exists()


def test_without_the_software_it_says_so(
    marian: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("allyouneed.interop.importing.importlib.util.find_spec", lambda name: None)
    assert main(["import", str(marian), str(tmp_path / "model")]) == 0
    assert "not proved, as transformers is not installed" in capsys.readouterr().out


def test_formats_are_told_apart(marian: Path, tmp_path: Path) -> None:
    folder = convert_to_ctranslate2(marian, tmp_path / "ct2", None)
    for path, wanted in ((marian, "huggingface"), (folder, "ctranslate2"), (FIXTURES / "ssru.npz", "marian")):
        assert [name for name, form in FORMATS.items() if form.recognises(path)] == [wanted]
    assert not from_marian.recognises(folder / "model.bin")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["missing", "out"], "does not exist"),
        (["empty", "out"], "is of no format that can be imported"),
        (["empty", "out", "--languages", "english"], "not of the form SOURCE-TARGET"),
        (["empty", "full"], "exists and is not empty"),
    ],
    ids=str,
)
def test_wrong_uses_are_refused(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "kept").touch()
    paths = [str(tmp_path / name) for name in arguments[:2]]
    assert main(["import", *paths, *arguments[2:]]) == 2
    assert said in capsys.readouterr().err


def test_two_models_in_a_folder_are_not_guessed_at(tmp_path: Path) -> None:
    for name in ("a.npz", "b.npz", "vocab.spm"):
        shutil.copy(FIXTURES / (name if name == "vocab.spm" else "ssru.npz"), tmp_path / name)
    with pytest.raises(ModelError, match="several models"):
        import_model(tmp_path, tmp_path / "model")
    with pytest.raises(UsageError, match="no format"):
        import_model(tmp_path / "vocab.spm", tmp_path / "model")
