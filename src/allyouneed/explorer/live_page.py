"""The live page: a model in one HTML file that translates in the browser, with every head in view.

The file holds the sub-words, and the weights in 8 bits, as `allyouneed copy --precision int8` stores them.
The modules in `live/` compute the paper's model and its search, which tests hold equal to `translate`.
"""

import base64
import json
import zlib
from typing import Any, Final

from safetensors.numpy import save

from allyouneed.config.model import TYING, ModelConfig
from allyouneed.config.run import RunConfig, SearchConfig
from allyouneed.errors import UsageError
from allyouneed.explorer.page import MODULES, read_part, scripted_page, style_sheet
from allyouneed.storage.checkpoint import Checkpoint
from allyouneed.storage.rounded_weights import rounded

MOST_PARAMETERS: Final = 100_000_000
"""Maximum number of weights; each takes four bytes in the browser."""
_MODULES = tuple(
    f"live/{name}.js" for name in ("tensors", "network", "decoding", "subwords", "live")
)  # each follows the modules that it imports
_START = """\
const main = document.querySelector("main");
live(main, JSON.parse(document.querySelector("#attention").textContent))
  .catch((error) => { main.textContent = `This browser cannot show the model: ${error}`; });
"""
_ANY = {
    *("source_vocab_size", "target_vocab_size", "d_model", "d_ff", "num_layers", "num_decoder_layers"),
    *("num_heads", "d_k", "d_v", "max_positions", "max_distance", "norm", "layer_norm_epsilon"),
    *("attention_bias", "tied_embeddings", "scaled_embeddings", "output_bias"),
    *("dropout", "attention_dropout", "feed_forward_dropout", "symbol_dropout"),  # only in training
    *("guided_alignment", "guided_layer", "ids_per_word"),
}
"""Settings of a model of which the page knows every value."""
_SOME = {
    "positions": {"sinusoidal", "concatenated", "rotary"},
    "decoder_start": {"symbol", "zeros"},
    "autoregression": {"attention", "ssru"},
}
"""Settings of which it knows some values; of all others, it knows the paper's."""
_OF_SEARCH = (
    "beam_size",
    "length_penalty",
    "length_normalization",
    "max_extra_tokens",
    "max_length",
    "early_stopping",
)
"""Settings of search that the page follows; all others must have their defaults."""
_UNUSED_IN_SEARCH = {
    "alignments",
    "alignment_layer",
    "alignment_head",
    "temperature",
    "top_k",
    "top_p",
    "seed",
}


def live_page(checkpoint: Checkpoint, tokenizers: tuple[str, str], text: str = "") -> str:
    """One self-contained HTML page that translates.

    Args:
        checkpoint: A translator.
        tokenizers: Names of the files of its tokenisers, source and target.
        text: Sentence to begin with.

    Raises:
        UsageError: The model has a part that the page does not know, or more weights than `MOST_PARAMETERS`.
        ModelError: Weights are not finite.
    """
    config = checkpoint.config
    _require_known(config)
    if (total := sum(array.size for array in checkpoint.arrays.values())) > MOST_PARAMETERS:
        raise UsageError(
            f"live: the model has {total:,} weights, more than the {MOST_PARAMETERS:,} of a page; take a "
            "smaller model, such as a student",
            settings=["live"],
        )
    packed = zlib.compress(save(rounded(checkpoint.arrays, checkpoint.weights_path)))
    contents = {
        "text": text,
        "weights": base64.b64encode(packed).decode(),
        "sizes": _sizes(config.model),
        "search": {name: getattr(config.search, name) for name in _OF_SEARCH},
        "subwords": [_subwords(checkpoint.attachments[name]) for name in tokenizers],
    }
    style = style_sheet("theme", "explorer", "page") + read_part("live/live.css")
    return scripted_page("A Transformer at work", style, (*MODULES, *_MODULES), _START, contents)


def _require_known(config: RunConfig) -> None:
    """Raise UsageError if the page does not know a setting of the model or of its search."""
    parts: list[tuple[str, ModelConfig | SearchConfig, set[str]]] = [
        ("model", config.model, _ANY),
        ("search", config.search, {*_OF_SEARCH, *_UNUSED_IN_SEARCH}),
    ]
    for part, settings, known in parts:
        for name, field in type(settings).model_fields.items():
            value = getattr(settings, name)
            if name not in known and value not in _SOME.get(name, (field.default,)):
                raise UsageError(
                    f"live: the page does not know {part}.{name} = {value}; take a model without it, or out, "
                    "the page of one sentence",
                    settings=["live", "out"],
                )


def _sizes(model: ModelConfig) -> dict[str, Any]:
    d_k, d_v = model.head_widths
    return {
        **{name: getattr(model, name) for name in ("d_model", "num_layers", "decoder_layers", "num_heads")},
        **{"d_k": d_k, "d_v": d_v, "layer_norm_epsilon": model.layer_norm_epsilon},
        **{"norm_place": model.norm, "scaled_embeddings": model.scaled_embeddings},
        **{name: getattr(model, name) for name in _SOME},
        "matrices": {
            role: f"embeddings.matrices.{name}" for role, name in TYING[model.tied_embeddings].items()
        },
    }


def _subwords(tokenizer: bytes) -> dict[str, Any]:
    """A tokeniser for the page: the pattern of its words, its entries, and its merges."""
    description = json.loads(tokenizer)
    model = description.get("model", {})
    if model.get("type") != "BPE" or description.get("kind"):
        raise UsageError(
            "live: the page knows byte-level BPE only, and the model has other sub-words; prepare data with "
            "tokenizer bpe",
            settings=["live"],
        )
    steps = description["pre_tokenizer"].get("pretokenizers")
    names = sorted(model["vocab"], key=model["vocab"].__getitem__)
    return {"pattern": steps and steps[0]["pattern"]["Regex"], "names": names, "merges": model["merges"]}
