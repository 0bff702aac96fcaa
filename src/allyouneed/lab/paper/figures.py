"""The paper's Figures 3 to 5 with our own model: the paper's sentences, heads chosen by a score."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import torch
from jaxtyping import Float
from torch import Tensor

from allyouneed.config.presets import base
from allyouneed.explorer.page import attention_page
from allyouneed.lab.paper.experiment import PICTURES, Experiment, Figure, Figures, Row, Work
from allyouneed.lab.paper.scales import Scale
from allyouneed.lab.paper.training_rows import require_validation, trained
from allyouneed.runs.loading import load_translator
from allyouneed.storage.publish import write_text
from allyouneed.tasks.attention_maps import Attention, Selection
from allyouneed.tasks.translation.translator import Translator

DISTANT_SENTENCE: Final = (
    "It is in this spirit that a majority of American governments have passed new laws since 2009 making the "
    "registration or voting process more difficult."
)
"""The sentence of Figure 3, in ordinary spelling."""
LAW_SENTENCE: Final = (
    "The Law will never be perfect, but its application should be just - this is what we are missing, "
    "in my opinion."
)
"""The sentence of Figures 4 and 5."""
_LAW_TREE: Final = """
The→Law Law→perfect will→perfect never→perfect be→perfect perfect , but→just its→application
application→just should→just be→just just→perfect - this→what is→what what→perfect we→missing are→missing
missing→what , in→opinion my→opinion opinion→missing .
"""
"""The words of `LAW_SENTENCE`, each with its head, annotated by hand after Universal Dependencies 2.

