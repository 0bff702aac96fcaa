"""The identity of the results in a folder: the experiment, its scale, and its inputs, checked."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from allyouneed.data.corpus import require_rereadable
from allyouneed.data.lines import is_blank, read_aligned, read_lines
from allyouneed.errors import DataError, UsageError
from allyouneed.lab.paper.experiment import Experiment, Inputs, Row
from allyouneed.lab.paper.scales import Scale
from allyouneed.preparation.prepared_data import PreparedData
from allyouneed.storage.publish import MANIFEST, disk_errors, read_manifest, sha256_of, write_text
from allyouneed.storage.run_directory import resolve_model
from allyouneed.tasks.parsing.parser import penn_words
from allyouneed.tasks.parsing.treebank import clean_trees
from allyouneed.tasks.parsing.trees import read_trees

EXPERIMENT = "experiment.json"
"""File of the facts that the results in a folder share."""
OTHER_INPUTS = {
    "data": "other data",
    "text": "other text",
    "silver": "other silver trees",
    "model": "another model",
    "test": "another test set",
}
"""Fact of an input -> what it is of, if it is not the same."""
OTHER_REVISION = "another revision of the experiment, by another version of allyouneed"


def identity(experiment: Experiment, scale: Scale, rows: Sequence[Row], inputs: Inputs) -> dict[str, Any]:
    """Facts that results in one folder must share, as JSON values."""
    return {**identity_of_scale(experiment, scale), **_facts(experiment, rows, inputs)}


def identity_of_scale(experiment: Experiment, scale: Scale) -> dict[str, Any]:
    """The facts that do not depend on inputs: experiment, scale and its settings."""
    kept = {
        name: v for name, v in asdict(scale).items() if name not in ("name", "sized_for") and v is not None
    }
    settings = json.loads(json.dumps(kept))
    facts = {"experiment": experiment.name, "scale": scale.name, "settings": settings}
    return facts | {"revision": experiment.revision}


def require_same(out: Path, settings: Mapping[str, Any], option: str = "out") -> None:
    """Refuse to mix results of other facts in the folder that `option` names; record these there."""
    path = out / EXPERIMENT
    begun = read_facts(path) if path.is_file() else {}
    named = dict(OTHER_INPUTS)
    if not begun.get("test"):
        named["test"] = "no test set"
    for name, value in settings.items():
        if begun.get(name, value) != value:
            named["settings"] = f"other settings of the scale {settings['scale']}"
            named["revision"] = OTHER_REVISION
            other = named.get(name, f"{name} {begun[name]}, now {value}")
            raise UsageError(
                f"{out}: began with {other}; name another folder with {option}", settings=[option]
            )
    with disk_errors(out):
        out.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps({**begun, **settings}, indent=1) + "\n")


def read_facts(path: Path) -> dict[str, Any]:
    """The facts that the results in a folder share.

    Raises:
        DataError: The file is damaged.
    """
    facts = read_json(path)
    is_whole = isinstance(facts.get("settings"), dict) and {"experiment", "scale"} <= facts.keys()
    if "settings" in facts and not is_whole:
        raise _damaged(path)
    return facts


def read_json(path: Path) -> dict[str, Any]:
    """Contents of the JSON file of a result or an experiment.

    Raises:
        DataError: The file is damaged.
    """
    try:
        return dict(json.loads(path.read_bytes()))
    except (ValueError, TypeError):
        raise _damaged(path) from None


def _damaged(path: Path) -> DataError:
    return DataError(f"{path}: is damaged; delete it, then rerun the command that wrote it")


def _facts(experiment: Experiment, rows: Sequence[Row], inputs: Inputs) -> dict[str, Any]:
    """Facts that identify the inputs, after checking that they suit the experiment."""
    if inputs.model is None:
        return {
            **_facts_of_data(experiment, rows, inputs.data),
            **_facts_of_text(rows, inputs.text),
            **_facts_of_silver(rows, inputs.silver),
            "test": _facts_of_test(experiment, inputs),
        }
    if inputs.test or inputs.text or inputs.silver:
        others = {"text": inputs.text, "silver_trees": inputs.silver}
        settings = [*inputs.test, *(name for name, given in others.items() if given)]
        raise UsageError(
            f"{' and '.join(settings)}: a model is not tested again; leave out {' and '.join(settings)}",
            settings=settings,
        )
    if not experiment.takes_model or inputs.data is not None:
        instead = "give it or data" if experiment.takes_model else "give data"
        raise UsageError(
            f"model {inputs.model}: reproduce {experiment.name} has no use for it; {instead}",
            settings=["model", "data"],
        )
    directory = resolve_model(inputs.model)
    read_manifest(directory, "model")  # anything but a model is rejected before any row is computed
    return {"data": None, "model": sha256_of(directory / MANIFEST)}


def _facts_of_data(experiment: Experiment, rows: Sequence[Row], data: Path | None) -> dict[str, Any]:
    """Facts that identify the data; empty if no row needs data."""
    if experiment.require is None and data is not None:
        raise UsageError(f"reproduce {experiment.name}: needs no data; leave it out", settings=["data"])
    if experiment.require is None or not any(row.needs_data for row in rows):
        return {}
    if data is None:
        remedy = ", or a trained one with model" if experiment.takes_model else ""
        raise UsageError(
            f"reproduce {experiment.name}: trains models; name prepared folders with data{remedy}",
            settings=["data", "model"],
        )
    prepared = PreparedData(data)
    experiment.require(prepared)
    for row in rows:
        if other := other_settings(row, prepared):
            wanted = ", ".join(f"{name} {row.data_settings[name]}" for name in other)
            raise UsageError(
                f"{data}: the row {row.name} needs data of {wanted}; prepare such data, or choose other rows",
                settings=[*other, "rows"],
            )
    return {"data": prepared.facts, "model": None}


def other_settings(row: Row, prepared: PreparedData) -> list[str]:
    """Names of the settings in which data differ from what a row needs."""
    return [name for name, value in row.data_settings.items() if getattr(prepared.config, name) != value]


def _facts_of_text(rows: Sequence[Row], text: Sequence[Path]) -> dict[str, list[str]]:
    """Facts that identify the raw text; empty if no row needs raw text."""
    needed_by = [row.name for row in rows if row.needs_text]
    if needed_by and not text:
        raise UsageError(
            f"{' '.join(needed_by)}: parses raw sentences; name files of them with text, "
            "or leave it out with rows",
            settings=["text", "rows"],
        )
    if text and not needed_by:
        raise UsageError("text: none of these rows uses raw text; leave it out", settings=["text"])
    require_rereadable(text)
    if text:
        penn_words("")  # reports a missing library now, not after the earlier rows
        if all(is_blank(line) for file in text for line in read_lines(file)):
            raise DataError(f"{text[0]}: has no sentence; give text, a sentence a line")
    return {"text": [sha256_of(file) for file in text]} if text else {}


def _facts_of_silver(rows: Sequence[Row], silver: Path | None) -> dict[str, str]:
    """Facts that identify the silver trees, which are read once; empty if no row needs them."""
    needed_by = [row.name for row in rows if row.needs_silver]
    if silver is None and needed_by:
        raise UsageError(
            f"{' '.join(needed_by)}: trains on silver trees of another parser; name them with silver_trees, "
            "or leave it out with rows",
            settings=["silver_trees", "rows"],
        )
    if silver is None:
        return {}
    if not needed_by:
        raise UsageError("silver_trees: no row trains on them; leave it out", settings=["silver_trees"])
    require_rereadable([silver])
    if not any(True for _ in clean_trees(read_trees(silver))):
        raise DataError(f"{silver}: is empty; give silver trees, or leave them out")
    return {"silver": sha256_of(silver)}


def _facts_of_test(experiment: Experiment, inputs: Inputs) -> list[str]:
    """Facts that identify the test set, which is read to find errors in it now."""
    if not inputs.test:
        return []
    if list(inputs.test) != list(experiment.test_settings):
        wanted = " and ".join(experiment.test_settings)
        told = f"give {wanted}, not" if wanted else "has no use for a test set; leave it out:"
        raise UsageError(
            f"reproduce {experiment.name}: {told} {' and '.join(inputs.test)}",
            settings=[*experiment.test_settings, *inputs.test],
        )
    files = list(inputs.test.values())
    require_rereadable(files)
    is_text = len(files) > 1
    if not (read_aligned(files[0], files[1])[0] if is_text else [*clean_trees(read_trees(files[0]))]):
        raise DataError(f"{files[0]}: is empty; give a test set, or leave it out")
    return [sha256_of(file) for file in files]
