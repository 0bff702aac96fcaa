"""Hugging Face export: a folder that `transformers` loads as a Marian model, with its tokenisers."""

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import tokenizers
import torch
from safetensors.torch import save_file
from tokenizers.processors import TemplateProcessing

from allyouneed.config.run import DataConfig, RunConfig
from allyouneed.data.sentencepiece_tokenizer import SentencePieceTokenizer
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.errors import ModelError
from allyouneed.inference.engine import pad
from allyouneed.inference.selection import NEVER_PRODUCED
from allyouneed.interop.foreign_search import DIFFERENCES, length_exponent
from allyouneed.interop.marian_weights import marian_weights
from allyouneed.interop.parity import Ids
from allyouneed.model import Transformer
from allyouneed.storage.checkpoint import Checkpoint
from allyouneed.symbols import CONTROL_SYMBOLS, END, PADDING, SENTINEL, START, UNKNOWN
from allyouneed.tasks.task import SOURCE_TOKENIZER, TARGET_TOKENIZER
from allyouneed.tasks.translation.text_encoder import MAX_TOKENS

_TARGET = "target_tokenizer"
"""Folder of the target tokeniser, if it differs from the source tokeniser."""

_README = """\
# A model in the format of Hugging Face

Made by `allyouneed export`. In this folder, after `pip install transformers torch`:

```python
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

source, target = AutoTokenizer.from_pretrained("."), AutoTokenizer.from_pretrained("{target}")
model = AutoModelForSeq2SeqLM.from_pretrained(".")
batch = source(["A dog runs."], padding=True, return_tensors="pt")
written = model.generate(**batch, max_new_tokens=batch.input_ids.shape[1] + {max_extra_tokens})
print(target.batch_decode(written, skip_special_tokens=True))
```

The probabilities equal the original's. The search is that of transformers, with the settings in
`generation_config.json`, so some translations differ:
{difference};
it continues until `num_beams` hypotheses have ended.

`split_special_tokens` in `tokenizer_config.json` keeps a `</s>` in a text from becoming an end symbol.
"""


def write(model: Transformer, checkpoint: Checkpoint, directory: Path) -> None:
    """Write the model, its tokenisers, search settings, and a README, into `directory`.

    Raises:
        ModelError: The model has learned positions, which Marian does not support, or a zero vector at the
            start that is not the embedding of the start symbol.
    """
    from transformers import GenerationConfig, MarianConfig

    if model.config.positions != "sinusoidal":
        raise ModelError(
            f"huggingface: Marian has only sinusoids, and the model has {model.config.positions} positions; "
            "export it to ctranslate2"
        )
    if model.config.decoder_start == "zeros" and model.embeddings.matrix("target")[START].any():
        raise ModelError(
            "huggingface: Marian starts with the embedding of a symbol, and the model with zeros "
            "(model.decoder_start = zeros); export it to ctranslate2"
        )
    weights = {name: tensor.detach().contiguous() for name, tensor in marian_weights(model)}
    save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})
    MarianConfig(**_marian_settings(checkpoint.config)).save_pretrained(directory)
    GenerationConfig(**_search_settings(checkpoint.config)).save_pretrained(directory)
    has_target_folder = _write_tokenizers(checkpoint, directory)
    search = checkpoint.config.search
    readme = _README.format(
        target=_TARGET if has_target_folder else ".",
        max_extra_tokens=search.max_extra_tokens,
        difference=DIFFERENCES[search.length_normalization],
    )
    (directory / "README.md").write_bytes(readme.encode())


