"""The facts about prepared data as an HTML page with plots, in one file."""

import html

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from allyouneed.explorer.html_parts import cards, page, panel, plot
from allyouneed.preparation.inspecting import RARE, Inspection
from allyouneed.preparation.inspection_text import facts_of, notable_pairs

_COLOURS = {"source": "tab:blue", "target": "tab:orange"}
_MAP_CELLS = 64


def as_page(found: Inspection) -> str:
    """The page."""
    title = f"{found.num_pairs:,} {found.examples} in {found.directory.name}"
    body = [f"<h1>{html.escape(title)}</h1>"]
    for heading, facts in facts_of(found):
        rows = [
            (html.escape(fact.name).replace("  ", "&emsp;"), [fact.value, html.escape(fact.remark)])
            for fact in facts
        ]
        body += [f"<h2>{html.escape(heading)}</h2>", cards(["", "", ""], rows)]
    body += [
        "<h2>Plots</h2>",
        plot(_length_plots(found), "number of sentences by length, and target length against source length"),
        plot([_frequencies(found)], "occurrences of the entries of the vocabularies, by rank"),
    ]
    if reasons := found.report["dropped"]:
        rows = [
            (html.escape(reason), [html.escape(", ".join(each["examples"]))])
            for reason, each in reasons.items()
        ]
        body += ["<h2>Dropped</h2>", cards(["reason", "first places"], rows)]
    for heading, pairs in notable_pairs(found):
        body.append(f"<h2>{html.escape(heading.capitalize())}</h2><dl>")
        for remark, source, target in pairs:
            body.append(
                f"<dt>{html.escape(remark)}</dt><dd>{html.escape(source)}<br>{html.escape(target)}</dd>"
            )
        body.append("</dl>")
    return page(title, body)


def _length_plots(found: Inspection) -> tuple[Figure, Figure]:
    """Histograms of both sides, and a map of the target's length against the source's."""
    sides = {"source": found.source, "target": found.target}
    (picture, histogram), (map_of_both, joint) = panel(), panel()
    most = int(max(np.percentile(side.lengths, 99.9) for side in sides.values())) + 2
    for name, side in sides.items():
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
    picture, axes = panel()
    for name, vocabulary in found.vocabularies.items():
        counts = np.sort(vocabulary.counts[vocabulary.counts > 0])[::-1]
        axes.loglog(np.arange(1, len(counts) + 1), counts, label=name, color=_COLOURS.get(name, "tab:green"))
    axes.axhline(RARE, color="tab:grey", linestyle=":", label=f"{RARE} occurrences")
    axes.set(xlabel="rank", ylabel="occurrences")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    return picture
