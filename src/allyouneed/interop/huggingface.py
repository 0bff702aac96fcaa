"""Hugging Face export: a folder that `transformers` loads as a Marian model, with its tokenisers."""

import json
import math
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, cast

import tokenizers
import torch
from safetensors.torch import save_file
from tokenizers.processors import TemplateProcessing
from torch import Tensor, nn

from allyouneed.config.run import DataConfig, RunConfig
from allyouneed.data.sentencepiece_tokenizer import SentencePieceTokenizer
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.errors import ModelError
from allyouneed.inference.torch_engine import pad
from allyouneed.interop.foreign import DIFFERENCES, length_exponent, parts_of
from allyouneed.interop.from_huggingface import LAYER, MARIAN_EPSILON, WRITING
from allyouneed.interop.parity import Ids
from allyouneed.interop.transformers_marian import no_progress_bar
from allyouneed.model.transformer import Transformer
from allyouneed.storage.checkpoint import Checkpoint
from allyouneed.symbols import CONTROL_SYMBOLS, END, NEVER_PRODUCED, PADDING, SENTINEL, START, UNKNOWN
from allyouneed.tasks.task import SOURCE_TOKENIZER, TARGET_TOKENIZER
from allyouneed.tasks.translation.text_encoder import MAX_TOKENS

_TARGET = "target_tokenizer"
"""Folder of the target tokeniser, if it differs from the source tokeniser."""
_SYMBOLS: dict[str, Any] = {
    **{"pad_token_id": PADDING, "bos_token_id": START, "decoder_start_token_id": START, "eos_token_id": END},
    "forced_eos_token_id": None,  # an output that is cut off has no end symbol
}

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

    Raises ModelError for a start that is no embedding of a symbol.
    """
    from transformers import GenerationConfig, MarianConfig

    if model.config.decoder_start == "zeros" and model.embeddings.matrix("target")[START].any():
        raise ModelError(
            "huggingface: Marian starts with the embedding of a symbol, and the model with zeros "
            "(model.decoder_start = zeros); export it to ctranslate2"
        )
    weights = {name: tensor.detach().contiguous() for name, tensor in marian_weights(model)}
    save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})
    search, data = checkpoint.config.search, checkpoint.config.data
    MarianConfig(**_marian_settings(checkpoint.config)).save_pretrained(directory)
    GenerationConfig(
        num_beams=search.beam_size,
        # transformers refuses a penalty for greedy search
        **({"length_penalty": length_exponent(search)} if search.beam_size > 1 else {}),
        max_new_tokens=min(data.max_tokens, MAX_TOKENS) + search.max_extra_tokens,
        suppress_tokens=list(NEVER_PRODUCED),
        **_SYMBOLS,
    ).save_pretrained(directory)
    has_target_folder = _write_tokenizers(checkpoint, directory)
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
        **_SYMBOLS,
    }


def _write_tokenizers(checkpoint: Checkpoint, directory: Path) -> bool:
    """Write the tokenisers. Returns whether the target's has a folder of its own."""
    names = SOURCE_TOKENIZER, TARGET_TOKENIZER
    source, target = (Tokenizer.load(checkpoint.directory / name) for name in names)
    if isinstance(source, SentencePieceTokenizer) and isinstance(target, SentencePieceTokenizer):
        _write_sentencepiece(source, target, checkpoint.config.data, directory)
        return False
    contents = [checkpoint.attachments[name] for name in names]
    _write_tokenizer(contents[0], directory, [*source.languages])
    if contents[0] != contents[1]:
        _write_tokenizer(contents[1], directory / _TARGET)
    return contents[0] != contents[1]


def _write_sentencepiece(
    source: SentencePieceTokenizer, target: SentencePieceTokenizer, data: DataConfig, directory: Path
) -> None:
    """The files of a `MarianTokenizer`, which has both sides."""
    are_one = source.names == target.names
    for side, tokenizer in (("source", source), ("target", target)):
        (directory / f"{side}.spm").write_bytes(tokenizer.model)
    for name, tokenizer in {
        "vocab.json": source,
        **({} if are_one else {"target_vocab.json": target}),
    }.items():
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


