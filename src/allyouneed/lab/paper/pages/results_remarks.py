"""What a table of results says besides its figures: settings, notes, and how rows are compared."""

import re
from collections.abc import Collection, Iterator

from allyouneed.errors import printable
from allyouneed.lab.paper.experiment import AVERAGED, RATES, Results
from allyouneed.lab.paper.pages.figure_legend import figure_title
from allyouneed.lab.paper.scales import Scale
from allyouneed.lab.statistics.figure_tests import TESTS, find_test
from allyouneed.lab.statistics.verdicts import Scores, are_sentences_drawn, control


def remarks(results: Results, scores: Scores) -> Iterator[str]:
    """Settings, notes and the rule of comparison; names of settings and rows are in backticks."""
    yield from _trained(results)
    yield from _rates(results)
    yield from _notes(results)
    yield from _rule(results, scores)


def _trained(results: Results) -> Iterator[str]:
    """Remarks on the models: the given one, or the settings of the trained ones."""
    if results.inputs.model is not None:
        yield f"Model: {printable(str(results.inputs.model))}."
        return
    is_trained = results.inputs.data or any(results.values(row.name, "seconds") for row in results.rows)
    if not is_trained and results.experiment.settings is Scale.changes:
        return  # the scale's settings are those of training
    settings = results.experiment.settings(results.scale)
    scaled = f"Scale {results.scale.name}, sized for {results.scale.sized_for}."
    yield scaled + (f" Settings: {'; '.join(settings)}." if settings else "")
    flags = " and ".join(f"`--{name.replace('_', '-')}`" for name in results.experiment.test_settings)
    if results.tested:
        yield "Scored on a test set; nothing was chosen by it."
    elif flags:
        verb = "give" if len(results.experiment.test_settings) > 1 else "gives"
        yield f"Scored on the validation text; the paper's figures are on test text, which {flags} {verb}."
    elif TESTS.keys() & results.experiment.figures.keys():
        yield "Scored on the validation text."


def _rates(results: Results) -> Iterator[str]:
    """The learning rate that was best for each row and seed, if several were tried."""
    found = []
    for row in results.rows:
        outcomes = [outcome for _, outcome in sorted(results.outcomes.get(row.name, {}).items())]
        tried = [float(rate) for outcome in outcomes for rate in outcome.get(RATES, {})]
        if best := [outcome["rate"] for outcome in outcomes if RATES in outcome]:
            at_edge = not {min(tried), max(tried)}.isdisjoint(best)
            edge = " (one beyond those tried may be better)" if at_edge and len({*tried}) > 1 else ""
            found.append(f"`{row.name}` {', '.join(f'{rate:g}' for rate in best)}{edge}")
    if found:
        yield f"Best learning rates, one for each seed: {'; '.join(found)}."


def _notes(results: Results) -> Iterator[str]:
    """The experiment's notes; one on a row, the first that it names, only if that has been computed."""
    rows = {row.name for row in results.rows}
    for note in results.experiment.notes:
        named = [name for name in re.findall("`([^`]+)`", note) if name in rows]
        if not named or named[0] in results.outcomes:
            yield note


def _rule(results: Results, scores: Scores) -> Iterator[str]:
    """How rows are compared, and the control of the test."""
    if not scores:
        return
    on_seeds = [figure_title(name) for name in scores if not are_sentences_drawn(name, scores)]
    alone = f", except for {'; '.join(on_seeds)}" if on_seeds else ""
    drawn = "" if len(on_seeds) == len(scores) else f", and test sentences with replacement{alone}"
    yield (
        "A row is tested against its baseline over the seeds that both have, if these are two or more. "
        "What a seed does to all rows is taken out. The residual standard deviation is pooled over rows; a "
        "row with a larger one keeps its own. Differences that seeds make are drawn from Student's t "
        f"distribution{drawn}. p-values have Holm's correction over all rows, for each figure and kind of "
        "test by itself; p < 0.05 is significant."
    )
    in_paper = {name for row in results.rows for name in row.paper}
    yield from _deviations(scores, in_paper)
    of_paper = [test for name in scores if name in in_paper and (test := find_test(name))]
    if margins := dict.fromkeys(test.margin_in_words for test in of_paper):
        yield (
            f"Where the paper's rows differ by less than {' or '.join(margins)}, ours agree with it if they "
            "are shown to do so, too (two one-sided tests). Where the paper's are equal, up to one unit in "
            "the last printed digit, ours disagree if they are shown to differ by more."
        )
    different, splits = control(scores)
    if splits:
        yield (
            f"Control: over all rows and figures, the seeds of a row were split into halves in {splits} "
            "ways, and judged by the deviation of the other rows; "
            f"{different} ({different / splits:.1%}) were called different. 5% are expected."
        )


def _deviations(scores: Scores, in_paper: Collection[str]) -> Iterator[str]:
    """How much seeds change each figure, those of parts of the test set left out."""
    found = [
        f"{figure_title(name)}, {test.deviation_in_words(tests.deviation)} ({tests.degrees_of_freedom})"
        for name, tests in scores.items()
        if name in in_paper or name.removesuffix(AVERAGED) in TESTS
        if (test := find_test(name)) and tests.deviation is not None
    ]
    if found:
        yield f"Standard deviation over seeds, with its degrees of freedom: {'; '.join(found)}."
