"""`allyouneed attend`: where every head of a model looks while it translates a sentence."""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from cyclopts import Parameter
from cyclopts.validators import Number

from allyouneed.data.lines import is_blank, read_lines
from allyouneed.errors import DataError, UsageError
from allyouneed.explorer import attention_page
from allyouneed.interfaces.device import Device, torch_device
from allyouneed.interfaces.progress import progress
from allyouneed.publish import write_text

if TYPE_CHECKING:
    from torch import Tensor

    from allyouneed.attention import Attention
    from allyouneed.interfaces.attention_figures import Form
    from allyouneed.translation import Translator

    Measures = dict[str, dict[str, Tensor]]

_Counted = Annotated[int, Parameter(validator=Number(gte=1))]


@Parameter(name="*")
@dataclass(frozen=True)
class Files:
    """What is made; without any of it, the measures of every head are printed."""

    out: Path | None = None
    """A page (HTML) on which to explore all heads; one file, which needs no network."""
    json: Path | None = None
    """All weights and measures."""
    png: Path | None = None
    """A figure of lines between words, as in the paper."""
    svg: Path | None = None
    """The same figure."""
    pdf: Path | None = None
    """The same figure."""

    def pictures(self) -> "Iterator[tuple[Form, Path]]":
        """The figures that are wanted, by their formats."""
        forms: dict[Form, Path | None] = {"png": self.png, "svg": self.svg, "pdf": self.pdf}
        return ((form, path) for form, path in forms.items() if path is not None)


@Parameter(name="*")
@dataclass(frozen=True)
class FigureOptions:
    """What a figure shows."""

    kind: Literal["encoder", "decoder", "cross"] = "cross"
    """Attention of the encoder, of the decoder to itself, or of the decoder to the source."""
    layer: _Counted | None = None
    """From 1; by default the last but one."""
    head: list[_Counted] | None = None
    """From 1, can be repeated; by default all heads."""
    word: list[str] | None = None
    """Show only where this word looks; can be repeated."""


def attend(
    model: Path,
    source: str | None = None,
    target: str | None = None,
    /,
    *,
    files: Files = Files(),
    figure: FigureOptions = FigureOptions(),
    sort: str | None = None,
    sources: Path | None = None,
    targets: Path | None = None,
    device: Device = "auto",
) -> None:
    """Show where a model looks while it translates a sentence.

    ```
    allyouneed attend runs/first "A dog runs." --out page.html
    allyouneed attend runs/first "A dog runs." "Ein Hund rennt." --out page.html
    allyouneed attend runs/first "A dog runs." --sort previous
    allyouneed attend runs/first "A dog runs." --pdf figure.pdf --kind encoder --layer 5 --head 1 --head 2
    allyouneed attend runs/first --sources test.en --targets test.de --sort agreement
    ```

    Without a file to write, the measures of every head are printed, a line each: the entropy of its weights
    in bits, the mean distance it looks, its weight on the diagonal, on the previous and next word and on
    the control symbol, and how far it agrees with the word alignment.

    Args:
        model: A run, a checkpoint in it, or a model folder.
        source: A sentence.
        target: Its translation; by default the model's own.
        files: What is made.
        figure: What a figure shows.
        sort: The measure by which heads are listed, the largest first.
        sources: A file of sentences, a line each: print the mean measures over all of them.
        targets: A file of their translations; by default the model's own.
        device: Where to compute.
    """
    from allyouneed.loading import load_translator

    translator = load_translator(model, device=torch_device(device))
    if sources is not None:
        print(*_listed(_means(translator, _pairs(sources, targets)), sort), sep="\n")
        return
    if source is None:
        raise UsageError("nothing to look at; give a sentence, or --sources FILE")
    attention = translator.attention(source, target)
    if files.out is not None:
        write_text(files.out, attention_page(attention.to_json()))
    if files.json is not None:
        write_text(files.json, json.dumps(attention.to_json(), ensure_ascii=False) + "\n")
    for form, path in files.pictures():
        _draw(attention, figure, path, form)
    if files == Files():
        print(*_listed(attention.measures(), sort), sep="\n")


def _draw(attention: "Attention", options: FigureOptions, path: Path, form: "Form") -> None:
    from allyouneed.interfaces.attention_figures import Selection, draw_lines

    num_layers, num_heads = getattr(attention.weights, options.kind).shape[:2]
    heads = options.head or range(1, num_heads + 1)
    layer = options.layer or attention.alignment_layer
    if layer > num_layers:
        raise UsageError(f"--layer {layer}: the model has {num_layers}")
    if max(heads) > num_heads:
        raise UsageError(f"--head {max(heads)}: the model has {num_heads}")
    selection = Selection(options.kind, layer - 1, [head - 1 for head in heads], options.word or ())
    draw_lines(attention, selection, path, form)


def _pairs(sources: Path, targets: Path | None) -> list[tuple[str, str | None]]:
    """Sentences that are not blank, with their translations where these are given."""
    lines = list(read_lines(sources))
    translations: list[str | None] = [None] * len(lines) if targets is None else [*read_lines(targets)]
    if len(translations) != len(lines):
        raise DataError(f"{targets}: has {len(translations):,} lines, but {sources} has {len(lines):,}")
    pairs = [pair for pair in zip(lines, translations, strict=True) if not is_blank(pair[0])]
    if not pairs:
        raise DataError(f"{sources}: has no sentence; give a file with one a line")
    return pairs


def _means(translator: "Translator", pairs: list[tuple[str, str | None]]) -> "Measures":
    """Of each measure of each head, over the sentences."""
    totals: Measures = {}
    with progress(len(pairs), unit="sentences", description="looking into") as bar:
        for source, target in pairs:
            for kind, measures in translator.attention(source, target).measures().items():
                of_kind = totals.setdefault(kind, {})
                for name, values in measures.items():
                    of_kind[name] = of_kind.get(name, 0) + values / len(pairs)
            bar.advance()
    return totals


def _listed(measures: "Measures", sort: str | None) -> Iterator[str]:
    """A line for each head, with its measures; those that a kind has not are empty."""
    names = list(measures["cross"])  # all that there are
    if sort is not None and sort not in names:
        raise UsageError(f"--sort {sort}: there is {', '.join(names)}")
    yield "\t".join(["kind", "layer", "head", *names])
    heads = [
        (kind, layer, head, {name: float(values[layer, head]) for name, values in of_kind.items()})
        for kind, of_kind in measures.items()
        for layer, head in np.ndindex(*of_kind["entropy"].shape)
    ]
    if sort is not None:
        heads.sort(key=lambda head: -head[3].get(sort, -math.inf))
    for kind, layer, head, values in heads:
        written = [f"{values[name]:.3f}" if name in values else "" for name in names]
        yield "\t".join([kind, str(layer + 1), str(head + 1), *written])
