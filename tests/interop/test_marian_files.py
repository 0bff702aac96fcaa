"""The vocabularies of Marian's models are found, or named as missing; none stands in for another."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.interop.foreign_models import SENTENCES, backwards, spm_of, train_spm
from tests.packages import require_packages

from allyouneed.cli.program import main
from allyouneed.data.sentencepiece_tokenizer import SentencePieceTokenizer
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.errors import ModelError
from allyouneed.interop.importing import import_model
from allyouneed.storage.checkpoint import load_checkpoint
from allyouneed.storage.run_directory import resolve_model
from allyouneed.symbols import START

require_packages("sentencepiece", "yaml")

FIXTURES = Path(__file__).parent / "fixtures" / "marian"
SPM = (FIXTURES / "vocab.spm").read_bytes()
SHARED = "embeddings.matrices.shared"


def folder_of(folder: Path, files: Mapping[str, bytes], arrays: Mapping[str, Any] | None = None) -> Path:
    """A folder with a model of Marian, that of the fixtures or other arrays, and these files."""
    folder.mkdir()
    if arrays is None:
        shutil.copy(FIXTURES / "swish.npz", folder / "model.npz")
    else:
        np.savez(folder / "model.npz", **arrays)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def fixture() -> dict[str, Any]:
    with np.load(FIXTURES / "swish.npz") as found:
        return dict(found)


def target_tied() -> dict[str, Any]:
    """The model of the fixtures with a matrix for the source and another for the target."""
    found = fixture()
    matrix = found.pop("Wemb")
    description = found["special:model.yml"].tobytes()
    for name, old, new in ("tied-embeddings-all", b"true", b"false"), ("tied-embeddings", b"false", b"true"):
        line = f"{name}: ".encode() + old + b"\n"
        assert line in description
        description = description.replace(line, line.replace(old, new))
    changed = {"encoder_Wemb": matrix, "decoder_Wemb": matrix[::-1].copy()}
    return {**found, **changed, "special:model.yml": np.frombuffer(description, np.int8)}


def yaml_of(spm: bytes) -> bytes:
    entries = SentencePieceTokenizer.entries_of(spm)
    quoted = (entry.replace("\\", "\\\\").replace('"', '\\"') for entry in entries)
    return "".join(f'"{entry}": {number}\n' for number, entry in enumerate(quoted)).encode()


def text_of(spm: bytes) -> bytes:
    return "".join(f"{entry}\n" for entry in SentencePieceTokenizer.entries_of(spm)).encode()


def refusal(folder: Path) -> tuple[str, ...]:
    with pytest.raises(ModelError) as refused:
        import_model(folder, folder.parent / "out")
    return refused.value.messages


def test_a_vocabulary_that_is_named_and_missing_is_refused_by_name(tmp_path: Path) -> None:
    named = b"vocabs:\n - /of/another/machine/srcvocab.spm\n - trgvocab.spm\n"
    folder = folder_of(tmp_path / "in", {"trgvocab.spm": SPM, "decoder.yml": named}, target_tied())
    [message] = refusal(folder)
    assert message.startswith(f"{folder / 'decoder.yml'}: names the vocabulary srcvocab.spm, ")
    (folder / "trgvocab.spm").unlink()
    assert [name in each for name, each in zip(("srcv", "trgv"), refusal(folder), strict=True)] == [True] * 2


def test_a_list_that_is_complete_is_enough(tmp_path: Path) -> None:
    lists = {"decoder.yml": b"vocabs: [gone.spm, gone.spm]\n", "model.npz.yml": b"vocabs: [a.spm, a.spm]\n"}
    import_model(folder_of(tmp_path / "in", {"a.spm": SPM, **lists}), tmp_path / "out")


def tokenisers_and_weights(model: Path) -> list[bytes]:
    names = "source_tokenizer.json", "target_tokenizer.json", "model.safetensors"
    return [(model / name).read_bytes() for name in names]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.vocab", text_of(SPM)),
        ("a.txt", text_of(SPM).removesuffix(b"\n")),
        ("vocab", text_of(SPM).replace(b"\n", b"\r\n")),
        ("a.deen", text_of(SPM) + b"</s>\n"),  # which Marian leaves out
        ("a.yaml", yaml_of(SPM)),
        ("a.json", b"{%s}" % yaml_of(SPM).removesuffix(b"\n").replace(b"\n", b",")),
    ],
)
def test_a_vocabulary_of_any_ending_is_that_in_yaml(name: str, content: bytes, tmp_path: Path) -> None:
    files = {"source.spm": SPM, "target.spm": SPM}
    listed = {name: content, "decoder.yml": f"vocabs: [{name}, {name}]\n".encode()}
    import_model(folder_of(tmp_path / "text", {**files, **listed}), tmp_path / "a")
    import_model(folder_of(tmp_path / "yaml", {**files, "vocab.yml": yaml_of(SPM)}), tmp_path / "b")
    assert tokenisers_and_weights(tmp_path / "a") == tokenisers_and_weights(tmp_path / "b")


@pytest.mark.parametrize("names", [["opus.src.vocab", "opus.trg.vocab"], ["srcvocab.txt", "trgvocab.txt"]])
def test_vocabularies_in_plain_text_are_found_by_their_names(names: list[str], tmp_path: Path) -> None:
    """The entries of the target are those of the source from the end on, and so are their vectors."""
    lines = text_of(SPM).split(b"\n")[:-1]
    contents = b"\n".join(lines), b"\n".join(lines[::-1])
    files = {"source.spm": SPM, "target.spm": SPM, **dict(zip(names, contents, strict=True))}
    import_model(folder_of(tmp_path / "in", files, target_tied()), tmp_path / "out")
    weights = load_checkpoint(tmp_path / "out").weights
    sides = [
        Tokenizer.load(tmp_path / "out" / f"{side}_tokenizer.json").names for side in ("source", "target")
    ]
    assert sides[0] != sides[1]
    rows = (
        weights[f"embeddings.matrices.{side}"][names.index("\u2581sun")]
        for side, names in zip(("source", "target"), sides, strict=True)
    )
    assert next(rows).equal(next(rows))


def test_one_file_is_for_both_sides_only_if_they_share_a_matrix(tmp_path: Path) -> None:
    import_model(folder_of(tmp_path / "shared", {"vocab.deen.spm": SPM}), tmp_path / "a")
    untied = folder_of(tmp_path / "untied", {"vocab.deen.spm": SPM}, target_tied())
    [message] = refusal(untied)
    assert "its vocabularies are not found" in message
    (untied / "decoder.yml").write_bytes(b"vocabs: [vocab.deen.spm, vocab.deen.spm]\n")
    import_model(untied, tmp_path / "b")


def test_a_file_for_one_side_is_not_for_both(tmp_path: Path) -> None:
    [message] = refusal(folder_of(tmp_path / "in", {"trgvocab.deen.spm": SPM}))
    assert "its vocabularies are not found" in message


def test_a_pair_as_firefox_has_them(tmp_path: Path) -> None:
    other = spm_of([text.upper() for text in SENTENCES], 80)
    sizes = [len(SentencePieceTokenizer.entries_of(spm)) for spm in (SPM, other)]
    arrays = target_tied()
    for name in ("decoder_Wemb", "decoder_ff_logit_out_b"):
        shape = list(arrays[name].shape)
        shape[shape.index(sizes[0])] = sizes[1]
        arrays[name] = np.resize(arrays[name], shape)
    files = {"srcvocab.ende.spm": SPM, "trgvocab.ende.spm": other}
    import_model(folder_of(tmp_path / "in", files, arrays), tmp_path / "out")
    names = [
        Tokenizer.load(tmp_path / "out" / f"{side}_tokenizer.json").names for side in ("source", "target")
    ]
    assert "▁sun" in names[0]
    assert "▁sun" not in names[1]


def test_two_vocabularies_of_one_matrix_are_of_one_size(tmp_path: Path) -> None:
    files = {"srcvocab.spm": SPM, "trgvocab.spm": spm_of([text.upper() for text in SENTENCES], 80)}
    [message] = refusal(folder_of(tmp_path / "in", files))
    assert "srcvocab.spm and trgvocab.spm have other entries" in message


@pytest.mark.parametrize("padding", [-1, 3])
def test_a_vocabulary_with_the_default_symbols_of_sentencepiece(padding: int, tmp_path: Path) -> None:
    """`<unk>`, `<s>` and `</s>` come first; Marian has embeddings of all of them."""
    symbols = 3 + (padding > 0)
    spm = train_spm(SENTENCES, 80, pad_id=padding)
    names = SentencePieceTokenizer.entries_of(spm)
    assert names[:symbols] == ["<unk>", "<s>", "</s>", "<pad>"][:symbols]
    arrays = fixture()
    arrays["Wemb"] = np.resize(arrays["Wemb"], (len(names), arrays["Wemb"].shape[1]))
    arrays["decoder_ff_logit_out_b"] = np.resize(arrays["decoder_ff_logit_out_b"], (1, len(names)))
    import_model(folder_of(tmp_path / "in", {"vocab.spm": spm}, arrays), tmp_path / "out")
    tokenizer = Tokenizer.load(tmp_path / "out" / "source_tokenizer.json")
    assert [*tokenizer.names[5:]] == names[symbols:]
    assert min(tokenizer.encode("<s> sun <pad>")) > START
    weights = load_checkpoint(tmp_path / "out").weights
    for name in names[:symbols]:
        ours, theirs = tokenizer.names.index(name), names.index(name)
        assert weights[SHARED][ours].tolist() == arrays["Wemb"][theirs].tolist()
        assert weights["embeddings.bias"][ours] == arrays["decoder_ff_logit_out_b"][0, theirs]


def test_a_symbol_that_a_text_can_write_is_refused(tmp_path: Path) -> None:
    spm = train_spm(SENTENCES, 80, bos_id=-1, user_defined_symbols="<s>")
    [message] = refusal(folder_of(tmp_path / "in", {"vocab.spm": spm}))
    assert "vocab.spm: makes symbols of <pad> or <s> in a text" in message


def test_a_tokeniser_of_another_model_is_refused(tmp_path: Path) -> None:
    files = {"vocab.yml": yaml_of(SPM), "source.spm": SPM}
    files["target.spm"] = spm_of([text.upper() for text in SENTENCES], 80)
    [message] = refusal(folder_of(tmp_path / "in", files))
    assert "target.spm: " in message
    assert "it is the tokeniser of another model, put this model's there" in message


def test_a_model_with_two_tokenisers_of_one_vocabulary_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As models of OPUS-MT have them: the recipe of docs/interop.md."""
    files = {"opus.vocab.yml": yaml_of(SPM), "source.spm": SPM}
    files["target.spm"] = spm_of([backwards(text) for text in SENTENCES], 70)
    import_model(folder_of(tmp_path / "in", files), tmp_path / "model")
    sides = [Tokenizer.load(tmp_path / "model" / f"{side}_tokenizer.json") for side in ("source", "target")]
    assert sides[0] != sides[1]
    assert sides[0].names == sides[1].names
    for name, texts in (("train", SENTENCES[:200]), ("valid", SENTENCES[200:220])):
        (tmp_path / f"{name}.en").write_bytes("".join(f"{text}\n" for text in texts).encode())
        (tmp_path / f"{name}.de").write_bytes("".join(f"{backwards(text)}\n" for text in texts).encode())
    data, model, run = (str(tmp_path / name) for name in ("data", "model", "run"))
    texts = [f"{tmp_path}/{name}" for name in ("train.en", "train.de", "valid.en", "valid.de")]
    options = [*("--source", texts[0], "--target", texts[1]), "--valid-source", texts[2]]
    assert main(["prepare", data, "--tokenizer-from", model, *options, "--valid-target", texts[3]]) == 0
    steps = ["training.num_steps=3", "training.batch_tokens=400", "training.warmup_steps=2"]
    assert main(["train", run, "--data", data, "--init-from", model, "--set", *steps]) == 0, (
        capsys.readouterr()
    )
    learned = load_checkpoint(resolve_model(Path(run)))
    assert learned.config.model.tied_embeddings == "all"
    before = load_checkpoint(Path(model)).weights
    assert learned.weights.keys() == before.keys()
    assert not learned.weights[SHARED].equal(before[SHARED])
    more = [run, "--data", data, "--resume", "--steps", "4"]
    assert main(["train", *more]) == 0, capsys.readouterr()
