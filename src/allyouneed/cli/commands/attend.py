"""`allyouneed attend`: what every head of a model attends to while it translates or parses a sentence."""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cyclopts import Parameter

from allyouneed.cli.progress import progress
from allyouneed.cli.shared_options import AtLeastOne, Device, device_kind
from allyouneed.data.lines import is_blank, read_lines
from allyouneed.errors import DataError, UsageError
from allyouneed.storage.publish import require_file, write_text

if TYPE_CHECKING:
    from torch import Tensor

    from allyouneed.config.model import ModelConfig
    from allyouneed.tasks.attention_figures import Form
    from allyouneed.tasks.attention_maps import Attention

    Measures = dict[str, dict[str, Tensor]]

MeasureName = Literal["entropy", "distance", "diagonal", "previous", "next", "control", "agreement"]


@Parameter(name="*")
@dataclass(frozen=True)
class AttentionFiles:
    """Files to write; without any, the measures of every head are printed."""

    out: Path | None = None
    """Interactive page (HTML) with all heads; one file, which works offline."""
    json: Path | None = None
    """JSON file of all weights and measures."""
    png: Path | None = None
    """Figure with lines between words, as in the paper, as PNG."""
    svg: Path | None = None
    """The same figure as SVG."""
    pdf: Path | None = None
    """The same figure as PDF."""
    live: Path | None = None
    """Page (HTML) that holds the model: type a sentence, see it translated and every head attend, and switch
    heads off; one file, which works offline. Needs no sentence; one that is given comes first."""

    def pictures(self) -> "dict[Form, Path]":
        """Format -> path of each requested figure."""
        forms: dict[Form, Path | None] = {"png": self.png, "svg": self.svg, "pdf": self.pdf}
        return {form: path for form, path in forms.items() if path is not None}

    def wanted(self) -> dict[str, Path]:
        """Option -> path of each requested file."""
        return {f"--{name}": path for name, path in vars(self).items() if path is not None}

    @property
    def is_live_only(self) -> bool:
        """Whether the live page, which needs no sentence, is the only requested file."""
        return [*self.wanted()] == ["--live"]


@Parameter(name="*")
@dataclass(frozen=True)
class HeadSelection:
    """The heads to show in a figure or to list."""

    kind: Literal["encoder", "decoder", "cross"] | None = None
    """Attention of the encoder to itself, of the decoder to itself or to the source (`cross`);
    by default a figure shows `cross`, and a list has all three."""
    layer: AtLeastOne | None = None
    """Layer, from 1; by default a figure shows the layer that aligns words (the last but one; of two, the
    last), and a list has all layers."""
    head: list[AtLeastOne] | None = None
    """Head, from 1; can be repeated; by default all heads."""
    word: list[str] | None = None
    """Show only what this word attends to (figures only); can be repeated."""

    def check(self, config: "ModelConfig", *, is_figure: bool) -> None:
        """Reject a kind, layer or head that the model does not have."""
        if self.kind == "decoder" and config.autoregression != "attention":
            raise UsageError("--kind decoder: this decoder has recurrent units instead; leave out --kind")
        of_decoder = self.kind in ("cross", "decoder") or (is_figure and self.kind is None)
        layers = config.decoder_layers if of_decoder else config.num_layers
        if self.kind is None and not is_figure:
            layers = max(layers, config.decoder_layers)
        limits = {"layer": (layers, self.layer), "head": (config.num_heads, max(self.head or [0]))}
        for name, (most, number) in limits.items():
            if number is not None and number > most:
                raise UsageError(f"--{name} {number}: the model has {most}")

    def has(self, kind: str, layer: int, head: int) -> bool:
        """Whether this layer and head, counted from 1, are listed."""
        chosen = self.kind in (None, kind) and self.layer in (None, layer)
        return chosen and (self.head is None or head in self.head)


