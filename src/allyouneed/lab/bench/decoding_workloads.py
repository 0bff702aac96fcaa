"""Workloads of `bench translate`: a text for a trained model, or random ids for random weights."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from allyouneed.config.model import ModelConfig
from allyouneed.config.run import RunConfig, SearchConfig
from allyouneed.data.lines import is_blank, read_lines
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.errors import DataError
from allyouneed.evaluation.bleu import bleu_of, choose_tokens
from allyouneed.interop.exporting import export_model
from allyouneed.lab.bench.contenders import OURS
from allyouneed.lab.bench.training_workloads import SHAPES, multi30k_lengths
from allyouneed.model.transformer import Transformer
from allyouneed.runs.loading import load_for
from allyouneed.storage.checkpoint import save_checkpoint
from allyouneed.symbols import END, PADDING, START, UNKNOWN
from allyouneed.tasks.task import SOURCE_TOKENIZER, TARGET_TOKENIZER
from allyouneed.tasks.translation.task import TRANSLATION

MODELS = {
    "small": SHAPES["small"].model,
    "base": SHAPES["base"].model,
    "opus": ModelConfig(
        source_vocab_size=58_000,
        target_vocab_size=58_000,
        activation="swish",
        decoder_start="zeros",
        output_bias=True,
        layer_norm_epsilon=1e-5,
    ),
    "nllb": ModelConfig(
        source_vocab_size=256_206,
        target_vocab_size=256_206,
        d_model=1_024,
        d_ff=4_096,
        num_layers=12,
        num_heads=16,
        norm="pre",
    ),
}
"""Name on the command line -> shape; `opus` is that of OPUS-MT's models, `nllb` that of NLLB-200's 600M."""

_PRE_NORM = "huggingface"
"""The peer that has no export of models with pre-norm; for a shape, it gets random weights of its own."""
_SEED = 1
_WORD_LETTERS = 8


@dataclass(frozen=True)
class DecodingTask:
    """Sentences to translate, and a model in every contender's format."""

    model: ModelConfig
    folders: Mapping[str, Path]
    """Contender -> its model directory."""
    search: SearchConfig
    sources: Sequence[Sequence[int]]
    """Token ids of each source, at least one, without the end symbol."""
    references: Sequence[str] | None = None
    """The reference translation of each source, if known."""
    target_language: str = ""
    """Code of the language of the references."""

    def num_tokens(self, outputs: Sequence[Sequence[int]]) -> int:
        """The number of target tokens produced, end symbols included."""
        most = self.search.max_length
        return sum(len(ids) + 1 if most is None else min(len(ids) + 1, most) for ids in outputs)

    def bleu(self, outputs: Sequence[Sequence[int]]) -> float | None:
        """BLEU of the translations, or None without references."""
        if self.references is None:
            return None
        tokenizer = Tokenizer.load(self.folders[OURS] / TARGET_TOKENIZER)
        metric = bleu_of(choose_tokens(self.target_language, self.references))
        return metric([tokenizer.decode(ids) for ids in outputs], self.references).value


def task_of_model(
    model: Path,
    source: Path | None,
    reference: Path | None,
    peers: Sequence[str],
    search: Mapping[str, object],
    folder: Path,
) -> DecodingTask:
    """The task of translating a text with a trained model, which is exported for the peers.

    Args:
        model: A run, a checkpoint of a run, or a model directory.
        source: Text file of sentences, one per line; blank lines are skipped.
        reference: Text file of their translations, line by line.
        peers: Names of formats that `export` writes.
        search: Settings of `SearchConfig` that override the model's own.
        folder: Directory for the exported models.

    Raises:
        ModelError: `model` holds no model, or not a translation model.
        DataError: Source and reference differ in their number of lines, or the source holds no sentences.
    """
    checkpoint = load_for(model, TRANSLATION)
    directory, config = checkpoint.directory, checkpoint.config
    texts = [] if source is None else list(read_lines(source))
    references = None if reference is None else list(read_lines(reference))
    if references is not None and len(references) != len(texts):
        raise DataError(
            f"{source} has {len(texts):,} lines, {reference} has {len(references):,}; "
            "the reference must translate the source line by line"
        )
    filled = [number for number, text in enumerate(texts) if not is_blank(text)]
    if source is not None and not filled:
        raise DataError(f"{source}: holds no sentences; give a file with at least one")
    tokenizer = Tokenizer.load(directory / SOURCE_TOKENIZER, config.model.source_vocab_size)
    return DecodingTask(
        config.model,
        _exported(directory, peers, folder),
        SearchConfig.checked(**config.search.model_dump() | dict(search)),
        tokenizer.encode_batch([texts[number] for number in filled]),
        references and [references[number] for number in filled],
        config.data.target_language,
    )


