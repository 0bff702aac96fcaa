"""`allyouneed evaluate`: scores of a model or of a file of translations, each with its signature."""

import json
from collections.abc import Sequence
from dataclasses import asdict
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
    translation_metrics,
)
from allyouneed.evaluation.conventions import EXPLANATIONS
from allyouneed.evaluation.significance import SIGNIFICANT, paired_bootstrap
from allyouneed.interfaces.console import notice
from allyouneed.interfaces.device import Device, torch_device
from allyouneed.interfaces.search_options import AS_THE_MODEL_SAYS, SearchOptions


def evaluate(
    model: Path | None = None,
    /,
    *,
    reference: Path,
    source: Path | None = None,
    hypotheses: Annotated[list[Path] | None, Parameter(consume_multiple=True)] = None,
    target_language: str | None = None,
    search: Annotated[SearchOptions, Parameter(name="*")] = AS_THE_MODEL_SAYS,
    device: Device = "auto",
    json_: bool = False,
) -> None:
    """Score a model, or a file of translations, against reference translations.

    ```
    allyouneed evaluate runs/multi30k --source test.en --reference test.de
    allyouneed evaluate --hypotheses out.de --reference test.de --json
    allyouneed evaluate --hypotheses one.de other.de --reference test.de
    ```

    Prints BLEU in every convention, with what makes them differ, chrF and, of a model, the perplexity; two
    scores compare only if their signatures are equal. Of two files of translations it also tells whether
    their BLEU differs by more than the choice of test sentences (paired bootstrap).

    Args:
        model: What translates the source: a run, a checkpoint, or an exported model.
        reference: The right translations, one a line, as plain text.
        source: What the model is to translate, line by line with the reference.
        hypotheses: In place of a model and a source: translations, line by line with the reference; or two
            files of them, to be compared.
        target_language: Code of the references' language, such as `de`: BLEU on Moses tokens needs it. A
            model knows it if its data was prepared with it.
        search: How the model translates.
        json_: Print one JSON object: name -> {"score", "signature"}; of two files, that of each and their
            comparison.
    """
    if model is None and source is None and hypotheses is not None and len(hypotheses) == 2:
        _compare(hypotheses, reference, _metrics(target_language), json_)
        return
    if model is None and source is None and hypotheses is not None and len(hypotheses) == 1:
        lines, references = read_aligned(hypotheses[0], reference)
        scores = [metric(lines, references) for metric in _metrics(target_language)]
    elif model is not None and source is not None and hypotheses is None:
        from allyouneed.assessment import evaluate as evaluate_translator
        from allyouneed.loading import load

        lines, references = read_aligned(source, reference)
        translator = load(model, device=torch_device(device))
        metrics = _metrics(target_language, translator.config.data.target_language)
        scores = evaluate_translator(translator, lines, references, metrics, **asdict(search))
    else:
        raise UsageError(
            "give a MODEL and --source to translate with it, or else --hypotheses to score a file, or two"
        )
    print(json.dumps(scores_to_json(scores)) if json_ else format_scores(scores))
    if not json_:
        _explain(scores)


def _explain(scores: Sequence[Score]) -> None:
    """Say why the values of BLEU differ."""
    baseline = next(score.value for score in scores if score.name == "bleu_13a")
    for score in scores:
        if score.name in EXPLANATIONS:
            notice(f"{score.name} ({score.value - baseline:+.2f}): {EXPLANATIONS[score.name]}")


def _compare(systems: Sequence[Path], reference: Path, metrics: Sequence[Metric], json_: bool) -> None:
    """Print the scores of two systems side by side, and whether they differ."""
    texts = [read_aligned(system, reference) for system in systems]
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


def _metrics(given: str | None, recorded: str = "") -> list[Metric]:
    """The metrics for the language given, which must work, or else for the model's, which may not."""
    if given:
        return translation_metrics(given)
    reason = "give --target-language"
    try:
        if recorded:
            return translation_metrics(recorded)
    except UsageError as error:
        reason = str(error)
    notice(f"BLEU on Moses tokens is left out: {reason}")
    return translation_metrics(None)
