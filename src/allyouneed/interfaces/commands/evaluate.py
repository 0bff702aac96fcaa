"""`allyouneed evaluate`: scores of a model or of a file of translations, each with its signature."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from allyouneed.data.lines import read_lines
from allyouneed.errors import DataError, UsageError
from allyouneed.evaluation import (
    Metric,
    format_scores,
    scores_to_json,
    translation_metrics,
)
from allyouneed.interfaces.console import notice
from allyouneed.interfaces.device import Device, torch_device
from allyouneed.interfaces.search_options import AS_THE_MODEL_SAYS, SearchOptions


def evaluate(
    model: Path | None = None,
    /,
    *,
    reference: Path,
    source: Path | None = None,
    hypotheses: Path | None = None,
    target_language: str | None = None,
    search: Annotated[SearchOptions, Parameter(name="*")] = AS_THE_MODEL_SAYS,
    device: Device = "auto",
    json_: bool = False,
) -> None:
    """Score a model, or a file of translations, against reference translations.

    ```
    allyouneed evaluate runs/multi30k --source test.en --reference test.de
    allyouneed evaluate --hypotheses out.de --reference test.de --json
    ```

    Prints BLEU in every convention, chrF and, of a model, the perplexity; two scores compare only if their
    signatures are equal.

    Args:
        model: What translates the source: a run, a checkpoint, or an exported model.
        reference: The right translations, one a line, as plain text.
        source: What the model is to translate, line by line with the reference.
        hypotheses: In place of a model and a source: translations, line by line with the reference.
        target_language: Code of the references' language, such as `de`: BLEU on Moses tokens needs it. A
            model knows it if its data was prepared with it.
        search: How the model translates.
        json_: Print one JSON object: name -> {"score", "signature"}.
    """
    if model is None and source is None and hypotheses is not None:
        lines, references = _read_aligned(hypotheses, reference)
        scores = [metric(lines, references) for metric in _metrics(target_language)]
    elif model is not None and source is not None and hypotheses is None:
        from allyouneed.assessment import evaluate as evaluate_translator
        from allyouneed.loading import load

        lines, references = _read_aligned(source, reference)
        translator = load(model, device=torch_device(device))
        metrics = _metrics(target_language, translator.config.data.target_language)
        scores = evaluate_translator(translator, lines, references, metrics, **asdict(search))
    else:
        raise UsageError(
            "give a MODEL and --source to translate with it, or else --hypotheses to score a file"
        )
    print(json.dumps(scores_to_json(scores)) if json_ else format_scores(scores))


def _read_aligned(path: Path, reference: Path) -> tuple[list[str], list[str]]:
    lines, references = list(read_lines(path)), list(read_lines(reference))
    if len(lines) != len(references):
        raise DataError(
            f"{path} has {len(lines)} lines, but {reference} has {len(references)}; "
            "give two files of which each line matches the same line of the other"
        )
    return lines, references


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
