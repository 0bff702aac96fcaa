"""What prepared data looks like, as an HTML page with plots, in one file."""

import html
from collections.abc import Iterator

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from allyouneed.explorer.html_parts import cards, page, panel, plot
from allyouneed.explorer.text_tables import megabytes
from allyouneed.preparation.inspecting import RARE, Inspection, Side
from allyouneed.preparation.inspection_text import (
    PERCENTILES,
    count_and_share,
    example_lists,
    remark_on,
    shortened,
)

_COLOURS = {"source": "tab:blue", "target": "tab:orange"}
_MAP_CELLS = 64


def as_page(found: Inspection) -> str:
    """The page."""
    title = f"{found.num_pairs:,} {found.examples} in {found.directory.name}"
    facts = [
        f"{found.num_valid_pairs:,} to validate",
        f"{found.report['num_dropped']:,} of {found.report['num_read']:,} dropped",
        megabytes(found.num_bytes),
    ]
    body = [
        f"<h1>{html.escape(title)}</h1>",
        f'<p class="facts">{html.escape(", ".join(facts))}</p>',
        _sides(found),
        *_dropped(found),
        "<h2>Lengths</h2>",
        plot(_lengths(found), "number of sentences by length, and target length against source length"),
        "<h2>Vocabulary</h2>",
        _vocabularies(found),
        f'<p class="legend">Rare entries occur less than {RARE} times: little is learned of them.</p>',
        plot([_frequencies(found)], "occurrences of the entries of the vocabularies, by rank"),
        "<h2>Repeats</h2>",
        _repeats(found),
        "<h2>Padding</h2>",
        _padding(found),
        *_examples(found),
    ]
    return page(title, body)


def _named_sides(found: Inspection) -> Iterator[tuple[str, Side]]:
    yield "source", found.source
    yield "target", found.target


def _sides(found: Inspection) -> str:
    titles = ["", "tokens", "per word", "a sentence", *(f"{p}% have up to" for p in PERCENTILES[:-1])]
    titles += ["longest"]
    lines = [
        (
            name,
            [
                f"{side.num_tokens:,}",
                f"{side.tokens_per_word:.2f}",
                f"{side.lengths.mean():.1f}",
                *(f"{int(np.percentile(side.lengths, p)):,}" for p in PERCENTILES),
            ],
        )
        for name, side in _named_sides(found)
    ]
    return cards(titles, lines)


def _vocabularies(found: Inspection) -> str:
    titles = ["vocabulary", "entries", "that occur", "rare", "unknown tokens"]
    lines = [
        (
            name,
            [f"{each.num_entries:,}", f"{each.num_used:,}", f"{each.num_rare:,}", f"{each.num_unknown:,}"],
        )
        for name, each in found.vocabularies.items()
    ]
    return cards(titles, lines)


def _dropped(found: Inspection) -> Iterator[str]:
    if reasons := found.report["dropped"]:
        yield "<h2>Dropped</h2>"
        yield cards(
            ["reason", found.examples, "first places"],
            [
                (
                    html.escape(reason),
                    [f"{dropped['num_pairs']:,}", html.escape(", ".join(dropped["examples"]))],
                )
                for reason, dropped in reasons.items()
            ],
        )


def _repeats(found: Inspection) -> str:
    repeats, valid = found.repeats, found.num_valid_pairs
    lines = [
        (f"{found.examples} that equal an earlier one", repeats.num_pairs, found.num_pairs),
        ("sources that equal an earlier one", repeats.num_sources, found.num_pairs),
        ("targets that equal an earlier one", repeats.num_targets, found.num_pairs),
        ("copies of the source", repeats.num_copies, found.num_pairs),
        (f"validation {found.examples} that are trained on", repeats.num_valid_pairs, valid),
        ("validation sources that are trained on", repeats.num_valid_sources, valid),
    ]
    return cards(
        ["", "number", "share"],
        [
            (html.escape(name), list(count_and_share(number, total)))
            for name, number, total in lines
            if total and number is not None
        ],
    )


def _padding(found: Inspection) -> str:
    return cards(
        ["tokens a side in a micro-batch", "share of padding"],
        [(f"{size:,}", [f"{share:.1%}"]) for size, share in found.padding.items()],
    )


def _examples(found: Inspection) -> Iterator[str]:
    for title, examples in example_lists(found):
        yield f"<h2>{html.escape(title.capitalize())}</h2><dl>"
        for each in examples:
            texts = "<br>".join(html.escape(shortened(text)) for text in (each.source, each.target))
            yield f"<dt>{html.escape(remark_on(each, found))}</dt><dd>{texts}</dd>"
        yield "</dl>"


def _lengths(found: Inspection) -> tuple[Figure, Figure]:
    """Histograms of both sides, and a map of the target's length against the source's."""
    (picture, histogram), (map_of_both, joint) = panel(), panel()
    most = int(max(np.percentile(side.lengths, 99.9) for _, side in _named_sides(found))) + 2
    for name, side in _named_sides(found):
        counts = np.bincount(np.minimum(side.lengths, most), minlength=most + 1)
        histogram.stairs(
            counts[:most], np.arange(most + 1) - 0.5, label=name, color=_COLOURS[name], linewidth=1.5
        )
    histogram.set(xlabel="tokens", ylabel="sentences", xlim=(0, most))
    histogram.yaxis.set_major_formatter("{x:,.0f}")
    histogram.locator_params(integer=True)
    histogram.grid(alpha=0.3)
    histogram.legend(frameon=False)
    step = -(-most // _MAP_CELLS)  # a whole number, so that all cells hold equally many lengths
    edges = np.arange(0, most + step, step) - 0.5
    counts, _, _ = np.histogram2d(found.source.lengths, found.target.lengths, [edges, edges])
    image = joint.pcolormesh(
        edges, edges, np.ma.masked_equal(counts.T, 0), norm=LogNorm(vmin=1), cmap="viridis", rasterized=True
    )
    joint.set(xlabel="source tokens", ylabel="target tokens", aspect="equal")
    joint.locator_params(integer=True)
    map_of_both.colorbar(image, ax=joint, label=found.examples)
    return picture, map_of_both


def _frequencies(found: Inspection) -> Figure:
    """The occurrences of every entry, the most frequent first."""
    picture, axes = panel()
    for name, vocabulary in found.vocabularies.items():
        counts = np.sort(vocabulary.counts[vocabulary.counts > 0])[::-1]
        axes.loglog(np.arange(1, len(counts) + 1), counts, label=name, color=_COLOURS.get(name, "tab:green"))
    axes.axhline(RARE, color="tab:grey", linestyle=":", label=f"{RARE} occurrences")
    axes.set(xlabel="rank", ylabel="occurrences")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    return picture
