"""CTranslate2 export: a folder for its `Translator`, which runs it in float32 or another compute type.

The format represents the paper's model exactly: both positional encodings (as a table), any epsilon,
attention with or without biases, shared or separate embedding matrices. It also has pre-norm, rotary
positions, other activations, decoders of another depth, and what models of Marian have.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tokenizers
from torch import nn

from allyouneed.config.model import ModelConfig
from allyouneed.data.sentencepiece_tokenizer import SentencePieceTokenizer
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.interop.ctranslate2_files import LAYER
from allyouneed.interop.foreign import DIFFERENCES, length_exponent, parts_of
from allyouneed.interop.parity import Ids
from allyouneed.model.positional_encoding import LearnedPositions
from allyouneed.model.transformer import Transformer
from allyouneed.storage.checkpoint import Checkpoint
from allyouneed.symbols import CONTROL_SYMBOLS, END, START, UNKNOWN
from allyouneed.tasks.task import SOURCE_TOKENIZER, TARGET_TOKENIZER
from allyouneed.tasks.translation.text_encoder import MAX_TOKENS

_README = """\
# A model in the format of CTranslate2

Made by `allyouneed export`. The model reads and writes sub-words; the tokenisers in this folder convert text.
In this folder, after `pip install ctranslate2 {package}`:

```python
import ctranslate2
{imported}

source, target = ({loaded} for side in ("source", "target"))
translator = ctranslate2.Translator(".", compute_type="float32")  # or "int8"
pieces = {encoded}
found = translator.translate_batch(
    [pieces],
    beam_size={beam_size},
    length_penalty={length_penalty},
    max_decoding_length=len(pieces) + {max_extra_tokens},  # with the end symbols of both
    suppress_sequences=[["<pad>"], ["<s>"], ["<sentinel>"]],
)
print({decoded})
```

The probabilities equal the original's. The search is CTranslate2's own, so some translations differ:
{difference};
it continues until `beam_size` hypotheses have ended.
"""

_WITH_TOKENIZERS = {
    "package": "tokenizers",
    "imported": "from tokenizers import Tokenizer",
    "loaded": 'Tokenizer.from_file(f"{side}_tokenizer.json")',
    "encoded": 'source.encode("A dog runs.").tokens',
    "decoded": "target.decode([target.token_to_id(piece) for piece in found[0].hypotheses[0]])",
}
_WITH_SENTENCEPIECE = {
    "package": "sentencepiece",
    "imported": "from sentencepiece import SentencePieceProcessor",
    "loaded": 'SentencePieceProcessor(model_file=f"{side}.spm")',
    "encoded": 'source.encode("A dog runs.", out_type=str)',
    "decoded": "target.decode_pieces(found[0].hypotheses[0])",
}


def write(model: Transformer, checkpoint: Checkpoint, directory: Path) -> None:
    """Write the model, its vocabularies and tokenisers, and a README, into `directory`."""
    config = model.config
    spec = _specification(config)
    _copy_weights(spec, model, 1 + MAX_TOKENS + checkpoint.config.search.max_extra_tokens)
    for name, content in checkpoint.attachments.items():
        (directory / name).write_bytes(content)
    source, target = (Tokenizer.load(directory / name) for name in (SOURCE_TOKENIZER, TARGET_TOKENIZER))
    for side, tokenizer in (("source", source), ("target", target)):
        if isinstance(tokenizer, SentencePieceTokenizer):
            (directory / f"{side}.spm").write_bytes(tokenizer.model)
    spec.register_source_vocabulary([*source.names])
    spec.register_target_vocabulary([*target.names])
    spec.config.layer_norm_epsilon = config.layer_norm_epsilon
    spec.config.unk_token = CONTROL_SYMBOLS[UNKNOWN]
    spec.config.bos_token = spec.config.decoder_start_token = CONTROL_SYMBOLS[START]
    spec.config.eos_token = CONTROL_SYMBOLS[END]
    spec.config.add_source_eos = model.config.source_end
    spec.validate()
    spec.optimize()  # a matrix with several roles is written once
    spec.save(str(directory))
    pieces = dict(_WITH_SENTENCEPIECE if isinstance(source, SentencePieceTokenizer) else _WITH_TOKENIZERS)
    if source.languages:
        pieces["encoded"] = f"[{next(iter(source.languages))!r}, *{pieces['encoded']}]"
    search = checkpoint.config.search
    readme = _README.format(
        **pieces,
        beam_size=search.beam_size,
        length_penalty=length_exponent(search),
        max_extra_tokens=1 + search.max_extra_tokens,
        difference=DIFFERENCES[search.length_normalization],
    )
    (directory / "README.md").write_bytes(readme.encode())


def _specification(config: ModelConfig) -> Any:
    """A model of the format without weights."""
    from ctranslate2.specs import transformer_spec
    from ctranslate2.specs.common_spec import Activation

    form: dict[str, Any] = {
        "num_heads": config.num_heads,
        "pre_norm": config.norm == "pre",
        "activation": Activation[config.activation.upper()],
        "rotary_dim": config.head_widths[0] if config.positions == "rotary" else None,
    }
    return transformer_spec.TransformerSpec(
        transformer_spec.TransformerEncoderSpec(config.num_layers, **form),
        transformer_spec.TransformerDecoderSpec(config.decoder_layers, **form),
    )


class CTranslate2Model:
    """A model written by `write`, run by CTranslate2 on the CPU."""

    def __init__(
        self, directory: Path, pieces: "tuple[SentencePieces, SentencePieces] | None" = None
    ) -> None:
        from ctranslate2 import Translator

        self._translator = Translator(str(directory), compute_type="float32")
        self._source, self._target = pieces or (
            _pieces_of(directory / SOURCE_TOKENIZER, directory / "source.spm"),
            _pieces_of(directory / TARGET_TOKENIZER, directory / "target.spm"),
        )

    def encode(self, text: str) -> list[int]:
        """The source ids of a text."""
        return self._source.encode(text)

    def decode(self, ids: Ids) -> str:
        """The text of target ids."""
        return self._target.decode(ids)

    def score(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[list[float]]:
        """The log-probability of each token of each target, the end symbol's last."""
        results = self._translator.score_batch(
            [[self._source.names[token] for token in ids] for ids in sources],
            [[self._target.names[token] for token in ids] for ids in targets],
            max_input_length=0,
        )
        return [list(result.log_probs) for result in results]


