"""`allyouneed evaluate`: scores a model or a file of translations."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from allyouneed.cli.corpus_options import read_held_out
from allyouneed.cli.options import AS_THE_MODEL_SAYS, SEVERAL, Device, SearchOptions, torch_device
from allyouneed.cli.tree_scores import print_scores, score_parser, score_tree_file
from allyouneed.data.lines import read_aligned
from allyouneed.errors import ModelError, UsageError, notice
from allyouneed.evaluation import (
    Score,
    choose_tokens,
    format_scores,
    headline,
    scores_to_json,
    translation_metrics,
)
from allyouneed.evaluation.metrics import EXPLANATIONS
from allyouneed.storage.publish import require_file

_notice = partial(notice, settings=["target_language"])


@Parameter(name="*")
@dataclass(frozen=True)
class TreeOptions:
    """Trees to score instead of translations."""

    trees: Path | None = None
    """Gold trees in Penn brackets, instead of a reference; a parser parses their words."""
    unconstrained: bool = False
    """Search all outputs, as in the paper, and repair those that are not trees."""
    labels: bool = False
    """Also print a table of all labels."""
    lengths: bool = False
    """Also print a table by sentence length."""
    length_plot: Path | None = None
    """Plot F1 by sentence length into this file, PNG, or SVG or PDF by its name."""


def evaluate(
    model: Path | None = None,
    /,
    *,
    reference: Annotated[list[Path] | None, SEVERAL] = None,
    source: Path | None = None,
    pairs: Path | None = None,
    hypotheses: Annotated[list[Path] | None, SEVERAL] = None,
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
    allyouneed evaluate --hypotheses out.de --reference one.de other.de --json
    allyouneed evaluate --hypotheses one.de other.de --reference test.de
    allyouneed evaluate runs/parser --trees dev.mrg --labels
    allyouneed evaluate runs/parser --trees dev.mrg --lengths --length-plot lengths.png
    ```

    The first line is the score to report, such as `BLEU 34.6 (13a)`: sacreBLEU's for the language. Others
    follow: BLEU in every convention (if spaces part words) and why it differs, chrF, a model's perplexity.
    Compare two scores only if their signatures are equal. Given two files of translations, it also tests
    whether their BLEU scores differ significantly (paired bootstrap). With `--trees` it scores labelled
    brackets by EVALB's rules.

    Args:
        model: A run, a checkpoint in it, or a model folder, which translates the source.
        reference: Reference translations, one per line, not tokenised; several files if a sentence has more
            (an empty line: none). The perplexity is that of the first. Plain, compressed or `-`, stdin.
        source: Source sentences, line by line with the reference.
        pairs: Lines of source TAB reference, or a TMX, instead of `--source` and `--reference`.
        hypotheses: A file of translations, line by line with the reference, instead of a model and a source;
            two such files to compare; or a file of trees.
        target_language: Language code of the references, such as `de` or `zh`, for BLEU on its tokens; by
            default the one recorded in the model.
        trees: Trees to score instead of translations.
        search: Search settings; by default the model's own.
        json_: Print one JSON object: name -> {"score", "signature"}; for two files, one object per file and
            their comparison.
    """
    if model is None and source and not hypotheses and reference and len(reference) > 1:  # the MODEL is last
        *reference, model = reference
    _check_options(trees, hypotheses, search, bool(reference or source or pairs or target_language))
    if trees.trees is not None:
        _evaluate_trees(trees.trees, model, hypotheses, trees, search, device, json_)
    elif reference is None and pairs is None:
        raise UsageError("give --reference, a file of translations, or --trees, a file of gold trees")
    elif model is not None and hypotheses is None and (source or pairs):
        texts, given = read_held_out(source, reference, pairs, model), search.settings()
        _score_model(model, texts, target_language, device, json_, **given)
    elif reference and not (model or source or pairs) and hypotheses and len(hypotheses) <= 2:
        _score_files(hypotheses, reference, target_language or "", json_)
    else:
        raise UsageError("give a MODEL and --source, or --hypotheses with one or two files to score")


