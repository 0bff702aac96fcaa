"""Models that other software has made: random weights of transformers, converted by CTranslate2."""

import io
import json
import random
import struct
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

WORDS = [
    *("sun", "moon", "star", "tree", "river", "stone", "bird", "fish", "wolf", "bear", "sees", "likes"),
    *("house", "garden", "winter", "summer"),
]
SENTENCES = [
    " ".join(random.Random(number).choices(WORDS, k=1 + number % 7)) + "?.!"[number % 3]
    for number in range(400)
]

TIED = "--tied-embeddings-all", "--dec-depth", "2"
SSRU = "--transformer-decoder-autoreg", "rnn", "--dec-cell", "ssru"
_PYMARIAN = Path(sys.executable).with_name("pymarian")


def train_spm(sentences: list[str], vocab_size: int, **options: Any) -> bytes:
    """A SentencePiece model, with the library's default symbols unless `options` name others."""
    import sentencepiece

    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences),
        model_writer=written,
        vocab_size=vocab_size,
        hard_vocab_limit=False,
        minloglevel=3,
        **options,
    )
    return written.getvalue()


def spm_of(sentences: list[str], vocab_size: int = 90) -> bytes:
    """A SentencePiece model with `</s>` and `<unk>` first, as Marian has them."""
    return train_spm(sentences, vocab_size, bos_id=-1, eos_id=0, unk_id=1)