No head occurs twice. Punctuation has no head.
"""
_PAGE = "attention.html"
_OF_HEADS = ("head", "weight", "uniform")
_NOTES = [
    "The paper shows layer 5 of 6 of its own model and names heads by their numbers in it. Here, the layer "
    "and its two heads are those with the largest product of `weight` and `second_weight`, the attention "
    "that the two heads give to the words in question; `uniform` is the weight that a head would give if it "
    "looked at all words equally.",
    "Figure 3: from 'making' to 'more' and 'difficult'; the picture shows all heads of the layer. Figure 4: "
    "from 'its' to 'Law'. Figure 5, whose heads in the paper seem related to the structure of the sentence: "
    "the average weight of one head from each word to the word that it depends on, and of another head from "
    "each word to the words that depend on it, in a dependency tree annotated by hand.",
]

Scores = Float[Tensor, "layers heads"]
"""A score of each encoder head: the attention weight that it gives to the words in question."""


def weight_between(attention: Attention, query: str, keys: Sequence[str]) -> Scores:
    """Weight of each encoder head from the first word `query` to the first of each of `keys`, summed."""
    texts = [word.text for word in attention.source.words]
    weights = attention.in_words().encoder[:, :, texts.index(query)]
    return weights[..., [texts.index(key) for key in keys]].sum(-1)


def weight_along(attention: Attention, links: Sequence[tuple[int, int]]) -> Scores:
    """Weight from a word to the words that it is linked to, averaged over the words that have a link.

    Args:
        attention: Attention of a sentence.
        links: Pairs of source word indices: query, key.
    """
    weights = attention.in_words().encoder
    given = torch.stack([weights[:, :, query, key] for query, key in links], dim=-1)
    return given.sum(-1) / len({query for query, _ in links})


def dependencies() -> list[tuple[int, int]]:
    """Pairs of word indices in `LAW_SENTENCE`: a word, and the head that it depends on."""
    words = [entry.partition("→") for entry in _LAW_TREE.split()]
    places = {word: place for place, (word, _, _) in enumerate(words)}
    return [(place, places[head]) for place, (_, _, head) in enumerate(words) if head]


def best_heads(first: Scores, second: Scores) -> tuple[int, int, int]:
    """The layer and its two heads, from 0, with the largest product of `first` and `second` scores.

    A large product means that both heads score high. If `first` equals `second`, the head with the higher
    score comes first. If a layer has one head only, it is returned twice.
    """
    pairs = first[:, :, None] * second[:, None, :]
    if first.size(1) > 1:
        pairs = pairs.masked_fill(torch.eye(first.size(1)).bool(), float("-inf"))
    layer, *heads = (int(place) for place in torch.unravel_index(pairs.argmax(), pairs.shape))
    a, b = sorted(heads, key=lambda head: -float(first[layer, head])) if first.equal(second) else heads
    return layer, a, b


def _distant(work: Work) -> Figures:
    attention = _translator(work).attention(DISTANT_SENTENCE)
    keys = ["more", "difficult"]
    scores = weight_between(attention, "making", keys)
    layer, *heads = best_heads(scores, scores)
    every = Selection("encoder", layer, range(scores.size(1)), ["making"])
    pictures = {"figure3": (every, "all heads, where 'making' looks")}
    figures = _figures(attention, (scores, scores), layer, heads, (len(keys), len(keys)))
    return figures | _drawn(work, attention, pictures)


def _anaphora(work: Work) -> Figures:
    attention = _translator(work).attention(LAW_SENTENCE)
    scores = weight_between(attention, "its", ["Law"])
    layer, *heads = best_heads(scores, scores)
    first, second = (head + 1 for head in heads)
    full, its = Selection("encoder", layer, heads[:1]), Selection("encoder", layer, heads, ["its"])
    pictures = {
        "figure4-full": (full, f"head {first}, where every word looks"),
        "figure4-its": (its, f"heads {first} and {second}, where 'its' looks"),
    }
    return _figures(attention, (scores, scores), layer, heads, (1, 1)) | _drawn(work, attention, pictures)


def _structure(work: Work) -> Figures:
    attention = _translator(work).attention(LAW_SENTENCE)
    upwards = dependencies()
    scores = weight_along(attention, upwards), weight_along(attention, [(b, a) for a, b in upwards])
    layer, *heads = best_heads(*scores)
    up, down = (Selection("encoder", layer, [head]) for head in heads)
    of_those = [f"head {head + 1}, of those that look at" for head in heads]
    pictures = {
        "figure5-upwards": (up, f"{of_those[0]} what a word depends on"),
        "figure5-downwards": (down, f"{of_those[1]} what depends on a word"),
    }
    dependents = len(upwards) / len({head for _, head in upwards})
    return _figures(attention, scores, layer, heads, (1, dependents)) | _drawn(work, attention, pictures)


def _translator(work: Work) -> Translator:
    """The given model, or else the base model at the scale of the work, trained once for all figures."""
    if work.inputs.model is not None:
        return load_translator(work.inputs.model, device=work.device)
    shared = replace(work, directory=work.directory.parents[1] / "base")
    return trained(shared, work.scale(base()), work.data)


def _figures(
    attention: Attention,
    scores: tuple[Scores, Scores],
    layer: int,
    heads: Sequence[int],
    num_words: tuple[float, float],
) -> dict[str, Any]:
    """Layer and heads, from 1; the weight that each head gives, and the uniform weight of `num_words`."""
    figures: dict[str, Any] = {"layer": layer + 1}
    for prefix, of_all, head, count in zip(("", "second_"), scores, heads, num_words, strict=True):
        values = head + 1, float(of_all[layer, head]), count / len(attention.source.words)
        figures |= {f"{prefix}{name}": value for name, value in zip(_OF_HEADS, values, strict=True)}
    return figures


def _drawn(work: Work, attention: Attention, pictures: Mapping[str, tuple[Selection, str]]) -> dict[str, Any]:
    """Draw the pictures and write the page of the sentence; return each picture's caption and link."""
    write_text(work.directory / _PAGE, attention_page(attention.document()))
    texts = [word.text for word in attention.source.words]
    said = {}
    for name, (selection, caption) in pictures.items():
        work.draw(attention, selection, work.directory / name)
        layer, num_layers = selection.layer + 1, len(attention.weights.encoder)
        heads = ",".join(f"{head + 1}" for head in selection.heads)
        picked = "".join(f"&from={texts.index(word) + 1}" for word in selection.words)
        fragment = f"#kind={selection.kind}&view=lines&layer={layer}&heads={heads}{picked}"
        said[name] = {
            "caption": f"Encoder, layer {layer} of {num_layers}, {caption}.",
            "page": _PAGE + fragment,  # shows the same selection as the picture
        }
    return {PICTURES: said}


def _rows(scale: Scale) -> Sequence[Row]:
    structure = "words look at what they depend on; at what depends on them"
    return [
        Row("figure3", "'making' attends to 'more difficult'", _distant, every_seed=False),
        Row("figure4", "'its' attends to 'Law'", _anaphora, every_seed=False),
        Row("figure5", structure, _structure, every_seed=False),
    ]


FIGURES_3_TO_5 = Experiment(
    "figures",
    "Attention, as in Figures 3 to 5",
    _rows,
    {
        "layer": Figure("layer", "layer of the head that is drawn"),
        "head": Figure("head", "head that is drawn"),
        "weight": Figure("weight", "its weight on the words that the paper names"),
        "uniform": Figure("uniform", "weight of uniform attention on these words"),
        "second_head": Figure("second head", "the next best head"),
        "second_weight": Figure("second weight", "its weight on these words"),
        "second_uniform": Figure(
            "second uniform", "weight of uniform attention on the words of the second head"
        ),
    },
    require_validation,
    notes=_NOTES,
    draws_pictures=True,
    takes_model=True,
)
