"""Computes with the other software itself, for checks of parity."""

import re
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from allyouneed.errors import ModelError
from allyouneed.interop.foreign import Order, Scored
from allyouneed.interop.foreign_files import folder_with, json_object
from allyouneed.interop.huggingface import no_progress_bar
from allyouneed.interop.parity import Ids
from allyouneed.model.positional_encoding import SinusoidalPositions
from allyouneed.symbols import END

FILES = (
    *("config.json", "model.bin"),
    *(f"{side}_vocabulary.{end}" for side in ("source", "target", "shared") for end in ("json", "txt")),
)
"""Files that CTranslate2 reads here; it would also read a `vmap.txt`."""


class RealCTranslate2:
    """The model in CTranslate2 on the CPU in float32; an `Original`.

    `names` are the entries of both sides in CTranslate2's order. If `ends`, the sources that it gets have an
    end symbol.
    """

    def __init__(
        self,
        path: Path,
        orders: tuple[Order, Order],
        names: tuple[Sequence[str], Sequence[str]],
        *,
        ends: bool,
    ) -> None:
        from ctranslate2 import Translator

        with folder_with(path, FILES, {}) as folder:
            self._translator = Translator(str(folder), device="cpu", compute_type="float32")
        self._orders, self._names = orders, names
        self._end = self._pieces(0, [END]) if ends else []
        self._ids = {name: number for number, name in enumerate(names[1])}

    def encode(self, text: str) -> None:
        """Not available: the folder's tokenisers are not CTranslate2's own."""

    def scored(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[Scored]:
        """The targets with the log-probability of each token, the end symbol's last."""
        found = self._translator.score_batch(
            [self._pieces(0, ids) + self._end for ids in sources],
            [self._pieces(1, ids) for ids in targets],
            max_input_length=0,
        )
        return [
            Scored(source, target, result.log_probs)
            for source, target, result in zip(sources, targets, found, strict=True)
        ]

    def greedy(self, sources: Sequence[Ids], most: int) -> list[list[int]]:
        """The most probable token again and again, at most `most`, without the end symbol."""
        never = [self._names[1][number] for number in self._orders[1].foreign[:2] if number is not None]
        found = self._translator.translate_batch(
            [self._pieces(0, ids) + self._end for ids in sources],
            beam_size=1,
            max_decoding_length=most,
            max_input_length=0,
            suppress_sequences=[[name] for name in never],
        )
        written = [result.hypotheses[0] for result in found]
        return [self._orders[1].ours(self._ids[piece] for piece in pieces) for pieces in written]

    def _pieces(self, side: int, ids: Ids) -> list[str]:
        return [self._names[side][number] for number in self._orders[side].theirs(ids)]


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
"""Settings in `config.json` that change results."""
_SYMBOLS = "unk_token", "eos_token", "pad_token", "additional_special_tokens"
_OF_TOKENS: dict[str, tuple[str, ...]] = {
    "tokenizer_config.json": (
        *("source_lang", "target_lang", "separate_vocabs", "added_tokens_decoder", *_SYMBOLS),
    ),
    "special_tokens_map.json": _SYMBOLS,
    "added_tokens.json": (),
}
"""Files of the tokeniser -> their settings that change how it splits; all if none is named."""


class TransformersMarian:
    """The model in transformers; an `Original`.

    `settings` are those of `known_settings`.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any], orders: tuple[Order, Order]) -> None:
        from transformers import GenerationConfig, MarianMTModel, MarianTokenizer

        self._tokenizer = None
        with folder_with(path, _FILES, settings) as folder, no_progress_bar():
            if (folder / "source.spm").exists():  # our exports have no SentencePiece model
                # Not AutoTokenizer: a hostile folder would choose the class.
                self._tokenizer = MarianTokenizer.from_pretrained(folder, local_files_only=True)
            model = MarianMTModel.from_pretrained(folder, local_files_only=True, dtype=torch.float32)
        for stack in (model.get_encoder(), model.get_decoder()):  # a file may have rounded sinusoids
            length, width = stack.embed_positions.weight.shape
            of_ours = torch.arange(width).view(-1, 2).T.flatten()
            with torch.inference_mode():
                stack.embed_positions.weight.copy_(SinusoidalPositions(width)(length)[:, of_ours])
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
    """The JSON files in a folder as transformers gets them, without settings that name files or code."""
    known = {"config.json": {name: settings[name] for name in _SETTINGS if name in settings}}
    for name, wanted in _OF_TOKENS.items():
        if (path / name).exists():
            found = json_object(path / name)
            known[name] = {key: value for key, value in found.items() if not wanted or key in wanted}
    return known


_BEAM_SIZE = 4
_LINE = re.compile(r"(\d+) \|\|\| (.*?) \|\|\| WordScores= ?(.*?) \|\|\| ")


class RealMarian:
    """The model in Marian on one thread; an `Original`.

    Marian does not score given pieces, so the hypotheses that it writes itself are compared. It reads
    `arrays`, if given, in place of those of the file.
    """

    def __init__(
        self,
        model: Path,
        names: tuple[Sequence[str], Sequence[str]],
        files: tuple[Path, Path],
        arrays: Mapping[str, Tensor | bytes] | None = None,
    ) -> None:
        self._model, self._files = model, files
        if arrays is not None:
            folder = tempfile.mkdtemp()
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            self._model = Path(folder, "model.npz")
            contents = {
                name: array.numpy() if isinstance(array, Tensor) else np.frombuffer(array, np.int8)
                for name, array in arrays.items()
            }
            np.savez(self._model, **contents)  # type: ignore[arg-type]
        self._source, self._target = names
        self._ids = {name: token for token, name in enumerate(self._target)}

    def encode(self, text: str) -> None:
        """Not available: the folder's tokenisers are not Marian's own."""

    def scored(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[Scored]:
        """Hypotheses of a beam search, with the log-probability of each token, the end symbol's last."""
        return [
            Scored(sources[number], ids, log_probs)
            for number, ids, log_probs in self._written(sources, _BEAM_SIZE)
            if len(log_probs) == len(ids) + 1  # else it was cut off
        ]

    def greedy(self, sources: Sequence[Ids], most: int) -> list[list[int]]:
        """The most probable token again and again, at most `most`, without the end symbol."""
        return [ids[:most] for _, ids, _ in self._written(sources, 1)]

    def _written(self, sources: Sequence[Ids], beam_size: int) -> list[tuple[int, list[int], list[float]]]:
        """Number of the source, ids and log-probabilities of each hypothesis."""
        from pymarian import Translator

        options: dict[str, Any] = {
            **{"n-best": True, "word-scores": True, "no-spm-encode": True, "no-spm-decode": True},
            **{"beam-size": beam_size, "cpu-threads": 1, "workspace": 256, "mini-batch": 1},
            **{"quiet": True, "quiet-translation": True, "max-length": 200, "max-length-factor": 10},
            "allow-unk": True,  # as our search does
        }
        texts = [" ".join(self._source[token] for token in ids) for ids in sources]
        found = Translator(models=[str(self._model)], vocabs=[*map(str, self._files)], **options).translate(
            texts
        )
        written = []
        for line in (part for text in found for part in text.split("\n") if part):
            match = _LINE.match(line)
            if match is None:
                raise ModelError(f"{self._model}: Marian answers in an unknown form: {line[:60]!r}")
            ids = [self._ids[piece] for piece in match[2].split()]
            written.append((int(match[1]), ids, [float(number) for number in match[3].split()]))
        return written
