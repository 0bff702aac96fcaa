"""Marian export: `model.npz`, SentencePiece vocabularies and `decoder.yml`, as `from_marian` reads them.

Marian's form starts its decoder with zeros and has all sines before all cosines, so that only a model which
was trained so (`train --for marian`) is the same there, bit for bit.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path

import numpy as np

from allyouneed.config.model import TYING, ModelConfig
from allyouneed.config.run import SearchConfig
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.errors import ModelError
from allyouneed.inference.engine_choice import build_engine
from allyouneed.inference.stored_model import StoredModel
from allyouneed.interop import from_marian
from allyouneed.interop.foreign import DIFFERENCES, Array, length_exponent, parts_of
from allyouneed.interop.from_marian import LAYER, RECURRENT, names_of_decoder
from allyouneed.interop.importing import lacking_package, proved
from allyouneed.interop.marian_binary import LARGEST
from allyouneed.interop.marian_files import CONFIG, write_archive
from allyouneed.interop.parity import SENTENCES, Agreement
from allyouneed.interop.sentencepiece_files import sentencepiece_models
from allyouneed.model.transformer import Transformer
from allyouneed.storage.checkpoint import Checkpoint

MODEL = "model.npz"
_MATRICES = {
    **{"shared": "Wemb", "source": "encoder_Wemb", "target": "decoder_Wemb"},
    "output": "decoder_ff_logit_out_W",
}
"""Our name of a matrix of embeddings, or of the projection -> Marian's."""
EMBEDDINGS = {name for name in _MATRICES.values() if name.endswith("Wemb")}
_HALF_STEP = 0.5 + 1e-4
"""Largest error of a rounded number, in steps."""

_README = """\
# A model of Marian

Made by `allyouneed export`. In this folder, with Marian's own program:

```
echo "A dog runs." | marian-decoder -c decoder.yml
```

or in Python, after `pip install pymarian`:

```python
from pymarian import Translator

files = {vocabularies}
settings = {{"cpu-threads": 1, "beam-size": {beam_size}, "normalize": {normalize}}}
translator = Translator(models=["model.npz"], vocabs=files, **settings)
print(translator.translate(["A dog runs."])[0])
```

The probabilities equal the original's. The search is Marian's own, so some translations differ:
{difference}.
"""


def write(model: Transformer, checkpoint: Checkpoint, directory: Path) -> None:
    """Write the model, its vocabularies, settings of search and a README into `directory`."""
    search = checkpoint.config.search
    names = write_vocabularies(
        dict(zip(("source.spm", "target.spm"), sentencepiece_models("marian", checkpoint), strict=True)),
        "vocab.spm",
        directory,
    )
    write_archive(directory / MODEL, marian_arrays(model))
    settings = {"models": [MODEL], "vocabs": names, **search_of(search)}
    (directory / "decoder.yml").write_bytes(as_yaml({"relative-paths": True, **settings}))
    readme = _README.format(
        vocabularies=names,
        beam_size=search.beam_size,
        normalize=length_exponent(search),
        difference=DIFFERENCES[search.length_normalization],
    )
    (directory / "README.md").write_bytes(readme.encode())


def prove(folder: Path, model: Transformer, tokenizers: tuple[Tokenizer, Tokenizer]) -> Agreement:
    """Compare a folder that is read back: weights bit by bit and, if it is installed, results in Marian.

    Rounded weights may differ by half a step, and Marian has them as floats.
    """
    imported = from_marian.read(folder)
    for ours, theirs in zip(tokenizers, (imported.source, imported.target), strict=True):
        ids = [ours.encode(text) for text in SENTENCES]
        if [theirs.encode(text) for text in SENTENCES] != ids or [*map(theirs.decode, ids)] != [
            *map(ours.decode, ids)
        ]:
            raise ModelError(
                "the export splits or joins text otherwise than the model; it is not kept, please report it"
            )
    weights = model.state_dict()
    for name, array in imported.weights.items():
        expected = weights[name].numpy() if name in weights else np.zeros_like(array)
        step = np.abs(expected).max() / LARGEST if imported.is_rounded and array.ndim == 2 else 0
        if not np.abs(array - expected).max(initial=0) <= _HALF_STEP * step:
            raise ModelError(
                f"{name} of the export differs from the model's; it is not kept, please report it"
            )
    if lacking := lacking_package(imported):
        return Agreement(math.nan, lacking)
    stored = StoredModel(imported.config.model, imported.weights, imported.file)
    return Agreement(proved(imported, build_engine(stored if imported.is_rounded else model)))


def write_vocabularies(models: Mapping[str, bytes], shared: str, directory: Path) -> list[str]:
    """Write the SentencePiece models of both sides by their names, or one, if equal; returns both's names."""
    if len({*models.values()}) == 1:
        models = dict.fromkeys([shared], next(iter(models.values())))
    for name, content in models.items():
        (directory / name).write_bytes(content)
    return [*models] * (2 // len(models))


def search_of(search: SearchConfig) -> dict[str, object]:
    """The settings of search that Marian has, too."""
    return {
        "cpu-threads": 1,
        "beam-size": search.beam_size,
        "normalize": length_exponent(search),
        "word-penalty": 0,
    }


def as_yaml(settings: Mapping[str, object]) -> bytes:
    """A YAML document of settings that are numbers, truth values, plain words, or lists of these."""

    def lines() -> Iterator[str]:
        for name, value in settings.items():
            if isinstance(value, list):
                yield f"{name}:"
                yield from (f"  - {_plain(each)}" for each in value)
            else:
                yield f"{name}: {_plain(value)}"

    return "".join(f"{line}\n" for line in lines()).encode()


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value) or '""'


