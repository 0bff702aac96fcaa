"""Damaged and malicious models of other software: one line, exit code 4, and no code of theirs runs.

Promise: Foreign models.
"""

import json
import math
import os
import pickle
import shutil
import struct
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.interop.foreign_models import (
    SENTENCES,
    Item,
    convert_to_ctranslate2,
    make_marian_folder,
    marian_binary,
    spm_of,
)
from tests.packages import require_packages

from allyouneed.cli.program import main

require_packages("sentencepiece", "transformers", "ctranslate2", "yaml")

FIXTURES = Path(__file__).parent / "fixtures" / "marian"
FORBIDDEN = "pickle.find_class", "os.system", "subprocess.Popen", "os.exec", "os.posix_spawn"
Spoil = Callable[[Path], Any]


class Payload:
    """A pickle of it creates a file when it is read."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("a-pickle-was-run",)


seen: list[str] = []
watching = [False]


def watch(event: str, arguments: object) -> None:
    if watching[0] and event in FORBIDDEN:
        seen.append(event)


sys.addaudithook(watch)


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing of the kinds in `FORBIDDEN` happens meanwhile."""
    monkeypatch.chdir(tmp_path)
    seen.clear()
    watching[0] = True
    yield
    watching[0] = False
    assert seen == []
    assert not Path("a-pickle-was-run").exists()


def refused(path: Path, capsys: pytest.CaptureFixture[str], reason: str, *options: str) -> None:
    """The import of a model fails with one line a fault, which name the reason, and leaves nothing."""
    assert main(["import", str(path), str(path.parent / "out"), *options]) == 4
    said = capsys.readouterr().err.strip().splitlines()
    errors = [line for line in said if "error[E-" in line]
    assert len(errors) == len(said) >= 1, said
    assert reason in said[0]
    assert not (path.parent / "out").exists()


def change(name: str, **entries: Any) -> Spoil:
    """Set entries of a JSON object."""

    def spoil(folder: Path) -> None:
        (folder / name).write_text(json.dumps({**json.loads((folder / name).read_text()), **entries}))

    return spoil


def write(name: str, content: bytes) -> Spoil:
    return lambda folder: (folder / name).write_bytes(content)


def cut(name: str, share: float) -> Spoil:
    def spoil(folder: Path) -> None:
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: int(share * len(content))])

    return spoil


def delete(name: str) -> Spoil:
    return lambda folder: (folder / name).unlink()


def tensors(alter: Callable[[dict[str, torch.Tensor]], Any]) -> Spoil:
    def spoil(folder: Path) -> None:
        found = load_file(folder / "model.safetensors")
        alter(found)
        save_file(found, folder / "model.safetensors")

    return spoil


def only_a_pickle(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Payload()))


