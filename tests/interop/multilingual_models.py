"""Folders of M2M-100 and NLLB with random weights, as transformers and CTranslate2 keep them."""

import json
from pathlib import Path
from typing import Any

import torch
from tests.interop.foreign_models import SENTENCES, train_spm

from allyouneed.interop.multilingual import LANGUAGES_OF

LANGUAGES = ["deu_Latn", "eng_Latn", "fra_Latn", "zho_Hans", "zho_Hant"]
PIECES = "sentencepiece.bpe.model"


def bpe_of(sentences: list[str]) -> bytes:
    """A SentencePiece model in the order of fairseq's: `<unk>`, `<s>`, `</s>`, then pieces."""
    return train_spm(sentences, 90, model_type="bpe")


def pieces_of(spm: bytes) -> list[str]:
    """The pieces of a SentencePiece model after its three symbols."""
    from sentencepiece import SentencePieceProcessor

    processor = SentencePieceProcessor()
    processor.LoadFromSerializedProto(spm)
    return [processor.id_to_piece(number) for number in range(3, processor.get_piece_size())]


def make_m2m_folder(folder: Path, **settings: Any) -> Path:
    """An M2M-100: a `vocab.json` in its own order, a hundred languages after it, eight other entries."""
    folder.mkdir(parents=True)
    spm = bpe_of(SENTENCES)
    names = ["<s>", "<pad>", "</s>", "<unk>", *reversed(pieces_of(spm))]
    (folder / PIECES).write_bytes(spm)
    (folder / "vocab.json").write_text(json.dumps({name: place for place, name in enumerate(names)}))
    known = {"additional_special_tokens": [f"__{code}__" for code in LANGUAGES_OF["m2m100"].split()]}
    for name in ("special_tokens_map", "tokenizer_config"):
        (folder / f"{name}.json").write_text(json.dumps({**known, "tokenizer_class": "M2M100Tokenizer"}))
    return _with_weights(folder, len(names) + 108, **settings)


def make_nllb_folder(folder: Path, *, described: bool = True, **settings: Any) -> Path:
    """An NLLB: SentencePiece's ids plus one, then languages, then `<mask>` and two other entries.

    It has a `tokenizer.json`, as transformers writes it, else SentencePiece's model.
    """
    folder.mkdir(parents=True)
    spm = bpe_of(SENTENCES)
    (folder / PIECES).write_bytes(spm)
    known = {"additional_special_tokens": LANGUAGES, "mask_token": "<mask>"}
    for name in ("special_tokens_map", "tokenizer_config"):
        (folder / f"{name}.json").write_text(json.dumps({**known, "tokenizer_class": "NllbTokenizer"}))
    _with_weights(folder, len(pieces_of(spm)) + 4 + len(LANGUAGES) + 3, **settings)
    if described:
        from transformers import NllbTokenizer

        tokenizer = NllbTokenizer.from_pretrained(folder, local_files_only=True)
        for name in (PIECES, "special_tokens_map.json", "tokenizer_config.json"):
            (folder / name).unlink()
        tokenizer.save_pretrained(folder)
    return folder


def _with_weights(folder: Path, vocab_size: int, *, scale: float = 12, **settings: Any) -> Path:
    from transformers import M2M100Config, M2M100ForConditionalGeneration

    sizes = {
        **{"vocab_size": vocab_size, "d_model": 24, "encoder_layers": 2, "decoder_layers": 1},
        **{"encoder_ffn_dim": 40, "decoder_ffn_dim": 40, "max_position_embeddings": 400},
        **{
            "encoder_attention_heads": 3,
            "decoder_attention_heads": 3,
            "forced_eos_token_id": None,
            **settings,
        },
    }
    torch.manual_seed(1)
    model = M2M100ForConditionalGeneration(M2M100Config(**sizes))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm.weight" in name:
                parameter.uniform_(0.5, 1.5)
            elif parameter.dim() == 1:
                parameter.normal_(0, 0.3)
            else:
                parameter.mul_(1 if "shared" in name else scale)
    model.save_pretrained(folder)
    return folder


def convert(original: Path, folder: Path, quantization: str | None = None) -> Path:
    """The folder of CTranslate2's own converter, with the file of the tokeniser."""
    from ctranslate2.converters import TransformersConverter

    files = [name for name in (PIECES, "tokenizer.json") if (original / name).exists()]
    TransformersConverter(str(original), copy_files=files).convert(str(folder), quantization=quantization)
    return folder