def make_marian_folder(
    folder: Path,
    *,
    languages: Sequence[str] = (),
    sentences: list[str] = SENTENCES,
    vocab_size: int = 90,
    **settings: Any,
) -> Path:
    """A `MarianMTModel` of random weights, laid out as OPUS-MT's: the vocabulary has an order of its own."""
    from sentencepiece import SentencePieceProcessor
    from transformers import MarianConfig, MarianMTModel

    folder.mkdir(parents=True)
    spm = spm_of(sentences, vocab_size)
    processor = SentencePieceProcessor()
    processor.LoadFromSerializedProto(spm)
    pieces = [processor.id_to_piece(number) for number in range(2, processor.get_piece_size())]
    pieces += [f">>{code}<<" for code in languages]
    random.Random(1).shuffle(pieces)
    names = ["</s>", "<unk>", *pieces, "<pad>"]
    for side in ("source", "target"):
        (folder / f"{side}.spm").write_bytes(spm)
    (folder / "vocab.json").write_text(json.dumps({name: place for place, name in enumerate(names)}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"source_lang": "en", "target_lang": "de"}))
    sizes = {
        **{"vocab_size": len(names), "decoder_vocab_size": len(names), "d_model": 24},
        **{"encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 40, "decoder_ffn_dim": 40},
        **{"encoder_attention_heads": 3, "decoder_attention_heads": 3, "max_position_embeddings": 400},
        **{"pad_token_id": len(names) - 1, "eos_token_id": 0, "decoder_start_token_id": len(names) - 1},
        **{"activation_function": "swish", "scale_embedding": True, "forced_eos_token_id": 0, **settings},
    }
    torch.manual_seed(1)
    model = MarianMTModel(MarianConfig(**sizes))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm.weight" in name:
                parameter.uniform_(0.5, 1.5)
            elif parameter.dim() == 1:
                parameter.normal_(0, 0.3)
            else:
                parameter.mul_(6)
        for embedding in (model.get_encoder().embed_tokens, model.get_decoder().embed_tokens):
            embedding.weight[len(names) - 1] = 0
        model.final_logits_bias.normal_(0, 0.5)
    model.save_pretrained(folder)
    return folder


class Item(NamedTuple):
    """An array in Marian's binary files."""

    kind: int
    shape: tuple[int, ...]
    data: bytes


def marian_binary(items: Mapping[str, Item]) -> bytes:
    """A binary file of Marian."""
    out = io.BytesIO()
    out.write(struct.pack("<QQ", 1, len(items)))
    for name, item in items.items():
        out.write(struct.pack("<QQQQ", len(name) + 1, item.kind, len(item.shape), len(item.data)))
    for name in items:
        out.write(name.encode() + b"\0")
    for item in items.values():
        out.write(struct.pack(f"<{len(item.shape)}i", *item.shape))
    out.write(struct.pack("<Q", 0))
    for item in items.values():
        out.write(item.data)
    return out.getvalue()


def firefox_items(arrays: Mapping[str, "np.ndarray[Any, Any]"], largest: int = 127) -> dict[str, Item]:
    """The arrays of a model, with matrices rounded to intgemm8 as Bergamot's converter stores them."""
    return {name: _firefox_item(name, array, largest) for name, array in arrays.items()}


def _firefox_item(name: str, array: "np.ndarray[Any, Any]", largest: int) -> Item:
    is_embedding = "Wemb" in name
    if not (is_embedding or name[-3:-1] == "_W" or name.endswith(("_W", "_W1", "_W2"))):
        return Item(0x0101 if array.dtype == np.int8 else 0x0404, array.shape, array.tobytes())
    factor = np.float32(largest) / np.abs(array).max()
    rounded = np.rint(array * factor).astype(np.int8)
    stored = rounded if is_embedding else rounded.T
    return Item(0x4101, array.shape, stored.tobytes() + struct.pack("<f", factor))


def fine_tune(folder: Path, num_updates: int) -> None:
    """Train a folder's model with transformers to reverse sentences; padding, its start, gets a vector."""
    from transformers import MarianMTModel, MarianTokenizer

    tokenizer = MarianTokenizer.from_pretrained(folder, local_files_only=True)
    model = MarianMTModel.from_pretrained(folder, local_files_only=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    draw = random.Random(1)
    for _ in range(num_updates):
        texts = draw.choices(SENTENCES, k=32)
        batch = tokenizer(texts, text_target=[*map(backwards, texts)], padding=True, return_tensors="pt")
        batch["labels"][batch["labels"] == tokenizer.pad_token_id] = -100
        model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.save_pretrained(folder)


def marian(folder: Path, *options: str, vocab_size: int = 90) -> Path:
    """A model that reverses sentences, after a few updates, by Marian itself."""
    (folder / "vocab.spm").write_bytes(spm_of(SENTENCES, vocab_size))
    for side, texts in (("source", SENTENCES), ("target", map(backwards, SENTENCES))):
        (folder / side).write_text("".join(f"{text}\n" for text in texts))
    (folder / "words").write_text("".join(f"{links(text)}\n" for text in SENTENCES))
    sizes = "--dim-emb", "32", "--transformer-heads", "4", "--transformer-dim-ffn", "64", "--enc-depth", "2"
    run_marian(
        *("train", "--type", "transformer", *sizes, *options, "--model", folder / "model.npz", "--quiet"),
        *("--train-sets", folder / "source", folder / "target", "--after", "300u", "--learn-rate", "0.003"),
        *("--vocabs", folder / "vocab.spm", folder / "vocab.spm", "--cpu-threads", "1", "--seed", "1"),
        *("--mini-batch", "64"),
    )
    return folder / "model.npz"


def run_marian(*arguments: object) -> None:
    done = subprocess.run([_PYMARIAN, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def links(text: str) -> str:
    last = len(text.split()) - 1
    return " ".join(f"{last - place}-{place}" for place in range(last + 1))


def backwards(text: str) -> str:
    """A sentence with its words reversed."""
    return " ".join(reversed(text[:-1].split())) + text[-1]


def convert_to_ctranslate2(marian: Path, folder: Path, quantization: str | None) -> Path:
    """The folder of CTranslate2's own converter."""
    from ctranslate2.converters import TransformersConverter

    converter = TransformersConverter(str(marian), copy_files=["source.spm", "target.spm"])
    converter.convert(str(folder), quantization=quantization)
    return folder


def argos_package(marian: Path, folder: Path) -> Path:
    """A package of Argos Translate with the model of a folder of Hugging Face."""
    converted = convert_to_ctranslate2(marian, folder / "converted", None)
    with zipfile.ZipFile(folder / "en_fr.argosmodel", "w") as package:
        package.writestr("en_fr/metadata.json", json.dumps({"from_code": "en", "to_code": "fr"}))
        package.write(marian / "source.spm", "en_fr/sentencepiece.model")
        for file in converted.iterdir():
            package.write(file, f"en_fr/model/{file.name}")
    return folder / "en_fr.argosmodel"
