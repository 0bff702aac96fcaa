"""The software of Hugging Face's models, of Marian and of M2M-100: `transformers`, which needs PyTorch."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from allyouneed.interop.foreign import Order, Scored
from allyouneed.interop.foreign_files import folder_with
from allyouneed.interop.parity import Ids
from allyouneed.model.position_tables import sinusoids

_NO_TOKEN = -1
"""Stands for ids that are no entries of the vocabulary, such as those of tokens that were added later."""

_FILES = (
    *("model.safetensors", "source.spm", "target.spm", "vocab.json", "target_vocab.json"),
    "sentencepiece.bpe.model",
)


class TransformersMarian:
    """The model in transformers; an `Original`.

    `settings` are those of `known_settings`; `kind` is the architecture, "marian" or "m2m_100".
    """

    def __init__(
        self,
        path: Path,
        settings: Mapping[str, Any],
        orders: tuple[Order, Order],
        kind: str = "marian",
    ) -> None:
        from transformers import GenerationConfig, M2M100ForConditionalGeneration, MarianMTModel

        is_marian = kind == "marian"
        self._tokenizer, self._num_before = None, 0 if is_marian else 1
        of_kind: Any = MarianMTModel if is_marian else M2M100ForConditionalGeneration
        with folder_with(path, _FILES, settings) as folder, no_progress_bar():
            if not is_marian or (folder / "source.spm").exists():  # our exports have no SentencePiece model
                tokenizer = _tokenizer_class(folder)
                self._tokenizer = tokenizer.from_pretrained(folder, local_files_only=True)
            model = of_kind.from_pretrained(folder, local_files_only=True, dtype=torch.float32)
        # A file may have rounded sinusoids.
        for stack in (model.get_encoder(), model.get_decoder()) if is_marian else ():
            length, width = stack.embed_positions.weight.shape
            of_ours = torch.arange(width).view(-1, 2).T.flatten()
            with torch.inference_mode():
                stack.embed_positions.weight.copy_(torch.from_numpy(sinusoids(length, width))[:, of_ours])
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
        return self._source.ours(ids[self._num_before : -1], unknown=_NO_TOKEN)

    @torch.inference_mode()
    def scored(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[Scored]:
        """The targets with the log-probability of each token, the end symbol's last."""
        config, found = self._model.config, []
        for source, target in zip(sources, targets, strict=True):
            written = torch.tensor([*self._target.theirs(target), config.eos_token_id])
            read = torch.tensor([[config.decoder_start_token_id, *written[:-1]]])
            logits = self._model(input_ids=self._read(source), decoder_input_ids=read).logits[0]
            log_probs = logits.log_softmax(-1).gather(1, written[:, None])[:, 0]
            found.append(Scored(source, target, log_probs.tolist()))
        return found

    @torch.inference_mode()
    def greedy(self, sources: Sequence[Ids], most: int) -> list[list[int]]:
        """The most probable token again and again, at most `most`, without the end symbol."""
        config = self._model.config
        never = [number for number in self._target.foreign[:4] if number not in (None, config.eos_token_id)]
        outputs = []
        for source in sources:
            [ids] = self._model.generate(
                input_ids=self._read(source), max_new_tokens=most, suppress_tokens=never or None
            )
            outputs.append([token for token in ids[1:].tolist() if token != config.eos_token_id])
        return [self._target.ours(ids) for ids in outputs]

    def _read(self, source: Ids) -> Tensor:
        return torch.tensor([[*self._source.theirs(source), self._model.config.eos_token_id]])


def _tokenizer_class(folder: Path) -> Any:
    """The class of a folder's tokeniser; not AutoTokenizer, as a hostile folder would choose the class."""
    from transformers import M2M100Tokenizer, MarianTokenizer, NllbTokenizer

    if (folder / "source.spm").exists():
        return MarianTokenizer
    return M2M100Tokenizer if (folder / "vocab.json").exists() else NllbTokenizer


@contextmanager
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