class HuggingFaceModel:
    """A model written by `write`, run by transformers on the CPU."""

    def __init__(self, directory: Path) -> None:
        from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

        with no_progress_bar():
            self._model = AutoModelForSeq2SeqLM.from_pretrained(directory, local_files_only=True)
        target = directory / _TARGET if (directory / _TARGET).is_dir() else directory
        self._source = AutoTokenizer.from_pretrained(directory, local_files_only=True)
        self._target = AutoTokenizer.from_pretrained(target, local_files_only=True)

    def encode(self, text: str) -> list[int]:
        """The source ids of a text, without the end symbol."""
        ids: list[int] = self._source(text)["input_ids"]
        return ids[:-1] if ids[-1:] == [END] else []

    def decode(self, ids: Ids) -> str:
        """The text of target ids; `generate` writes them between the start and end symbols."""
        text: str = self._target.decode([START, *ids, END], skip_special_tokens=True)
        return text

    def score(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[list[float]]:
        """The log-probability of each token of each target, the end symbol's last."""
        device = torch.device("cpu")
        source = pad([[*ids, END] for ids in sources], device)
        target_input = pad([[START, *ids] for ids in targets], device)
        target_output = pad([[*ids, END] for ids in targets], device)
        with torch.inference_mode():
            logits = self._model(source, source != PADDING, target_input).logits
        log_probs = logits.log_softmax(dim=-1).gather(2, target_output[:, :, None])[:, :, 0]
        return [row[: len(ids) + 1].tolist() for row, ids in zip(log_probs, targets, strict=True)]


def _marian_settings(config: RunConfig) -> dict[str, Any]:
    model = config.model
    return {
        "architectures": ["MarianMTModel"],
        "vocab_size": model.source_vocab_size,
        "decoder_vocab_size": model.target_vocab_size,
        "share_encoder_decoder_embeddings": model.tied_embeddings == "all",
        "tie_word_embeddings": model.tied_embeddings != "none",
        "scale_embedding": model.scaled_embeddings,
        "d_model": model.d_model,
        "encoder_layers": model.num_layers,
        "decoder_layers": model.decoder_layers,
        **{f"{side}_attention_heads": model.num_heads for side in ("encoder", "decoder")},
        **{f"{side}_ffn_dim": model.d_ff for side in ("encoder", "decoder")},
        "activation_function": model.activation,
        "dropout": model.dropout,
        "max_position_embeddings": 1 + MAX_TOKENS + config.search.max_extra_tokens,
        "dtype": "float32",
        **_symbols(),
    }


def _search_settings(config: RunConfig) -> dict[str, Any]:
    search = config.search
    of_beams = {"length_penalty": length_exponent(search)} if search.beam_size > 1 else {}
    return {
        "num_beams": search.beam_size,
        **of_beams,  # transformers refuses a penalty for greedy search
        "max_new_tokens": min(config.data.max_tokens, MAX_TOKENS) + search.max_extra_tokens,
        "suppress_tokens": list(NEVER_PRODUCED),
        **_symbols(),
    }


def _symbols() -> dict[str, int | None]:
    return {
        "pad_token_id": PADDING,
        "bos_token_id": START,
        "decoder_start_token_id": START,
        "eos_token_id": END,
        "forced_eos_token_id": None,  # an output that is cut off has no end symbol
    }


def _write_tokenizers(checkpoint: Checkpoint, directory: Path) -> bool:
    """Write the tokenisers. Returns whether the target's has a folder of its own."""
    names = SOURCE_TOKENIZER, TARGET_TOKENIZER
    source, target = (Tokenizer.load(checkpoint.directory / name) for name in names)
    if isinstance(source, SentencePieceTokenizer) and isinstance(target, SentencePieceTokenizer):
        _write_sentencepiece(source, target, checkpoint.config.data, directory)
        return False
    contents = [checkpoint.attachments[name] for name in names]
    _write_tokenizer(contents[0], directory)
    if contents[0] != contents[1]:
        _write_tokenizer(contents[1], directory / _TARGET)
    return contents[0] != contents[1]


def _write_sentencepiece(
    source: SentencePieceTokenizer, target: SentencePieceTokenizer, data: DataConfig, directory: Path
) -> None:
    """The files of a `MarianTokenizer`, which has both sides."""
    are_one = source.names == target.names
    for name, tokenizer in (("source.spm", source), ("target.spm", target)):
        (directory / name).write_bytes(tokenizer.model)
    for name, tokenizer in (("vocab.json", source), *([] if are_one else [("target_vocab.json", target)])):
        ids = {piece: token for token, piece in enumerate(tokenizer.names)}
        (directory / name).write_bytes(json.dumps(ids, ensure_ascii=False).encode())
    settings = {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": data.source_language or None,
        "target_lang": data.target_language or None,
        "separate_vocabs": not are_one,
        "split_special_tokens": True,  # else a text could hold control symbols
        "pad_token": CONTROL_SYMBOLS[PADDING],
        "bos_token": CONTROL_SYMBOLS[START],  # else it stays in translations
        "eos_token": CONTROL_SYMBOLS[END],
        "unk_token": CONTROL_SYMBOLS[UNKNOWN],
        "model_max_length": 1 + MAX_TOKENS,
    }
    (directory / "tokenizer_config.json").write_bytes(json.dumps(settings, indent=1).encode())


def _write_tokenizer(content: bytes, directory: Path) -> None:
    from transformers import PreTrainedTokenizerFast

    end = CONTROL_SYMBOLS[END]
    library = tokenizers.Tokenizer.from_str(content.decode())
    library.post_processor = TemplateProcessing(single=f"$A {end}", special_tokens=[(end, END)])
    PreTrainedTokenizerFast(
        tokenizer_object=library,
        pad_token=CONTROL_SYMBOLS[PADDING],
        bos_token=CONTROL_SYMBOLS[START],
        eos_token=end,
        unk_token=CONTROL_SYMBOLS[UNKNOWN],
        additional_special_tokens=[CONTROL_SYMBOLS[SENTINEL]],
        split_special_tokens=True,  # else a text could hold control symbols
        clean_up_tokenization_spaces=False,
        model_input_names=["input_ids", "attention_mask"],
        model_max_length=1 + MAX_TOKENS,
    ).save_pretrained(directory)


@contextlib.contextmanager
def no_progress_bar() -> Iterator[None]:
    """Keep transformers from showing its progress."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