def header_of(num_bytes: int) -> bytes:
    """A file of weights that claims a tensor of so many bytes, and has none."""
    entry = {"dtype": "F32", "shape": [num_bytes // 4], "data_offsets": [0, num_bytes]}
    header = json.dumps({"model.shared.weight": entry}).encode()
    return struct.pack("<Q", len(header)) + header


def vocabulary(alter: Callable[[dict[str, Any]], Any]) -> Spoil:
    def spoil(folder: Path) -> None:
        ids = json.loads((folder / "vocab.json").read_text())
        alter(ids)
        (folder / "vocab.json").write_text(json.dumps(ids))

    return spoil


_FC1 = "model.encoder.layers.0.fc1.weight"
HUGGING_FACE: dict[str, tuple[Spoil, str]] = {
    "settings cut off": (cut("config.json", 0.5), "config.json: is not JSON"),
    "settings are a list": (write("config.json", b"[]"), "config.json: is no JSON object"),
    "settings are no text": (write("config.json", b"\xff\xfe"), "config.json: is not JSON"),
    "settings nested deep": (write("config.json", b"[" * 100_000), "nested too deep"),
    "another kind of model": (
        change("config.json", model_type="bert"),
        "model_type = 'bert' is not supported",
    ),
    "no width": (change("config.json", d_model=0), "d_model is 0, not a size"),
    "an odd width": (change("config.json", d_model=25), "d_model is 25, an odd number"),
    "no positions": (
        tensors(
            lambda found: found.update({"model.encoder.embed_positions.weight": torch.empty(0, 24)}),
        ),
        "has no matrix model.encoder.embed_positions.weight",
    ),
    "a width as text": (change("config.json", d_model="24"), "d_model is '24', not a size"),
    "a huge width": (change("config.json", d_model=10**12), "d_model is 1000000000000, not a size"),
    "millions of layers": (
        change("config.json", encoder_layers=10**6),
        "has no tensor model.encoder.layers.2.",
    ),
    "billions of positions": (
        change("config.json", max_position_embeddings=10**9),
        "max_position_embeddings is 1000000000, not a size",
    ),
    "billions of labels": (change("config.json", num_labels=10**9), "num_labels is 1000000000, not a size"),
    "billions of layers": (change("config.json", num_hidden_layers=10**9), "num_hidden_layers is 1000000000"),
    "heads that do not divide": (
        change("config.json", encoder_attention_heads=5, decoder_attention_heads=5),
        "num_heads = 5 does not divide d_model = 24",
    ),
    "an infinite beam": (
        write("generation_config.json", b'{"num_beams": 1e999}'),
        "is not JSON (1e999 is too large",
    ),
    "no number": (write("generation_config.json", b'{"num_beams": NaN}'), "is not JSON (NaN is no JSON"),
    "a setting twice": (
        write("config.json", b'{"d_model": 1, "d_model": 2}'),
        "the key 'd_model' occurs twice",
    ),
    "half a character": (write("config.json", b'{"a": "\\ud800"}'), "a string has half a surrogate pair"),
    "settings of megabytes": (
        lambda folder: (folder / "config.json").write_bytes(
            b" " * (1 << 20) + (folder / "config.json").read_bytes()
        ),
        "bytes, more than the 1,048,576 that it may have",
    ),
    "a tensor of exabytes": (
        write("model.safetensors", header_of(2**60)),
        "is not a valid tensor file: it has ",
    ),
    "no layers": (change("config.json", decoder_layers=0), "decoder_layers is 0, not a size"),
    "heads that differ": (
        change("config.json", decoder_attention_heads=2),
        "encoder_attention_heads and decoder_attention_heads differ",
    ),
    "networks that differ": (
        change("config.json", decoder_ffn_dim=8),
        "encoder_ffn_dim and decoder_ffn_dim differ",
    ),
    "an unknown activation": (
        change("config.json", activation_function="tanh"),
        "activation_function = 'tanh' is not supported",
    ),
    "pre-norm": (change("config.json", normalize_before=True), "normalize_before = True is not supported"),
    "a start beyond the vocabulary": (
        change("config.json", decoder_start_token_id=10**9),
        "decoder_start_token_id is 1000000000",
    ),
    "a start that is a piece": (
        change("config.json", decoder_start_token_id=5),
        "the decoder starts with entry 5",
    ),
    "padding elsewhere": (
        change("config.json", pad_token_id=3),
        "pad_token_id is 3, not the place of <pad> in the vocabulary",
    ),
    "an end elsewhere": (change("config.json", eos_token_id=3), "eos_token_id is 3, not the place of </s>"),
    "several ends": (change("config.json", eos_token_id=[0]), "eos_token_id is [0], not the place of </s>"),
    "a dropout of two": (change("config.json", dropout=2), "dropout is no rate"),
    "fewer entries than pieces": (
        change("config.json", vocab_size=10),
        "vocab_size is 10, but the vocabulary has 42 entries",
    ),
    "more entries than pieces": (
        change("config.json", vocab_size=50, decoder_vocab_size=50),
        "vocab_size is 50, but the vocabulary has 42 entries",
    ),
    "a beam as text": (change("generation_config.json", num_beams="4"), "num_beams is '4', not a number"),
    "weights cut off": (cut("model.safetensors", 0.7), "is not a valid tensor file"),
    "weights of no bytes": (write("model.safetensors", b""), "is not a valid tensor file"),
    "a header of exabytes": (
        write("model.safetensors", struct.pack("<Q", 2**62) + b"{}"),
        "is not a valid tensor file",
    ),
    "a pickle under another name": (
        write("model.safetensors", pickle.dumps(Payload())),
        "is not a valid tensor file",
    ),
    "a pickle only": (only_a_pickle, "its weights are a pickle (pytorch_model.bin), which could run code"),
    "a tensor missing": (tensors(lambda found: found.pop(_FC1)), f"has no tensor {_FC1}"),
    "a tensor too many": (
        tensors(lambda found: found.update(more=torch.zeros(3))),
        "has 1 tensors that no known part of the model uses (more)",
    ),
    "a tensor turned": (
        tensors(lambda found: found.update({_FC1: found[_FC1].T.contiguous()})),
        f"{_FC1} is (24, 40), (40, 24) expected",
    ),
    "a tensor of integers": (
        tensors(lambda found: found.update({_FC1: found[_FC1].int()})),
        f"{_FC1} is int32, not of floats",
    ),
    "a tensor that is not finite": (
        tensors(lambda found: found.update({_FC1: found[_FC1] / 0})),
        f"{_FC1} holds values that are not finite",
    ),
    "no vocabulary": (delete("vocab.json"), "vocab.json: no such file"),
    "an entry twice": (
        vocabulary(lambda ids: ids.update({"</s>": 1})),
        "vocab.json: its ids are not those from 0 on",
    ),
    "an entry without number": (
        vocabulary(lambda ids: ids.update(moon=None)),
        "vocab.json: its ids are not those from 0 on",
    ),
    "an entry below zero": (
        vocabulary(lambda ids: ids.update(moon=-1)),
        "vocab.json: its ids are not those from 0 on",
    ),
    "no end symbol": (
        vocabulary(lambda ids: ids.update({"end": ids.pop("</s>")})),
        "its vocabulary has no </s>",
    ),
    "a control symbol as a piece": (
        vocabulary(lambda ids: ids.update({"<sentinel>": ids.pop("▁sun", 9)})),
        "source.spm: cannot be read: a piece is empty, occurs twice, or is the name",
    ),
    "a tokeniser of no bytes": (write("source.spm", b""), "source.spm: cannot be read"),
    "a tokeniser of another model": (
        lambda folder: (folder / "target.spm").write_bytes(spm_of([text.upper() for text in SENTENCES])),
        "it is the tokeniser of another model, put this model's there",
    ),
    "a tokeniser that is a pickle": (
        write("target.spm", pickle.dumps(Payload())),
        "target.spm: cannot be read",
    ),
    "a foreign tokenizer.json": (
        write("tokenizer.json", b'{"model": {"type": "Unigram"}}'),
        "tokenizer.json: is no tokeniser of our exports",
    ),
}


@pytest.fixture(scope="module")
def marian(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_marian_folder(tmp_path_factory.mktemp("marian") / "opus")


@pytest.fixture(scope="module")
def converted(marian: Path) -> Path:
    return convert_to_ctranslate2(marian, marian.parent / "ct2", None)


@pytest.mark.usefixtures("watched")
@pytest.mark.parametrize("name", HUGGING_FACE)
def test_of_hugging_face(name: str, marian: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path(shutil.copytree(marian, tmp_path / "model"))
    spoil, reason = HUGGING_FACE[name]
    spoil(folder)
    refused(folder, capsys, reason)


def patched(offset: int, content: bytes) -> Spoil:
    def spoil(folder: Path) -> None:
        found = bytearray((folder / "model.bin").read_bytes())
        found[offset : offset + len(content)] = content
        (folder / "model.bin").write_bytes(found)

    return spoil


def without_tokenisers(folder: Path) -> None:
    for side in ("source", "target"):
        (folder / f"{side}.spm").unlink()


def variables(**added: "np.ndarray[Any, Any]") -> Spoil:
    """Add variables before the others."""

    def spoil(folder: Path) -> None:
        content = (folder / "model.bin").read_bytes()
        [count] = struct.unpack_from("<I", content, _AFTER_NAME + 4)
        written = b"".join(map(_variable, added, added.values()))
        head = content[: _AFTER_NAME + 4] + struct.pack("<I", count + len(added))
        (folder / "model.bin").write_bytes(head + written + content[_AFTER_NAME + 8 :])

    return spoil


def in_plain_text(folder: Path) -> None:
    (folder / "shared_vocabulary.json").unlink()
    (folder / "shared_vocabulary.txt").write_bytes(b"<unk>\n\n")


def number(name: str, value: float) -> Spoil:
    """Set a variable that is a single number."""

    def spoil(folder: Path) -> None:
        content = (folder / "model.bin").read_bytes()
        start = content.index(struct.pack("<H", len(name) + 1) + name.encode() + b"\0")
        [size] = struct.unpack_from("<I", content, (end := start + 2 + len(name) + 1 + 2))
        written = _variable(name, np.array(value, np.float32))
        (folder / "model.bin").write_bytes(content[:start] + written + content[end + 4 + size :])

    return spoil


def _variable(name: str, array: "np.ndarray[Any, Any]") -> bytes:
    kind, data = {"f": 0, "i": 1}[array.dtype.kind], array.tobytes()
    shape = struct.pack(f"<B{array.ndim}I", array.ndim, *array.shape)
    return (
        struct.pack("<H", len(name) + 1)
        + name.encode()
        + b"\0"
        + shape
        + struct.pack("<BI", kind, len(data))
        + data
    )


_AFTER_NAME = 4 + 2 + len("TransformerSpec") + 1
CTRANSLATE2: dict[str, tuple[Spoil, str]] = {
    "cut off in the middle": (cut("model.bin", 0.5), "it ends too early"),
    "cut off at the end": (cut("model.bin", 0.999), "it ends too early"),
    "of no bytes": (write("model.bin", b""), "it ends too early"),
    "another version": (patched(0, struct.pack("<I", 999)), "its version is 999, 6 expected"),
    "another class": (patched(6, b"WhisperSpec"), "only TransformerSpec is supported"),
    "billions of variables": (
        patched(_AFTER_NAME + 4, struct.pack("<I", 2**32 - 1)),
        "it claims 4,294,967,295 variables",
    ),
    "three variables only": (
        patched(_AFTER_NAME + 4, struct.pack("<I", 3)),
        "is damaged or no model of CTranslate2 (it claims ",
    ),
    "more after the end": (
        lambda folder: (folder / "model.bin").write_bytes((folder / "model.bin").read_bytes() + b"more"),
        "it goes on after its end",
    ),
    "a pickle": (
        write("model.bin", pickle.dumps(Payload())),
        "is damaged or no model of CTranslate2 (its version is ",
    ),
    "a start symbol in the source": (
        change("config.json", add_source_bos=True),
        "add_source_bos = True is not supported",
    ),
    "infinite heads": (
        number("encoder/num_heads", math.inf),
        "encoder/num_heads is inf, not a finite number",
    ),
    "heads that are no number": (number("encoder/num_heads", math.nan), "encoder/num_heads is nan, not a"),
    "an infinite activation": (number("decoder/activation", math.inf), "decoder/activation is inf, not a"),
    "half a head": (
        lambda folder: [number(f"{stack}/num_heads", 2.5)(folder) for stack in ("encoder", "decoder")],
        "num_heads is 2.5, which does not divide 24",
    ),
    "a pre-norm of two": (number("encoder/pre_norm", 2.0), "pre_norm = 2.0 is not supported"),
    "a vocabulary of an empty line": (
        in_plain_text,
        "shared_vocabulary.txt: line 2 is empty, not an entry",
    ),
    "a negative epsilon": (change("config.json", layer_norm_epsilon=-1.0), "layer_norm_epsilon is -1.0"),
    "a vocabulary that is a text": (
        write("shared_vocabulary.json", b'"sun"'),
        "shared_vocabulary.json: is no list of texts",
    ),
    "a vocabulary that is longer": (
        lambda folder: (folder / "shared_vocabulary.json").write_text(
            json.dumps([*json.loads((folder / "shared_vocabulary.json").read_text()), "one", "two"])
        ),
        "has fewer embeddings than its vocabulary",
    ),
    "a scale for each of no rows": (
        variables(a=np.ones((), np.int8), a_scale=np.ones(1, np.float32)),
        "a_scale does not fit its weight",
    ),
    "a scale for each row of a cube": (
        variables(a=np.ones((2, 2, 3), np.int8), a_scale=np.ones(2, np.float32)),
        "a_scale does not fit its weight",
    ),
    "an empty variable": (variables(a=np.ones((0, 2), np.float32)), "a is empty"),
    "no tokenisers": (without_tokenisers, "has no tokenisers"),
}


@pytest.mark.usefixtures("watched")
@pytest.mark.parametrize("name", CTRANSLATE2)
def test_of_ctranslate2(
    name: str, converted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.copytree(converted, tmp_path / "a" / "model"))
    spoil, reason = CTRANSLATE2[name]
    spoil(folder)
    refused(folder, capsys, reason)


def arrays(alter: Callable[[dict[str, Any]], Any]) -> Spoil:
    def spoil(folder: Path) -> None:
        with np.load(folder / "model.npz") as found:
            changed = dict(found)
        alter(changed)
        np.savez(folder / "model.npz", **changed)

    return spoil


def setting(name: str, value: str) -> Spoil:
    def alter(found: dict[str, Any]) -> None:
        lines = found["special:model.yml"].tobytes().rstrip(b"\0 ").decode().splitlines()
        kept = [line for line in lines if not line.startswith(f"{name}:")]
        found["special:model.yml"] = np.frombuffer("\n".join([*kept, f"{name}: {value}"]).encode(), np.int8)

    return arrays(alter)


def configuration(content: bytes) -> Spoil:
    return arrays(lambda found: found.update({"special:model.yml": np.frombuffer(content, np.int8)}))


def aliases_of_aliases() -> bytes:
    """A list of nine lists, which are one, of nine lists, and so on: written out, it has 9 ** 16 texts."""
    chain = (b"k%d: &k%d [%b]\n" % (n, n, b", ".join([b"*k%d" % (n - 1)] * 9)) for n in range(1, 17))
    return b"k0: &k0 [x]\n" + b"".join(chain)


def zipped(content: bytes, compression: int) -> Spoil:
    """Put another array into the file, compressed somehow."""

    def spoil(folder: Path) -> None:
        with zipfile.ZipFile(folder / "model.npz", "a") as archive:
            archive.writestr("more.npy", content, compression)

    return spoil


def npy(content: bytes) -> Spoil:
    return zipped(content, zipfile.ZIP_STORED)


def claims(shape: str) -> Spoil:
    """Put in an array that claims a shape, and has the data of another."""
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return npy(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(64))


def text_vocabulary(content: bytes, name: str = "a.txt") -> Spoil:
    """Name another vocabulary for both sides."""

    def spoil(folder: Path) -> None:
        (folder / name).write_bytes(content)
        (folder / "decoder.yml").write_text(f"vocabs: [{name}, {name}]\n")
        for side in ("source", "target"):
            shutil.copy(folder / "vocab.spm", folder / f"{side}.spm")

    return spoil


def binary(alter: Callable[[bytearray], Any], kind: int = 0x0404, factor: float | None = None) -> Spoil:
    """The model in Marian's other container, altered; each array followed by a factor, if there is one."""

    def spoil(folder: Path) -> None:
        after = b"" if factor is None else struct.pack("<f", factor)
        with np.load(folder / "model.npz") as loaded:
            items = {name: Item(kind, each.shape, _data(each, kind) + after) for name, each in loaded.items()}
        (folder / "model.npz").unlink()
        content = bytearray(marian_binary(items))
        alter(content)
        (folder / "model.bin").write_bytes(content)

    return spoil


def _data(array: "np.ndarray[Any, Any]", kind: int) -> bytes:
    return array.tobytes() if kind == 0x0404 else array.astype(np.int8).tobytes()


def overwritten(offset: int, number: int) -> Callable[[bytearray], Any]:
    return lambda content: struct.pack_into("<Q", content, offset, number)


def half(content: bytearray) -> None:
    del content[len(content) // 2 :]


MARIAN: dict[str, tuple[Spoil, str]] = {
    "cut off": (cut("model.npz", 0.6), "is no valid .npz file (BadZipFile)"),
    "no zip": (write("model.npz", b"PK\x03\x04 and no more"), "is no valid .npz file (BadZipFile)"),
    "a pickle": (write("model.npz", pickle.dumps(Payload())), "is no valid .npz file (BadZipFile)"),
    "an array of other bytes than it claims": (
        claims("(10000000000, 32)"),
        "is no valid .npz file (ValueError)",
    ),
    "an array below zero": (claims("(-88, -32)"), "is no valid .npz file (ValueError)"),
    "an array in another version": (npy(b"\x93NUMPY\x09\x00"), "is no valid .npz file (KeyError)"),
    "an array compressed a thousandfold": (
        zipped(bytes(1 << 25), zipfile.ZIP_DEFLATED),
        "too many for its size; take another copy",
    ),
    "an array compressed otherwise": (
        zipped(b"x", zipfile.ZIP_BZIP2),
        "compressed otherwise than by DEFLATE",
    ),
    "a size of thousands of digits": (setting("dim-emb", "9" * 5_000), "dim-emb = '999"),
    "a size in other digits": (setting("dim-emb", "\u0663\u0662"), "dim-emb = "),
    "heads that do not divide": (
        setting("transformer-heads", "5"),
        "num_heads = 5 does not divide d_model = 32",
    ),
    "a configuration of megabytes": (
        configuration(b"a: [" + b"x," * 600_000 + b"]"),
        "has 1,200,005 bytes of settings, more than 1,048,576",
    ),
    "a configuration nested deep": (configuration(b"a: " + b"[" * 5_000), "is no YAML"),
    "search of megabytes": (write("decoder.yml", b"a: b\n" * 250_000), "decoder.yml: has 1,250,000 bytes"),
    "a vocabulary with empty lines": (
        text_vocabulary(b"</s>\n\n<unk>\n"),
        "a.txt: line 2 is empty, not an entry",
    ),
    "a vocabulary that is no text": (text_vocabulary(b"\xff\xfe"), "a.txt: is not UTF-8"),
    "a vocabulary of one entry": (text_vocabulary(b"</s>"), "a.txt: has no entry <unk>"),
    "a vocabulary of factors": (text_vocabulary(b"", "a.fsv"), "a.fsv: is a vocabulary of factors"),
    "a vocabulary with ids of thousands of digits": (
        text_vocabulary(b"a: " + b"9" * 5_000, "a.yml"),
        "a.yml: its ids are no numbers",
    ),
    "an array that is a pickle": (
        arrays(lambda found: found.update(Wemb=np.array([Payload()], dtype=object))),
        "is no valid .npz file (ValueError)",
    ),
    "an array of long doubles": (
        arrays(lambda found: found.update(Wemb=found["Wemb"].astype(np.longdouble))),
        "has no tensor Wemb",
    ),
    "no configuration": (arrays(lambda found: found.pop("special:model.yml")), "has no special:model.yml"),
    "a configuration that is a list": (configuration(b"- one\n"), "is no YAML mapping"),
    "a configuration with an object": (
        configuration(b"type: !!python/object/apply:os.mkdir [a]\n"),
        "type = ['a'] is not supported",
    ),
    "aliases of aliases": (
        configuration(aliases_of_aliases()),
        "has aliases, which can expand without limit",
    ),
    "a size of the decoder that is a word": (
        setting("transformer-decoder-dim-ffn", "many"),
        "transformer-decoder-dim-ffn = 'many' differs from the encoder's",
    ),
    "a size of the decoder that is a list": (
        setting("transformer-decoder-dim-ffn", "[4]"),
        "transformer-decoder-dim-ffn = ['4'] differs from the encoder's",
    ),
    "a recurrent model": (setting("type", "s2s"), "type = 's2s' is not supported"),
    "pre-norm": (setting("transformer-preprocess", "n"), "transformer-preprocess = 'n' is not supported"),
    "another cell": (setting("dec-cell", "gru"), "dec-cell = 'gru' is not supported"),
    "another activation": (
        setting("transformer-ffn-activation", "tanh"),
        "transformer-ffn-activation = 'tanh' is not supported",
    ),
    "a depth as text": (setting("enc-depth", "three"), "enc-depth = 'three' is no size"),
    "more layers than it has": (setting("enc-depth", "4"), "has no tensor encoder_l4_self_Wq"),
    "fewer layers than it has": (
        setting("enc-depth", "2"),
        "that no known part of the model uses (encoder_l3_ffn_W1",
    ),
    "another width": (setting("dim-emb", "64"), "Wemb is (88, 32), (88, 64) expected"),
    "no vocabulary": (delete("vocab.spm"), "its vocabularies are not found"),
    "a vocabulary of no bytes": (write("vocab.spm", b""), "vocab.spm: cannot be read"),
    "a binary cut off": (binary(half), "it ends too early"),
    "a binary with billions of items": (
        binary(overwritten(8, 2**62)),
        "version 1, 4,611,686,018,427,387,904 items",
    ),
    "a binary with a long name": (binary(overwritten(16, 2**62)), "the length of a name or a shape"),
    "a binary with many dimensions": (binary(overwritten(32, 2**62)), "the length of a name or a shape"),
    "a binary with too much data": (binary(overwritten(40, 2**62)), "it ends too early"),
    "a binary of integers without factors": (
        binary(lambda content: None, kind=0x4101),
        "Wemb has less data than its shape (88, 32)",
    ),
    "a binary of integers with a factor of zero": (
        binary(lambda content: None, 0x10001, 0.0),
        "Wemb is no matrix with a factor",
    ),
    "a binary of integers with a factor below zero": (
        binary(lambda content: None, 0x10001, -1.0),
        "Wemb is no matrix with a factor",
    ),
    "a binary of integers with a factor that is no number": (
        binary(lambda content: None, 0x4101, math.nan),
        "Wemb is no matrix with a factor",
    ),
    "a binary packed for a processor": (binary(lambda content: None, 0x1801, 1.0), "Wemb is of type 0x1801"),
    "a binary of 16 bits that are 8": (
        binary(lambda content: None, 0x10002, 1.0),
        "Wemb has less data than its shape (88, 32)",
    ),
}


@pytest.mark.usefixtures("watched")
@pytest.mark.parametrize("name", MARIAN)
def test_of_marian(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    shutil.copy(FIXTURES / "ssru.npz", folder / "model.npz")
    shutil.copy(FIXTURES / "vocab.spm", folder)
    spoil, reason = MARIAN[name]
    spoil(folder)
    [model] = [each for each in folder.iterdir() if each.suffix in (".npz", ".bin")]
    refused(model, capsys, reason)


def bomb(package: zipfile.ZipFile) -> None:
    package.writestr("m/model/model.bin", bytes(50_000_000), zipfile.ZIP_DEFLATED)


def empty(*names: str) -> Callable[[zipfile.ZipFile], None]:
    """Add files that hold nothing but an empty object of JSON."""

    def fill(package: zipfile.ZipFile) -> None:
        for name in names:
            package.writestr(name, b"{}")

    return fill


def many(package: zipfile.ZipFile) -> None:
    for number in range(1_001):
        package.writestr(f"m/model/{number}", b"")


ARGOS: dict[str, tuple[Callable[[zipfile.ZipFile], Any], str]] = {
    "a file above": (
        lambda package: package.writestr("m/../../escaped", b"x"),
        "the file 'm/../../escaped' lies outside of the package",
    ),
    "a file anywhere": (
        lambda package: package.writestr("/tmp/escaped", b"x"),
        "the file '/tmp/escaped' lies outside of the package",
    ),
    "a file of another system": (
        lambda package: package.writestr("m\\..\\escaped", b"x"),
        r"the file 'm\\..\\escaped' lies outside of the package",
    ),
    "a bomb": (bomb, "too many for its size; take another copy"),
    "a thousand files": (many, "has more than 1,000 files"),
    "two packages": (
        empty("a/metadata.json", "b/metadata.json"),
        "has 2 folders with a metadata.json, not one",
    ),
    "no package": (
        lambda package: package.writestr("m/README.md", b""),
        "has 0 folders with a metadata.json",
    ),
    "compressed otherwise": (
        lambda package: package.writestr("m/metadata.json", b"{}", zipfile.ZIP_LZMA),
        "is compressed otherwise than by DEFLATE",
    ),
    "a file in place of the model": (
        empty("m/metadata.json", "m/model"),
        "has no model/model.bin",
    ),
    "no model": (empty("m/metadata.json"), "has no model/model.bin"),
}


@pytest.mark.usefixtures("watched")
@pytest.mark.parametrize("name", ARGOS)
def test_of_argos(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "inside" / "a.argosmodel"
    path.parent.mkdir()
    fill, reason = ARGOS[name]
    with zipfile.ZipFile(path, "w") as package:
        fill(package)
    refused(path, capsys, reason)
    assert [each.name for each in tmp_path.iterdir()] == ["inside"]
    path.write_bytes(path.read_bytes()[:40])
    refused(path, capsys, "is no valid package (BadZipFile)")
