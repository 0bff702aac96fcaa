"""`allyouneed evaluate`: scores of a model or of a file of translations, each with its signature."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from allyouneed.data.lines import read_aligned
from allyouneed.errors import UsageError
from allyouneed.evaluation import (
    Metric,
    Score,
    format_scores,
    scores_to_json,
)
from allyouneed.evaluation.conventions import EXPLANATIONS
from allyouneed.evaluation.significance import SIGNIFICANT, paired_bootstrap
from allyouneed.interfaces.console import notice
from allyouneed.interfaces.device import Device, torch_device
from allyouneed.interfaces.held_out import read_held_out
from allyouneed.interfaces.reports.tree_scores import print_scores, score_parser, score_tree_file
from allyouneed.interfaces.search_options import AS_THE_MODEL_SAYS, SearchOptions
from allyouneed.storage.publish import require_file
from allyouneed.tasks.translation.scores import metrics_for

_notice = partial(notice, settings=["target_language"])


@Parameter(name="*")
@dataclass(frozen=True)
class TreeOptions:
    """What is scored in place of translations."""

    trees: Path | None = None
    """The gold trees, in Penn brackets, in place of a reference; a parser is given their words."""
    unconstrained: bool = False
    """Let a parser write what is no tree, as in the paper, and repair it."""
    labels: bool = False
    """Print a table of all labels, too."""
    lengths: bool = False
    """Print a table by the length of sentences, too."""
    length_plot: Path | None = None
    """Draw F1 by the length of sentences into this PNG file."""


def evaluate(
    model: Path | None = None,
    /,
    *,
    reference: Path | None = None,
    source: Path | None = None,
    pairs: Path | None = None,
    hypotheses: Annotated[list[Path] | None, Parameter(consume_multiple=True)] = None,
    target_language: str | None = None,
    trees: TreeOptions = TreeOptions(),
    search: Annotated[SearchOptions, Parameter(name="*")] = AS_THE_MODEL_SAYS,
    device: Device = "auto",
    json_: bool = False,
) -> None:
    """Score a model, or a file of outputs, against reference translations or trees.

    ```
    allyouneed evaluate runs/multi30k --source test.en --reference test.de
    allyouneed evaluate runs/multi30k --pairs test.tsv
    allyouneed evaluate --hypotheses out.de --reference test.de --json
    allyouneed evaluate --hypotheses one.de other.de --reference test.de
    allyouneed evaluate runs/parser --trees dev.mrg --labels
    allyouneed evaluate runs/parser --trees dev.mrg --lengths --length-plot lengths.png
    ```

    Prints BLEU in every convention, with what makes them differ, chrF and, of a model, the perplexity; two
    scores compare only if their signatures are equal. Of two files of translations it also tells whether
    their BLEU differs by more than the choice of test sentences (paired bootstrap). With `--trees` it counts
    labelled brackets by EVALB's rules.

    Args:
        model: What translates the source: a run, a checkpoint in it, or a model folder.
        reference: The right translations, one a line, as plain text.
        source: What the model is to translate, line by line with the reference.
        pairs: In place of a source and a reference: lines of source TAB reference.
        hypotheses: In place of a model and a source: translations, line by line with the reference; or two
            files of them, to be compared; or trees.
        target_language: Code of the references' language, such as `de`: BLEU on Moses tokens needs it. A
            model knows it if its data was prepared with it.
        trees: What is scored in place of translations.
        search: How the model translates, or parses.
        json_: Print one JSON object: name -> {"score", "signature"}; of two files, that of each and their
            comparison.
    """
    _check_options(trees, hypotheses, search)
    if trees.trees is not None:
        if reference or source or pairs:
            raise UsageError("--trees are scored without --source and --reference; leave those out")
        _evaluate_trees(trees.trees, model, hypotheses, trees, search, device, json_)
    elif reference is None and pairs is None:
        raise UsageError("give --reference, the right translations; or --trees, the gold trees")
    elif model is not None and hypotheses is None and (source or pairs):
        texts = read_held_out(source, reference, pairs)
        _print(_scores_of_model(model, *texts, target_language, search, device), json_)
    elif reference and not (model or source or pairs) and hypotheses and len(hypotheses) <= 2:
        _score_files(hypotheses, reference, metrics_for(target_language, say=_notice), json_)
    else:
        raise UsageError(
            "give a MODEL and --source to translate with it, or else --hypotheses to score a file, or two"
        )


def _check_options(trees: TreeOptions, hypotheses: Sequence[Path] | None, search: SearchOptions) -> None:
    """Refuse options that nothing would heed, and a plot that could not be written."""
    if trees.trees is None and trees != TreeOptions():
        raise UsageError(
            "--unconstrained, --labels, --lengths, --length-plot: are of trees; add --trees FILE"
        )
    if hypotheses is not None and (trees.unconstrained or search.settings()):
        raise UsageError("--hypotheses are scored as they are; leave out what says how to search")
    if trees.length_plot:
        require_file(trees.length_plot)


def _scores_of_model(
    model: Path,
    sources: Sequence[str],
    references: Sequence[str],
    target_language: str | None,
    search: SearchOptions,
    device: Device,
) -> list[Score]:
    from allyouneed.tasks.loading import load, task_of

    task, loaded = task_of(model), load(model, device=torch_device(device))
    given = search.settings()
    return task.evaluate(loaded, sources, references, target_language=target_language, say=_notice, **given)


def _print(scores: Sequence[Score], json_: bool) -> None:
    """Print scores as JSON, or as a table, and then say why the values of BLEU differ."""
    if json_:
        print(json.dumps(scores_to_json(scores)))
        return
    print(format_scores(scores))
    _explain(scores)


def _explain(scores: Sequence[Score]) -> None:
    values = {score.name: score.value for score in scores}
    for name in [score.name for score in scores if score.name in EXPLANATIONS]:
        notice(f"{name} ({values[name] - values['bleu_13a']:+.2f}): {EXPLANATIONS[name]}")


def _score_files(systems: Sequence[Path], reference: Path, metrics: Sequence[Metric], json_: bool) -> None:
    """Print the scores of a system, or of two side by side and whether they differ."""
    texts = [read_aligned(system, reference) for system in systems]
    if len(texts) == 1:
        _print([metric(*texts[0]) for metric in metrics], json_)
        return
    scores = [[metric(lines, references) for metric in metrics] for lines, references in texts]
    test = paired_bootstrap(texts[0][0], texts[1][0], texts[0][1])
    if json_:
        comparison = {"difference": test.difference, "p_value": test.p_value, "interval_95": test.interval}
        comparison["signature"] = test.signature
        print(json.dumps({"systems": [scores_to_json(each) for each in scores], "bleu_13a": comparison}))
        return
    width = max(len(score.name) for score in scores[0])
    for one, other in zip(*scores, strict=True):
        change = f"{other.value - one.value:+.2f}"
        print(f"{one.name:<{width}}  {one.value:8.2f}  {other.value:8.2f}  {change:>7}  {one.signature}")
    low, high = test.interval
    told = "more" if test.p_value < SIGNIFICANT else "no more"
    print(
        f"bleu_13a differs by {test.difference:+.2f} ({low:+.2f} to {high:+.2f} in 95 of 100 test sets), "
        f"p = {test.p_value:.3f}: {told} than the choice of sentences makes"
    )
    _explain(scores[0])


def _evaluate_trees(
    trees: Path,
    model: Path | None,
    hypotheses: Sequence[Path] | None,
    options: TreeOptions,
    search: SearchOptions,
    device: Device,
    json_: bool,
) -> None:
    """Print the scores of a parser, or of a file of trees."""
    if "mbr" in search.settings():
        raise UsageError("--mbr: this is for translations only; leave it out")
    if model is not None and hypotheses is None:
        constrained = not options.unconstrained
        scored = score_parser(model, trees, device, constrained=constrained, **search.settings())
    elif model is None and hypotheses is not None and len(hypotheses) == 1:
        scored = score_tree_file(hypotheses[0], trees)
    else:
        raise UsageError("with --trees give a MODEL to parse their words, or --hypotheses, a file of trees")
    print_scores(*scored, labels=options.labels, lengths=options.lengths, as_json=json_)
    if options.length_plot:
        from allyouneed.interfaces.reports.plots import plot_f1_by_length

        plot_f1_by_length(scored[0], options.length_plot)