def _write_tokenizer(content: bytes, directory: Path, symbols: Sequence[str] = ()) -> None:
    from transformers import PreTrainedTokenizerFast

    end = CONTROL_SYMBOLS[END]
    library = tokenizers.Tokenizer.from_str(content.decode())
    # These symbols are taken anywhere in a text, where ours are text but at the beginning.
    library.add_tokens([tokenizers.AddedToken(each, rstrip=True, normalized=False) for each in symbols])
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


Named = Iterator[tuple[str, Tensor]]


class _Stream(NamedTuple):
    """The residual stream at some point of Marian: ours times `scale`, with its dimensions in `order`."""

    order: Tensor
    scale: float

    def read(self, weight: Tensor) -> Tensor:
        """Convert a matrix that is applied to our stream into one for Marian's stream."""
        return weight[:, self.order] / self.scale

    def write(self, weight: Tensor) -> Tensor:
        """Convert a matrix or vector that writes our stream into one that writes Marian's."""
        return weight[self.order] * self.scale


def marian_weights(model: Transformer) -> Named:
    """Name and tensor of each Marian weight, for heads of d_model / num_heads and sinusoidal positions.

    Marian differs from the paper's architecture in two ways. Both are compensated by a change of basis of the
    residual stream, which sub-layers read from and add to:

    - Its sinusoids have all sines before all cosines: the dimensions of the stream are put in that order.
    - Its normalisations always add 1e-5 to the variance. `LayerNorm(s x)` with epsilon e equals
      `LayerNorm(x)` with epsilon e / s^2, so the stream is scaled by s = sqrt(1e-5 / epsilon).

    Sinusoids cannot be scaled, so the first normalisations of encoder and decoder keep Marian's epsilon. With
    the paper's 1e-6 this shrinks their outputs by a few millionths; everything else is exact.
    """
    config = model.config
    even_before_odd = torch.arange(config.d_model).view(-1, 2).T.flatten()
    plain = _Stream(even_before_odd, 1.0)
    scaled = _Stream(even_before_odd, math.sqrt(MARIAN_EPSILON / config.layer_norm_epsilon))
    yield from _embeddings(model, plain)
    yield from _stack("encoder", list(model.encoder), plain, scaled)
    yield from _stack("decoder", list(model.decoder), plain, scaled)


def _embeddings(model: Transformer, stream: _Stream) -> Named:
    """The embeddings; tied ones appear once, under the name that Marian ties the others to."""
    source, target, output = (stream.read(model.embeddings.matrix(r)) for r in ("source", "target", "output"))
    tied = model.config.tied_embeddings
    if tied == "all":
        yield "model.shared.weight", source
    else:
        yield "model.encoder.embed_tokens.weight", source
        yield "model.decoder.embed_tokens.weight", target
    if tied == "none":
        yield "lm_head.weight", output
    bias = model.embeddings.bias
    yield "final_logits_bias", torch.zeros(1, len(output)) if bias is None else bias[None]


def _stack(stack: str, layers: Sequence[nn.Module], plain: _Stream, scaled: _Stream) -> Named:
    """Convert the layers of one stack; the stream is scaled from the first normalisation up to the last."""
    for (number, layer), ours in product(enumerate(layers), parts_of(stack, LAYER)):
        before = plain if number == 0 else scaled
        after = plain if number == len(layers) - 1 else scaled
        points = {
            **{"self_attention.query_key_value": before, "self_attention.output": before},
            **{"cross_attention.key_value": plain, "after_feed_forward.norm": after},
        }
        stream, module = points.get(ours, scaled), cast("nn.Linear | nn.LayerNorm", layer.get_submodule(ours))
        weight: Tensor = module.weight
        bias: Tensor = torch.zeros(weight.size(0)) if module.bias is None else module.bias
        if ours.endswith(WRITING):
            weight, bias = stream.write(weight), stream.write(bias)
        else:
            weight = stream.read(weight)
        names = LAYER[ours]
        parts = zip(names, weight.chunk(len(names)), bias.chunk(len(names)), strict=True)
        for name, weights, biases in parts:
            yield f"model.{stack}.layers.{number}.{name}.weight", weights
            yield f"model.{stack}.layers.{number}.{name}.bias", biases
