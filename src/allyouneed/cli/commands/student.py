"""`allyouneed student`: a small fast model that learns from larger ones."""

import json
import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter
from rich.filesize import decimal

from allyouneed.cli.bench_results import table
from allyouneed.cli.progress import watch
from allyouneed.cli.run_length import duration_in_seconds
from allyouneed.cli.run_reporter import run_reporter
from allyouneed.cli.shared_options import ConfigurationOptions, Device, device_kind, torch_device
from allyouneed.data.lines import read_aligned
from allyouneed.errors import DataError, UsageError, notice

if TYPE_CHECKING:
    from allyouneed.runs.distillation import Stage, Student
    from allyouneed.runs.student_report import ModelFigures


def student(
    *teachers: Path,
    data: Path,
    out: Path,
    shape: Literal["small", "tiny", "micro"] = "tiny",
    budget: Annotated[float, Parameter(converter=duration_in_seconds)] = 3_600.0,
    monolingual: Path | None = None,
    for_: Annotated[Literal["marian"] | None, Parameter(name="--for")] = None,
    set_: Annotated[list[str] | None, Parameter(name="--set")] = None,
    test_source: Path | None = None,
    test_reference: Path | None = None,
    device: Device = "auto",
    dry_run: bool = False,
) -> int:
    """Make a small fast model that learns what larger ones write.

    ```
    allyouneed student models/good --data data --out models/small --budget 2h
    allyouneed student runs/1 runs/2 runs/3 --data data --monolingual more.en --out models/tiny
    allyouneed student models/good --data data --out models/web --shape micro --for marian
    ```

    The teachers translate the training sources, and more text if there is any. Of four translations of each
    line, the student learns the best. Its matrices are rounded to 8 bits, and it is measured beside its
    teachers. What the steps leave is in OUT.stages. Stopped or killed, the same command goes on.

    Args:
        teachers: Runs, checkpoints or model folders; several, with the same vocabularies, are an ensemble.
        data: Prepared data, whose sub-words the student has.
        out: The folder of the new model.
        shape: Size of the model, which is never wider than its teacher.
        budget: Time for everything, such as 20m, 2h or 1d.
        monolingual: More sentences in the source language, one per line.
        for_: Form of other software that the student must have, as in `train`.
        set_: Settings of the student's run as group.key=value.
        test_source: Source sentences to measure the models on, one per line; by default the validation text.
        test_reference: Their reference translations.
        device: Device to compute on.
        dry_run: Check everything, time the teachers, and print the steps; writes nothing.
    """
    texts = _test_texts(data, test_source, test_reference)
    options = ConfigurationOptions(for_=for_, set_=set_)
    options.require_sub_words(data)
    from allyouneed.runs.distillation import Student, phases, plan
    from allyouneed.runs.starting import train_phase

    asked = Student(out, teachers, data, shape, budget, monolingual, options.settings())
    where = torch_device(device)
    if dry_run:
        _print_plan(plan(asked, device=where, say=notice))
        return 0
    for phase in phases(asked, device=where, say=notice, watch=partial(watch, "lines")):
        with run_reporter(phase.run) as report:
            received = train_phase(phase, device=where, report=report, say=notice)
        if received is not None:
            notice(f"{out}: stopped by {received.name} with everything saved; the same command goes on")
            return 128 + received
    _print_report(asked, texts, device)
    return 0


def _test_texts(data: Path, source: Path | None, reference: Path | None) -> list[list[str]]:
    """The sentences to measure with, and their references; nothing if there are none."""
    if (source is None) != (reference is None):
        raise UsageError("give both --test-source and --test-reference, or neither")
    if source is not None and reference is not None:
        if not (texts := read_aligned(source, reference))[0]:
            raise DataError(f"{source}: is empty; give one sentence per line")
        return texts
    from allyouneed.preparation.prepared_data import PreparedData

    prepared = PreparedData(data)
    return [prepared.lines("valid", side) for side in ("source", "target")] if prepared.valid else []


def _print_plan(stages: "Sequence[Stage]") -> None:
    from allyouneed.runs.pace import about

    rows = [
        {
            "step": each.name,
            "time": about(each.seconds),
            "disk": decimal(round(each.num_bytes)),
            "": each.what,
        }
        for each in stages
    ]
    print("\n".join(table(rows)))


def _print_report(asked: "Student", texts: Sequence[Sequence[str]], device: Device) -> None:
    """Measure the student beside its teachers, and print the numbers; they are in OUT.stages, too."""
    if not texts:
        notice(f"{asked.out}: is not measured, as there is no validation or test text")
        return
    from allyouneed.native.library import available
    from allyouneed.preparation.prepared_data import PreparedData
    from allyouneed.runs.distillation import load_teacher
    from allyouneed.runs.student_report import measure
    from allyouneed.storage.publish import write_text

    prepared, kind = PreparedData(asked.data), device_kind(device)
    models = [(paths, load_teacher(paths, prepared, kind)) for paths in (asked.teachers, [asked.out])]
    sources, references = texts
    measured = measure(models, sources, references, prepared.config.target_language, notice)
    teacher, student = (each.outputs for each in measured)
    same = sum(one == other for one, other in zip(teacher, student, strict=True)) / len(teacher)
    names = "teacher" if len(asked.teachers) == 1 else "teachers", "student"
    print("\n".join(table([_row(name, each) for name, each in zip(names, measured, strict=True)])))
    print(f"{same:.1%} of the translations are the same")
    report = dict(zip(names, [each.to_json() for each in measured], strict=True)) | {"same": round(same, 4)}
    write_text(asked.stages / "report.json", json.dumps(report, indent=1) + "\n")
    fastest = " --precision int8" if "int8" in available() else ""
    notice(f"{asked.out}: translate with `allyouneed translate {shlex.quote(str(asked.out))}{fastest}`")


def _row(name: str, measured: "ModelFigures") -> dict[str, str]:
    scores = {score.name: f"{score.value:.2f}" for score in measured.scores}
    return {
        "model": name,
        **scores,
        "weights": decimal(measured.num_bytes),
        "sentences/s": f"{measured.sentences_per_second:,.0f}",
        "alone": f"{measured.milliseconds_alone:.1f} ms",
    }