def _check_options(
    trees: TreeOptions, hypotheses: Sequence[Path] | None, search: SearchOptions, are_for_text: bool
) -> None:
    """Reject options that have no effect, and a plot that cannot be written."""
    if trees.trees is None and trees != TreeOptions():
        raise UsageError(
            "--unconstrained, --labels, --lengths, --length-plot: are for trees; add --trees FILE"
        )
    if hypotheses is not None and (trees.unconstrained or search.settings()):
        raise UsageError("--hypotheses: search settings have no effect on them; leave these out")
    if trees.length_plot:
        require_file(trees.length_plot)
    if trees.trees is not None and are_for_text:
        raise UsageError(
            "--trees: --source, --reference, --pairs, --target-language have no effect here; leave them out"
        )


def _print(scores: Sequence[Score], json_: bool) -> None:
    """Print scores as JSON, or a headline, a table, and why the BLEU scores differ."""
    if json_:
        print(json.dumps(scores_to_json(scores)))
        return
    print(f"{headline(scores[0])}\n{format_scores(scores)}")
    _explain(scores)


def _explain(scores: Sequence[Score]) -> None:
    first = scores[0]
    for score in scores:
        if score.name in EXPLANATIONS:
            is_recommended = score is first and score.name != "bleu_char"
            explanation = EXPLANATIONS[score.name] + ", recommended for reports" * is_recommended
            notice(f"{score.name} ({score.value - first.value:+.2f}): {explanation}")


def _score_model(
    model: Path,
    texts: Sequence[Sequence[str]],
    target_language: str | None,
    device: Device,
    json_: bool,
    **search: Any,
) -> None:
    """Print the scores of a model's translations of the first text, by the others as references."""
    from allyouneed.runs.loading import load, task_of

    task = task_of(model)
    if task.evaluate is None:
        raise ModelError("the model is a parser; score it with trees", settings=["trees"])
    loaded = load(model, device=torch_device(device))
    _print(task.evaluate(loaded, *texts, target_language=target_language, say=_notice, **search), json_)


def _score_files(
    systems: Sequence[Path], references: Sequence[Path], target_language: str, json_: bool
) -> None:
    """Print the scores of one system, or of two side by side with a significance test."""
    lines = read_aligned(*systems, *references)
    texts, given = lines[: len(systems)], lines[len(systems) :]
    metrics = translation_metrics(target_language, given[0], _notice)
    scores = [[metric(text, *given) for metric in metrics] for text in texts]
    if len(texts) == 1:
        _print(scores[0], json_)
        return
    from allyouneed.evaluation.significance import paired_bootstrap

    test = paired_bootstrap(*texts, *given, tokens=choose_tokens(target_language, given[0]))
    name = scores[0][0].name
    if json_:
        comparison = {"difference": test.difference, "p_value": test.p_value, "interval_95": test.interval}
        comparison |= {"signature": test.signature, "sentences": test.num_sentences}
        print(json.dumps({"systems": [scores_to_json(each) for each in scores], name: comparison}))
        return
    print(headline(scores[0][0], scores[1][0]))
    width = max(len(score.name) for score in scores[0])
    for one, other in zip(*scores, strict=True):
        change = f"{other.value - one.value:+.2f}"
        print(f"{one.name:<{width}}  {one.value:8.2f}  {other.value:8.2f}  {change:>7}  {one.signature}")
    low, high = test.interval
    print(
        f"{name} differs by {test.difference:+.2f} (95% interval {low:+.2f} to {high:+.2f}), "
        f"p = {test.p_value:.3f}: {test.verdict}"
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
    """Print the scores of a parser or of a file of trees."""
    if "mbr" in search.settings():
        raise UsageError("--mbr: is for translations only; leave it out")
    if model is not None and hypotheses is None:
        constrained = not options.unconstrained
        scored = score_parser(model, trees, device, constrained=constrained, **search.settings())
    elif model is None and hypotheses is not None and len(hypotheses) == 1:
        scored = score_tree_file(hypotheses[0], trees)
    else:
        raise UsageError(
            "with --trees, give a MODEL that parses their words, or --hypotheses, a file of trees"
        )
    print_scores(*scored, labels=options.labels, lengths=options.lengths, as_json=json_)
    if options.length_plot:
        from allyouneed.tasks.plots import plot_f1_by_length

        plot_f1_by_length(scored[0], options.length_plot)