def marian_arrays(model: Transformer) -> dict[str, Array | bytes]:
    """Marian's name -> array, and `CONFIG` -> the description of the architecture.

    Linear maps multiply from the other side. Biases that the model lacks are zeros.
    """
    weights = {name: tensor.detach().float().numpy() for name, tensor in model.state_dict().items()}
    arrays = dict(_embeddings(weights, model.config))
    for ours, prefix, theirs in layer_parts(model.config):
        arrays |= _part(weights, ours, prefix, theirs)
    return {**arrays, CONFIG: as_yaml(_description(model.config)) + b"\0"}


def layer_parts(config: ModelConfig) -> Iterator[tuple[str, str, Sequence[str]]]:
    """Our name of each part of all layers, and the beginning and the ends of Marian's names of it."""
    for stack, depth in (("encoder", config.num_layers), ("decoder", config.decoder_layers)):
        names = LAYER if stack == "encoder" else names_of_decoder(config.autoregression)
        for number, ours in product(range(depth), parts_of(stack, names)):
            yield f"{stack}.{number}.{ours}", f"{stack}_l{number + 1}_", names[ours]


def matrices_of(config: ModelConfig) -> dict[str, list[str]]:
    """Our name of each linear map -> Marian's matrices; the projection to logits has no name."""
    return {
        **{
            ours: [prefix + name.format("W") for name in theirs]
            for ours, prefix, theirs in layer_parts(config)
            if not ours.endswith("norm")
        },
        "": [_MATRICES[TYING[config.tied_embeddings]["output"]]],
    }


def _part(weights: Mapping[str, Array], ours: str, prefix: str, theirs: Sequence[str]) -> dict[str, Array]:
    weight, bias = weights[f"{ours}.weight"], weights.get(f"{ours}.bias")
    if weight.ndim == 1:
        assert bias is not None
        return {f"{prefix}{theirs[0]}_ln_scale": weight[None], f"{prefix}{theirs[0]}_ln_bias": bias[None]}
    biases = np.zeros(len(weight), np.float32) if bias is None else bias
    parts = zip(theirs, np.split(weight, len(theirs)), np.split(biases, len(theirs)), strict=True)
    found: dict[str, Array] = {}
    for name, rows, bias_rows in parts:
        found[prefix + name.format("W")] = np.ascontiguousarray(rows.T)
        if [name] != RECURRENT["self_attention.candidate"]:
            found[prefix + name.format("b")] = bias_rows[None]
    return found


def _embeddings(weights: Mapping[str, Array], config: ModelConfig) -> Iterator[tuple[str, Array]]:
    for ours, theirs in _MATRICES.items():
        if (matrix := weights.get(f"embeddings.matrices.{ours}")) is not None:
            yield theirs, np.ascontiguousarray(matrix.T) if ours == "output" else matrix
    bias = weights.get("embeddings.bias", np.zeros(config.target_vocab_size, np.float32))
    yield "decoder_ff_logit_out_b", bias[None]


def _description(config: ModelConfig) -> dict[str, object]:
    """Marian's settings of the architecture, those included that have one value here."""
    is_recurrent = config.autoregression == "ssru"
    return {
        "type": "transformer",
        "dim-vocabs": [*config.vocab_sizes],
        "dim-emb": config.d_model,
        "enc-depth": config.num_layers,
        "dec-depth": config.decoder_layers,
        "dec-cell": "ssru" if is_recurrent else "gru",
        **{"dec-cell-base-depth": 2, "dec-cell-high-depth": 1, "enc-cell": "gru", "enc-cell-depth": 1},
        "enc-type": "bidirectional",
        "transformer-heads": config.num_heads,
        "transformer-dim-ffn": config.d_ff,
        "transformer-decoder-dim-ffn": 0,
        **{"transformer-ffn-depth": 2, "transformer-decoder-ffn-depth": 0},
        "transformer-ffn-activation": config.activation,
        "transformer-decoder-autoreg": "rnn" if is_recurrent else "self-attention",
        **{"transformer-preprocess": "", "transformer-postprocess": "dan"},
        **{"transformer-postprocess-emb": "d", "transformer-postprocess-top": ""},
        "transformer-guided-alignment-layer": "last",
        **dict.fromkeys(
            (
                *("transformer-train-position-embeddings", "transformer-rnn-projection"),
                *("transformer-no-projection", "transformer-aan-nogate", "layer-normalization", "skip"),
                *("right-left", "ulr", "tied-embeddings-src"),
            ),
            False,
        ),
        **{"transformer-dim-aan": 2048, "transformer-aan-depth": 2, "transformer-aan-activation": "swish"},
        **{"input-types": "[]", "transformer-tied-layers": "[]", "dim-rnn": 1024},
        **{"lemma-dim-emb": 0, "factors-dim-emb": 0, "factors-combine": "sum", "lemma-dependency": ""},
        **{"ulr-dim-emb": 0, "ulr-trainable-transformation": False},
        "tied-embeddings-all": config.tied_embeddings == "all",
        "tied-embeddings": config.tied_embeddings == "target",
        "version": "v1.12.0",
    }
