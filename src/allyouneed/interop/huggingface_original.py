"""A Marian model in transformers, with which an import is proved."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from allyouneed.interop.foreign import Order, Scored
from allyouneed.interop.foreign_files import folder_with, json_object
from allyouneed.interop.huggingface import no_progress_bar
from allyouneed.interop.parity import Ids
from allyouneed.model.positional_encoding import SinusoidalPositions

_NO_TOKEN = -1
"""Stands for ids that are no entries of the vocabulary, such as those of tokens that were added later."""

_FILES = "model.safetensors", "source.spm", "target.spm", "vocab.json", "target_vocab.json"
_SETTINGS = (
    *("model_type", "d_model", "vocab_size", "decoder_vocab_size", "max_position_embeddings"),
    *("encoder_layers", "decoder_layers", "encoder_attention_heads", "decoder_attention_heads"),
    *("encoder_ffn_dim", "decoder_ffn_dim", "activation_function", "scale_embedding"),
    *("share_encoder_decoder_embeddings", "tie_word_embeddings"),
    *("pad_token_id", "eos_token_id", "decoder_start_token_id", "forced_eos_token_id"),
)
"""Settings in `config.json` on which depends what a model computes."""
_SYMBOLS = "unk_token", "eos_token", "pad_token", "additional_special_tokens"
_OF_TOKENS: dict[str, tuple[str, ...]] = {
    "tokenizer_config.json": (
        *("source_lang", "target_lang", "separate_vocabs", "added_tokens_decoder", *_SYMBOLS),
    ),
    "special_tokens_map.json": _SYMBOLS,
    "added_tokens.json": (),
}
"""Files of the tokeniser -> the settings in them on which depends how it splits; all if none is named."""


class TransformersMarian:
    """The model in transformers; an `Original`.

    Args:
        path: The folder.
        settings: What is known of the content of its JSON files; see `known_settings`.
        orders: The vocabularies of both sides in our order.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any], orders: tuple[Order, Order]) -> None:
        from transformers import GenerationConfig, MarianMTModel, MarianTokenizer

        self._tokenizer = None
        with folder_with(path, _FILES, settings) as folder, no_progress_bar():
            if (folder / "source.spm").exists():  # our exports have no SentencePiece model
                # Not AutoTokenizer: a hostile folder would choose the class.
                self._tokenizer = MarianTokenizer.from_pretrained(folder, local_files_only=True)
            model = MarianMTModel.from_pretrained(folder, local_files_only=True, dtype=torch.float32)
        for stack in (model.get_encoder(), model.get_decoder()):
            _restore_sinusoids(stack.embed_positions.weight)
        symbols = ("pad_token_id", "eos_token_id", "decoder_start_token_id")
        model.generation_config = GenerationConfig(  # in place of settings that change what it writes
            **{name: getattr(model.config, name) for name in symbols}
        )
        self._model = model.eval()
        self._source, self._target = orders

    def encode(self, text: str) -> list[int] | None:
        """The source ids of a text, without the end symbol; None without SentencePiece models."""
        if self._tokenizer is None:
            return None
        ids: list[int] = self._tokenizer(text)["input_ids"]
        return self._source.ours(ids[:-1], unknown=_NO_TOKEN)

    def scored(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[Scored]:
        """The targets with the log-probability of each token, the end symbol's last."""
        return [Scored(*pair, self._score(*pair)) for pair in zip(sources, targets, strict=True)]

    @torch.inference_mode()
    def _score(self, source: Ids, target: Ids) -> list[float]:
        config, end = self._model.config, self._model.config.eos_token_id
        written = torch.tensor([*self._target.theirs(target), end])
        read = torch.tensor([[config.decoder_start_token_id, *written[:-1]]])
        logits = self._model(input_ids=self._read(source), decoder_input_ids=read).logits[0]
        found: list[float] = logits.log_softmax(-1).gather(1, written[:, None])[:, 0].tolist()
        return found

    @torch.inference_mode()
    def greedy(self, sources: Sequence[Ids], most: int) -> list[list[int]]:
        """The most probable token again and again, at most `most`, without the end symbol."""
        config = self._model.config
        never = [number for number in self._target.foreign[:4] if number not in (None, config.eos_token_id)]
        outputs = []
        for source in sources:
            [ids] = self._model.generate(
                input_ids=self._read(source),
                max_new_tokens=most,
                suppress_tokens=never or None,
            )
            outputs.append([token for token in ids[1:].tolist() if token != config.eos_token_id])
        return [self._target.ours(ids) for ids in outputs]

    def _read(self, source: Ids) -> Tensor:
        return torch.tensor([[*self._source.theirs(source), self._model.config.eos_token_id]])


def known_settings(path: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON files in a folder as transformers gets them, without settings that name other files or code.

    Args:
        path: The folder.
        settings: The content of its `config.json`.

    Raises:
        ModelError: A file is too large, no regular file, or not JSON.
    """
    known = {"config.json": {name: settings[name] for name in _SETTINGS if name in settings}}
    for name, wanted in _OF_TOKENS.items():
        if (path / name).exists():
            found = json_object(path / name)
            known[name] = {key: value for key, value in found.items() if not wanted or key in wanted}
    return known


@torch.inference_mode()
def _restore_sinusoids(table: Tensor) -> None:
    """Write the sinusoids in float32 over those that a file has, which may be rounded."""
    length, width = table.shape
    of_ours = torch.arange(width).view(-1, 2).T.flatten()
    table.copy_(SinusoidalPositions(width)(length)[:, of_ours])
