"""A Marian model in transformers, with which an import is proved."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from allyouneed.interop.foreign import Order, Scored
from allyouneed.interop.huggingface import no_progress_bar
from allyouneed.interop.parity import Ids
from allyouneed.model.positional_encoding import SinusoidalPositions

_NO_TOKEN = -1
"""Stands for ids that are no entries of the vocabulary, such as those of tokens that were added later."""


class TransformersMarian:
    """The model in transformers; an `Original`.

    Args:
        path: The folder.
        orders: The vocabularies of both sides in our order.
    """

    def __init__(self, path: Path, orders: tuple[Order, Order]) -> None:
        from transformers import GenerationConfig, MarianMTModel, MarianTokenizer

        # Not AutoTokenizer: a hostile folder would choose the class. Our exports have no SentencePiece model.
        has_spm = (path / "source.spm").is_file()
        self._tokenizer = MarianTokenizer.from_pretrained(path, local_files_only=True) if has_spm else None
        with no_progress_bar():
            model = MarianMTModel.from_pretrained(path, local_files_only=True, dtype=torch.float32)
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


@torch.inference_mode()
def _restore_sinusoids(table: Tensor) -> None:
    """Write the sinusoids in float32 over those that a file has, which may be rounded."""
    length, width = table.shape
    of_ours = torch.arange(width).view(-1, 2).T.flatten()
    table.copy_(SinusoidalPositions(width)(length)[:, of_ours])