def attend(
    model: Path,
    source: str | None = None,
    target: str | None = None,
    /,
    *,
    files: AttentionFiles = AttentionFiles(),
    selected: HeadSelection = HeadSelection(),
    sort: MeasureName | None = None,
    sources: Path | None = None,
    targets: Path | None = None,
    device: Device = "auto",
) -> None:
    """Show what a model attends to while it translates or parses a sentence.

    ```
    allyouneed attend runs/first "A dog runs." --out page.html
    allyouneed attend runs/parser "The dog barked." --out page.html
    allyouneed attend runs/speech hello.wav --out page.html
    allyouneed attend runs/first "A dog runs." --kind encoder --sort previous
    allyouneed attend runs/first "A dog runs." --pdf figure.pdf --kind encoder --layer 5 --head 1 --head 2
    allyouneed attend runs/first --sources test.en --targets test.de --sort agreement
    allyouneed attend runs/first "A dog runs." --live live.html
    ```

    Without a file to write, the measures of every head are printed, one line per head: the entropy of its
    weights in bits, the mean distance of the words it attends to, its weight on the diagonal, on the previous
    and next word and on the control symbol, and its agreement with the word alignment.

    Args:
        model: A run, a checkpoint in it, or a model folder.
        source: A sentence, or the path of a file for a transcriber.
        target: Its translation, or its tree in brackets for a parser; by default the model's own output.
        files: Files to write.
        selected: Heads to show in a figure or to list.
        sort: Measure to sort the list of heads by, largest first.
        sources: A file of sentences, one per line: print the mean measures over all of them.
        targets: A file of their translations or trees; by default the model's own outputs.
        device: Device to compute on.
    """
    _check_options(files, selected, sort)
    _check_sentences(files, source, target, sources, targets)
    pairs = [] if sources is None else _pairs(sources, targets)
    if files.live is not None:
        _write_live(model, files.live, source or "")
    if files.is_live_only:
        return
    from allyouneed.runs.loading import load

    loaded = load(model, device=device_kind(device))
    selected.check(loaded.config.model, is_figure=bool(files.wanted()))
    if pairs:
        print(*_listed(_means(loaded, pairs), selected, sort), sep="\n")
        return
    attention = loaded.attention(source or "", target, for_page=files.out is not None)
    if files.wanted():
        _write(attention, files, selected)
    else:
        print(*_listed(attention.measures(), selected, sort), sep="\n")


def _check_options(files: AttentionFiles, selected: HeadSelection, sort: str | None) -> None:
    """Reject options that would have no effect, and files that cannot be written."""
    pictures, wanted = files.pictures(), files.wanted()
    if selected.word and not pictures:
        raise UsageError("--word: is for figures; add --png, --svg or --pdf")
    if selected != HeadSelection() and wanted and not pictures:
        raise UsageError(
            f"--kind, --layer, --head: {' and '.join(wanted)} always has all heads; leave out these options, "
            "or add --png, --svg or --pdf to draw some heads"
        )
    if sort and wanted:
        raise UsageError(
            f"--sort: is for the list of heads; leave out this option, or {' and '.join(wanted)}"
        )
    if sort == "agreement" and selected.kind not in (None, "cross"):
        raise UsageError("--sort agreement: only cross-attention has an agreement; leave out --kind")
    for path in wanted.values():
        require_file(path)
    for form, path in pictures.items():
        if path.suffix.lower() not in ("", f".{form}"):
            raise UsageError(
                f"--{form} {path}: writes {form.upper()}; name it {path.with_suffix(f'.{form}')}"
            )


def _check_sentences(
    files: AttentionFiles,
    source: str | None,
    target: str | None,
    sources: Path | None,
    targets: Path | None,
) -> None:
    """Require one sentence, or else a file of sentences and no file to write."""
    if files.is_live_only and target is not None:
        raise UsageError("--live: the model translates by itself; leave out the second sentence")
    if sources is None and targets is not None:
        raise UsageError(
            "--targets: belongs to --sources; add --sources FILE, or give the target as an argument"
        )
    if sources is None and source is None and not files.is_live_only:
        raise UsageError("no sentence; give one, or --sources FILE")
    if sources is not None and source is not None:
        raise UsageError("--sources: there is a sentence on the command line too; leave out one of them")
    if sources is not None and (wanted := files.wanted()):
        raise UsageError(
            f"{' and '.join(wanted)}: shows one sentence; give a sentence instead of --sources, "
            "which prints mean measures"
        )