def task_of_shape(
    model: ModelConfig,
    num_sentences: int,
    num_tokens: int,
    peers: Sequence[str],
    search: Mapping[str, object],
    folder: Path,
) -> DecodingTask:
    """A task of random weights and ids: sources as long as in Multi30k, outputs of `num_tokens` each."""
    torch.manual_seed(_SEED)
    tokenizer = folder / "tokenizer.json"
    _tokenizer_of_size(model.source_vocab_size).save(tokenizer)
    names = SOURCE_TOKENIZER, TARGET_TOKENIZER
    original = Transformer(model)
    if model.decoder_start == "zeros":
        original.embeddings.matrix("target").detach()[START] = 0  # as Hugging Face's models have it
    weights = dict(original.state_dict())
    attachments = dict.fromkeys(names, tokenizer.read_bytes())
    config = RunConfig(model=model)
    save_checkpoint(folder / OURS, config, weights, attachments, {})
    folders = _exported(
        folder / OURS, [each for each in peers if each != _PRE_NORM or model.norm == "post"], folder
    )
    if _PRE_NORM in peers and model.norm == "pre":
        _write_m2m100(model, folder / _PRE_NORM)
        folders[_PRE_NORM] = folder / _PRE_NORM
    draw = np.random.default_rng(_SEED)
    return DecodingTask(
        model,
        folders,
        SearchConfig.checked(**dict(search) | {"min_length": num_tokens, "max_length": num_tokens}),
        [
            draw.integers(UNKNOWN + 1, model.source_vocab_size, length).tolist()
            for length in np.resize(multi30k_lengths()[:, 0], num_sentences)
        ],
    )


def _exported(model: Path, peers: Sequence[str], folder: Path) -> dict[str, Path]:
    for peer in peers:
        export_model(model, peer, folder / peer)
    return {OURS: model, **{peer: folder / peer for peer in peers}}


def _write_m2m100(model: ModelConfig, folder: Path) -> None:
    """A model of these sizes with random weights of its own, of transformers' only class with pre-norm."""
    from transformers import M2M100Config, M2M100ForConditionalGeneration

    depth, width, heads = model.num_layers, model.d_ff, model.num_heads
    config = M2M100Config(
        vocab_size=model.source_vocab_size,
        d_model=model.d_model,
        **{f"{side}_layers": depth for side in ("encoder", "decoder")},
        **{f"{side}_ffn_dim": width for side in ("encoder", "decoder")},
        **{f"{side}_attention_heads": heads for side in ("encoder", "decoder")},
        **{
            "pad_token_id": PADDING,
            "bos_token_id": START,
            "eos_token_id": END,
            "decoder_start_token_id": END,
        },
    )
    M2M100ForConditionalGeneration(config).save_pretrained(folder)


def _tokenizer_of_size(vocab_size: int) -> Tokenizer:
    """A tokenizer of `vocab_size` sub-words, trained on as many random words that occur twice each."""
    letters = np.random.default_rng(_SEED).integers(ord("a"), ord("z") + 1, (vocab_size, _WORD_LETTERS))
    words = [bytes(word.tolist()).decode() for word in letters]
    return Tokenizer.train([*words, *words], "bpe", vocab_size)
