"""Extra sections of the page of `reproduce scaling`: growing dot products, vanishing gradients."""

from collections.abc import Iterator, Mapping

from matplotlib.figure import Figure

from allyouneed.interfaces.reports.html_parts import finish_panel, heading, plot
from allyouneed.paper.experiment import Results
from allyouneed.paper.scaling import D_K, KINDS, random_row

_PANELS = {"variance": "variance of q.k", "softmax_gradient": "gradient of the softmax, 1 at most"}


def sections(results: Results) -> Iterator[str]:
    """The page's sections as HTML, for the rows computed so far."""
    curves = {(figure, kind): _curve(results, kind, figure) for figure in _PANELS for kind in KINDS}
    if not any(curves.values()):
        return
    yield heading(
        "Why dot products are divided by sqrt(d_k)",
        "The dot product of a query and a key whose components are independent, with mean 0 and variance 1, "
        "has variance d_k. With a large d_k, a softmax over such products gives almost all weight to one of "
        "them, and its gradient vanishes. Divided by sqrt(d_k), neither depends on d_k.",
    )
    yield plot(_picture(curves), "variance and gradient against d_k, with and without scaling")


def _curve(results: Results, kind: str, figure: str) -> dict[int, float]:
    """d_k -> mean of a figure over seeds."""
    found = {d_k: results.values(random_row(kind, d_k), figure) for d_k in D_K}
    return {d_k: sum(values) / len(values) for d_k, values in found.items() if values}


def _picture(curves: Mapping[tuple[str, str], Mapping[int, float]]) -> Figure:
    picture = Figure((11, 4.2), layout="constrained")
    for axes, (figure, title) in zip(picture.subplots(1, len(_PANELS)), _PANELS.items(), strict=True):
        for kind in KINDS:
            curve = curves[figure, kind]
            axes.loglog(list(curve), list(curve.values()), "o-", markersize=4, label=kind)
        finish_panel(axes, title=title, xlabel="d_k")
    return picture