def _write(attention: "Attention", files: AttentionFiles, selected: HeadSelection) -> None:
    from allyouneed.explorer.page import attention_page
    from allyouneed.tasks.attention_figures import draw_lines, shown_rows
    from allyouneed.tasks.attention_maps import Selection

    kind, layer = selected.kind or "cross", selected.layer or attention.alignment_layer
    heads = selected.head or range(1, getattr(attention.weights, kind).size(1) + 1)
    selection = Selection(kind, layer - 1, [head - 1 for head in heads], selected.word or ())
    shown_rows(attention, selection)  # reports errors before anything is written
    if files.out is not None:
        write_text(files.out, attention_page(attention.document()))
    if files.json is not None:
        write_text(files.json, json.dumps(attention.to_json(), ensure_ascii=False) + "\n")
    for form, path in files.pictures().items():
        draw_lines(attention, selection, path, form)


def _write_live(model: Path, out: Path, text: str) -> None:
    from allyouneed.explorer.live_page import live_page
    from allyouneed.runs.loading import task_of
    from allyouneed.storage.checkpoint import load_checkpoint
    from allyouneed.storage.run_directory import resolve_model
    from allyouneed.tasks.task import SOURCE_TOKENIZER, TARGET_TOKENIZER
    from allyouneed.tasks.translation.task import TRANSLATION

    if (task := task_of(model)) is not TRANSLATION:
        raise UsageError(f"--live: {model} is a model for {task.name}; the page translates")
    names = SOURCE_TOKENIZER, TARGET_TOKENIZER
    write_text(out, live_page(load_checkpoint(resolve_model(model), names), names, text))


def _pairs(sources: Path, targets: Path | None) -> list[tuple[str, str | None]]:
    """Sentences, with their translations if given; pairs with a blank side are left out."""
    lines = list(read_lines(sources))
    translations: list[str | None] = [None] * len(lines) if targets is None else [*read_lines(targets)]
    if len(translations) != len(lines):
        raise DataError(f"{targets}: has {len(translations):,} lines, but {sources} has {len(lines):,}")
    pairs = [
        (source, target)
        for source, target in zip(lines, translations, strict=True)
        if not is_blank(source) and (target is None or not is_blank(target))
    ]
    if not pairs:
        raise DataError(f"{sources}: has no sentence; give a file with one a line")
    return pairs


def _means(model: Any, pairs: list[tuple[str, str | None]]) -> "Measures":
    """Mean of each measure of each head of a translator or parser, over the sentences."""
    totals: Measures = {}
    sources, given = zip(*pairs, strict=True)
    targets = None if given[0] is None else given
    with progress(len(pairs), unit="sentences", description="looking into") as bar:
        for attention in model.attentions(sources, targets):
            for kind, measures in attention.measures().items():
                of_kind = totals.setdefault(kind, {})
                for name, values in measures.items():
                    of_kind[name] = of_kind.get(name, 0) + values / len(pairs)
            bar.advance()
    return totals


def _listed(measures: "Measures", selected: HeadSelection, sort: str | None) -> Iterator[str]:
    """One line per head, with its measures; a measure that its kind lacks is empty."""
    names = list(dict.fromkeys(name for of_kind in measures.values() for name in of_kind))
    yield "\t".join(["kind", "layer", "head", *names])
    heads = [
        (kind, layer, head, {name: float(values[layer - 1, head - 1]) for name, values in of_kind.items()})
        for kind, of_kind in measures.items()
        for layer in range(1, of_kind["entropy"].size(0) + 1)
        for head in range(1, of_kind["entropy"].size(1) + 1)
        if selected.has(kind, layer, head)
    ]
    if sort is not None:
        heads.sort(key=lambda head: -head[3].get(sort, -math.inf))
    for kind, layer, head, values in heads:
        written = [f"{values[name]:.3f}" if name in values else "" for name in names]
        yield "\t".join([kind, str(layer), str(head), *written])