class _Pieces:
    """The pieces of a side, as the library splits and joins them that the README names."""

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        self._library, self.names = tokenizers.Tokenizer.from_file(str(path)), names

    def encode(self, text: str) -> list[int]:
        return self._library.encode(text).ids

    def decode(self, ids: Ids) -> str:
        return self._library.decode(list(ids))


class SentencePieces:
    """The pieces of a side, as SentencePiece splits and joins them."""

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        from sentencepiece import SentencePieceProcessor

        self._library, self.names = SentencePieceProcessor(model_file=str(path)), names
        self._ids = {name: token for token, name in enumerate(names)}

    def encode(self, text: str) -> list[int]:
        """The ids of a text; a piece that is no entry is the unknown symbol."""
        return [self._ids.get(piece, UNKNOWN) for piece in self._library.encode(text, out_type=str)]

    def decode(self, ids: Ids) -> str:
        """The text of ids."""
        text: str = self._library.decode_pieces([self.names[token] for token in ids if token > UNKNOWN])
        return text


def _pieces_of(path: Path, model: Path) -> _Pieces | SentencePieces:
    names = Tokenizer.load(path).names
    return SentencePieces(model, names) if model.is_file() else _Pieces(path, names)


def _copy_weights(spec: Any, model: Transformer, num_positions: int) -> None:
    spec.encoder.embeddings[0].weight = model.embeddings.matrix("source")
    spec.decoder.embeddings.weight = model.embeddings.matrix("target")
    spec.decoder.projection.weight, bias = model.embeddings.output_rows(slice(None))
    if bias is not None:
        spec.decoder.projection.bias = bias
    spec.encoder.scale_embeddings = spec.decoder.scale_embeddings = model.config.scaled_embeddings
    spec.decoder.start_from_zero_embedding = model.config.decoder_start == "zeros"
    for part, positions, norm in (
        (spec.encoder, model.source_positions, model.encoder_norm),
        (spec.decoder, model.target_positions, model.decoder_norm),
    ):
        learned = positions.weight if isinstance(positions, LearnedPositions) else None
        if hasattr(part, "position_encodings"):  # not in a decoder with rotary positions
            part.position_encodings.encodings = positions(num_positions) if learned is None else learned
        _copy_part(part, norm)
    for stack in ("encoder", "decoder"):
        for layer_spec, layer in zip(getattr(spec, stack).layer, getattr(model, stack), strict=True):
            for ours in parts_of(stack, LAYER):
                sublayer, _, place = LAYER[ours][0].partition("/")
                part = getattr(layer_spec, sublayer)
                if place:
                    part = getattr(part, place) if sublayer == "ffn" else part.linear[int(place[-1])]
                _copy_part(part, layer.get_submodule(ours))


def _copy_part(part: Any, module: nn.Module) -> None:
    """Copy a linear map or a normalisation to its place in the description."""
    if isinstance(module, nn.LayerNorm):
        part.layer_norm.gamma, part.layer_norm.beta = module.weight, module.bias
    elif isinstance(module, nn.Linear):
        part.weight = module.weight
        if module.bias is not None:
            part.bias = module.bias
