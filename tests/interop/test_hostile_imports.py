"""Damaged and malicious models of other software: one line, exit code 4, and no code of theirs runs."""

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
from tests.interop.foreign_models import Item, convert_to_ctranslate2, make_marian_folder, marian_binary

from allyouneed.interfaces.cli import main

pytest.importorskip("sentencepiece", reason="NOT RUN: needs sentencepiece")
pytest.importorskip("transformers", reason="NOT RUN: needs transformers")
pytest.importorskip("ctranslate2", reason="NOT RUN: needs ctranslate2")
pytest.importorskip("yaml", reason="NOT RUN: needs PyYAML")

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


def refused(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", str(path), str(path.parent / "out")]) == 4
    said = capsys.readouterr().err.strip().splitlines()
    errors = [line for line in said if "error[E-" in line]
    assert len(errors) == len(said) >= 1, said
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


def vocabulary(alter: Callable[[dict[str, Any]], Any]) -> Spoil:
    def spoil(folder: Path) -> None:
        ids = json.loads((folder / "vocab.json").read_text())
        alter(ids)
        (folder / "vocab.json").write_text(json.dumps(ids))

    return spoil


_FC1 = "model.encoder.layers.0.fc1.weight"
HUGGING_FACE: dict[str, Spoil] = {
    "settings cut off": cut("config.json", 0.5),
    "settings are a list": write("config.json", b"[]"),
    "settings are no text": write("config.json", b"\xff\xfe"),
    "settings nested deep": write("config.json", b"[" * 100_000),
    "another kind of model": change("config.json", model_type="bert"),
    "no width": change("config.json", d_model=0),
    "a width as text": change("config.json", d_model="24"),
    "a huge width": change("config.json", d_model=10**12),
    "millions of layers": change("config.json", encoder_layers=10**6),
    "no layers": change("config.json", decoder_layers=0),
    "heads that differ": change("config.json", decoder_attention_heads=2),
    "networks that differ": change("config.json", decoder_ffn_dim=8),
    "an unknown activation": change("config.json", activation_function="tanh"),
    "pre-norm": change("config.json", normalize_before=True),
    "a start beyond the vocabulary": change("config.json", decoder_start_token_id=10**9),
    "a start that is a piece": change("config.json", decoder_start_token_id=5),
    "padding elsewhere": change("config.json", pad_token_id=3),
    "a dropout of two": change("config.json", dropout=2),
    "fewer entries than pieces": change("config.json", vocab_size=10),
    "weights cut off": cut("model.safetensors", 0.7),
    "weights of no bytes": write("model.safetensors", b""),
    "a header of exabytes": write("model.safetensors", struct.pack("<Q", 2**62) + b"{}"),
    "a pickle under another name": write("model.safetensors", pickle.dumps(Payload())),
    "a pickle only": only_a_pickle,
    "a tensor missing": tensors(lambda found: found.pop(_FC1)),
    "a tensor too many": tensors(lambda found: found.update(more=torch.zeros(3))),
    "a tensor turned": tensors(lambda found: found.update({_FC1: found[_FC1].T.contiguous()})),
    "a tensor of integers": tensors(lambda found: found.update({_FC1: found[_FC1].int()})),
    "a tensor that is not finite": tensors(lambda found: found.update({_FC1: found[_FC1] / 0})),
    "no vocabulary": delete("vocab.json"),
    "an entry twice": vocabulary(lambda ids: ids.update({"</s>": 1})),
    "an entry without number": vocabulary(lambda ids: ids.update(moon=None)),
    "an entry below zero": vocabulary(lambda ids: ids.update(moon=-1)),
    "no end symbol": vocabulary(lambda ids: ids.update({"end": ids.pop("</s>")})),
    "a control symbol as a piece": vocabulary(lambda ids: ids.update({"<sentinel>": ids.pop("▁sun", 9)})),
    "a tokeniser of no bytes": write("source.spm", b""),
    "a tokeniser that is a pickle": write("target.spm", pickle.dumps(Payload())),
    "a foreign tokenizer.json": write("tokenizer.json", b'{"model": {"type": "Unigram"}}'),
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
    HUGGING_FACE[name](folder)
    refused(folder, capsys)


def patched(offset: int, content: bytes) -> Spoil:
    def spoil(folder: Path) -> None:
        found = bytearray((folder / "model.bin").read_bytes())
        found[offset : offset + len(content)] = content
        (folder / "model.bin").write_bytes(found)

    return spoil


def without_tokenisers(folder: Path) -> None:
    for side in ("source", "target"):
        (folder / f"{side}.spm").unlink()


_AFTER_NAME = 4 + 2 + len("TransformerSpec") + 1
CTRANSLATE2: dict[str, Spoil] = {
    "cut off in the middle": cut("model.bin", 0.5),
    "cut off at the end": cut("model.bin", 0.999),
    "of no bytes": write("model.bin", b""),
    "another version": patched(0, struct.pack("<I", 999)),
    "another class": patched(6, b"WhisperSpec"),
    "billions of variables": patched(_AFTER_NAME + 4, struct.pack("<I", 2**32 - 1)),
    "one variable fewer": patched(_AFTER_NAME + 4, struct.pack("<I", 3)),
    "more after the end": lambda folder: (folder / "model.bin").write_bytes(
        (folder / "model.bin").read_bytes() + b"more"
    ),
    "a pickle": write("model.bin", pickle.dumps(Payload())),
    "a start symbol in the source": change("config.json", add_source_bos=True),
    "a negative epsilon": change("config.json", layer_norm_epsilon=-1.0),
    "a vocabulary that is a text": write("shared_vocabulary.json", b'"sun"'),
    "a vocabulary that is longer": lambda folder: (folder / "shared_vocabulary.json").write_text(
        json.dumps([*json.loads((folder / "shared_vocabulary.json").read_text()), "one", "two"])
    ),
    "no tokenisers": without_tokenisers,
}


@pytest.mark.usefixtures("watched")
@pytest.mark.parametrize("name", CTRANSLATE2)
def test_of_ctranslate2(
    name: str, converted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.copytree(converted, tmp_path / "a" / "model"))
    CTRANSLATE2[name](folder)
    refused(folder, capsys)


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


MARIAN: dict[str, Spoil] = {
    "cut off": cut("model.npz", 0.6),
    "no zip": write("model.npz", b"PK\x03\x04 and no more"),
    "a pickle": write("model.npz", pickle.dumps(Payload())),
    "an array that is a pickle": arrays(lambda found: found.update(Wemb=np.array([Payload()], dtype=object))),
    "no configuration": arrays(lambda found: found.pop("special:model.yml")),
    "a configuration that is a list": configuration(b"- one\n"),
    "a configuration with an object": configuration(b"type: !!python/object/apply:os.mkdir [a]\n"),
    "aliases of aliases": configuration(
        b"a: &a [x]\n" + b"".join(b"k%d: &k%d [%b]\n" % (n, n, b"*a," * 9) for n in range(9))
    ),
    "a recurrent model": setting("type", "s2s"),
    "pre-norm": setting("transformer-preprocess", "n"),
    "another cell": setting("dec-cell", "gru"),
    "another activation": setting("transformer-ffn-activation", "tanh"),
    "a depth as text": setting("enc-depth", "three"),
    "more layers than it has": setting("enc-depth", "4"),
    "fewer layers than it has": setting("enc-depth", "2"),
    "another width": setting("dim-emb", "64"),
    "no vocabulary": delete("vocab.spm"),
    "a vocabulary of no bytes": write("vocab.spm", b""),
    "a binary cut off": binary(half),
    "a binary with billions of items": binary(overwritten(8, 2**62)),
    "a binary with a long name": binary(overwritten(16, 2**62)),
    "a binary with many dimensions": binary(overwritten(32, 2**62)),
    "a binary with too much data": binary(overwritten(40, 2**62)),
    "a binary of integers without factors": binary(lambda content: None, kind=0x4101),
    "a binary of integers with a factor of zero": binary(lambda content: None, 0x10001, 0.0),
    "a binary of integers with a factor below zero": binary(lambda content: None, 0x10001, -1.0),
    "a binary of integers with a factor that is no number": binary(lambda content: None, 0x4101, math.nan),
    "a binary packed for a processor": binary(lambda content: None, 0x1801, 1.0),
    "a binary of 16 bits that are 8": binary(lambda content: None, 0x10002, 1.0),
}


@pytest.mark.usefixtures("watched")
@pytest.mark.parametrize("name", MARIAN)
def test_of_marian(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    shutil.copy(FIXTURES / "ssru.npz", folder / "model.npz")
    shutil.copy(FIXTURES / "vocab.spm", folder)
    MARIAN[name](folder)
    [model] = [each for each in folder.iterdir() if each.suffix in (".npz", ".bin")]
    refused(model, capsys)


def bomb(package: zipfile.ZipFile) -> None:
    package.writestr("m/model/model.bin", bytes(50_000_000), zipfile.ZIP_DEFLATED)


def many(package: zipfile.ZipFile) -> None:
    for number in range(1_001):
        package.writestr(f"m/model/{number}", b"")


ARGOS: dict[str, Callable[[zipfile.ZipFile], Any]] = {
    "a file above": lambda package: package.writestr("m/../../escaped", b"x"),
    "a file anywhere": lambda package: package.writestr("/tmp/escaped", b"x"),
    "a file of another system": lambda package: package.writestr("m\\..\\escaped", b"x"),
    "a bomb": bomb,
    "a thousand files": many,
    "no model": lambda package: package.writestr("m/metadata.json", b"{}"),
}


@pytest.mark.usefixtures("watched")
@pytest.mark.parametrize("name", ARGOS)
def test_of_argos(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "inside" / "a.argosmodel"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as package:
        ARGOS[name](package)
    refused(path, capsys)
    assert [each.name for each in tmp_path.iterdir()] == ["inside"]
    path.write_bytes(path.read_bytes()[:40])
    refused(path, capsys)
