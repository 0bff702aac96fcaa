"""Finished rows as small files, so that a table can be computed piece by piece, on several machines.

FOLDER/NAME/experiment.json says what the rows are of, and FOLDER/NAME/ROW/seed-N.tar.xz is one row and seed:
its result, its translations, and the counts of each sentence, from which it can be compared. References are
left out, and so are trees, which repeat the sentences: corpora must not be redistributed with results.
"""

import contextlib
import hashlib
import io
import json
import lzma
import math
import re
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from allyouneed.errors import DataError, LockedError, UsageError
from allyouneed.lab.paper.experiment import (
    CURVE,
    DATE,
    FAILED,
    HYPOTHESES,
    MADE_OF,
    PICTURES,
    PROCESSOR,
    RATES,
    REFERENCES,
    RESULT,
    Experiment,
    kept_file,
)
from allyouneed.lab.paper.identity import (
    EXPERIMENT,
    OTHER_INPUTS,
    OTHER_REVISION,
    read_facts,
    read_json,
    require_same,
)
from allyouneed.lab.paper.scales import Scale
from allyouneed.lab.statistics.figure_tests import TESTS, find_test, kept_of, suffix_of
from allyouneed.storage.publish import discard, disk_errors, replaced_file, sha256_of, write_text
from allyouneed.storage.run_directory import RunDirectory
from allyouneed.tasks.catalogue import TASKS

_SUFFIX = ".tar.xz"
_NAMED_BY = "experiment", "scale"
"""Facts by which kept rows are found."""
_NAME = re.compile(r"[a-z0-9_]+\.(json|tsv|txt)")
_MOST_FILES, _MOST_BYTES = 100, 100_000_000
"""Most files of a row, and bytes of all of them, so that a hostile archive does not fill memory or disk."""
_FAULTS = (
    *(tarfile.TarError, lzma.LZMAError, EOFError, RecursionError, MemoryError),
    *(LookupError, ValueError, TypeError, AttributeError, OverflowError),
)
"""What reading a damaged or hostile archive can raise."""
_COSTS = {"seconds", "matmul_flops", "formula_flops", "energy_joules"}
_TOLERANCE = 0.01
"""By how much a kept score may differ from that of the kept counts, as losses are rounded."""
_LOG_OF_HUGE = 700.0
_MADE_FROM = "model", "rate-*/model", "silver"
"""Folders of a row that other rows are made from."""
_TEXTS = {PROCESSOR, DATE, "precision", "device"}


def require_keepable(experiment: Experiment, out: Path, folder: Path, facts: Mapping[str, Any]) -> None:
    """Check that rows of an experiment can be kept in `folder`, before any is computed.

    Raises:
        UsageError: Its rows draw pictures, or `folder` has rows of other settings or data under this name.
        DiskError: `folder` cannot be written.
    """
    if experiment.draws_pictures:
        raise UsageError(
            f"reproduce {experiment.name}: draws pictures, which are not kept; leave out keep",
            settings=["keep"],
        )
    require_same(folder / _name(out), facts, "keep")


def keep_rows(experiment: Experiment, scale: Scale, out: Path, folder: Path) -> list[Path]:
    """Keep the finished rows of an experiment that `folder` does not have yet.

    Rows that failed are not kept, as they may not fail elsewhere; nor are rows that were made of others than
    those in `folder`.

    Args:
        experiment: The experiment.
        scale: Its scale.
        out: Folder of an experiment; its name is that of the folder made in `folder`.
        folder: Folder of kept rows.

    Returns:
        The files written.

    Raises:
        DataError: A file of a row is damaged.
        DiskError: A file cannot be read or written.
    """
    place, written = folder / _name(out), list[Path]()
    names = [row.name for row in experiment.rows(scale)]
    found = [result for name in names for result in sorted((out / name).glob(f"seed-*/{RESULT}"))]
    for result in sorted(found, key=lambda result: MADE_OF in read_json(result)):  # the others come first
        row, figures = result.parent, read_json(result)
        kept = place / row.parent.name / f"{row.name}{_SUFFIX}"
        made_of = figures.get(MADE_OF, {})
        parts = {place / name / kept.name: sha256 for name, sha256 in made_of.items()}
        if kept.is_file() or FAILED in figures or not _are_kept(parts, experiment):
            continue
        packed = io.BytesIO()
        with tarfile.TarFile(fileobj=packed, mode="w") as archive:
            for name, content in _files(row).items():
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
        with disk_errors(kept):
            kept.parent.mkdir(exist_ok=True)
        with replaced_file(kept) as aside:
            aside.write_bytes(lzma.compress(packed.getvalue()))
        written.append(kept)
    return written


def find_kept(facts: Mapping[str, Any], out: Path, folder: Path) -> tuple[Path, dict[str, Any]]:
    """Find the kept rows of an experiment and scale, whatever the name of their folder.

    Of several, those are chosen whose other facts fit, and of these, those under the name of `out`.

    Args:
        facts: The identity of the experiment and scale, and of inputs that are given.
        out: The folder that the rows are taken up in.
        folder: A folder of kept rows of several experiments, or of one.

    Returns:
        The folder of the rows, and the facts that they share.

    Raises:
        UsageError: There are none, or they are of other settings or inputs, or several fit.
        DataError: None fit, and the record of some rows is damaged, which may be the ones.
    """
    found, damaged = _records(folder)
    named = " ".join(str(facts[name]) for name in _NAMED_BY)
    kept = {
        place: of for place, of in found.items() if all(of.get(name) == facts[name] for name in _NAMED_BY)
    }
    faults = {place: _other_facts(of, facts) for place, of in kept.items()}
    fitting = [place for place, fault in faults.items() if not fault]
    if damaged and not fitting:
        raise damaged[0]
    if not kept:
        there = sorted({" ".join(str(of.get(name)) for name in _NAMED_BY) for of in found.values()})
        told = f", only of {', '.join(there)}" if there else ""
        raise UsageError(
            f"{folder}: has no kept rows of {named}{told}; name another folder with from", settings=["from"]
        )
    if not fitting:
        raise UsageError(
            [f"{place}: has rows of {fault}" for place, fault in faults.items()], settings=["from"]
        )
    [place, *others] = [place for place in fitting if place.name == _name(out)] or fitting
    if others:
        raise UsageError(
            f"{' and '.join(map(str, [place, *others]))}: have rows of {named}; name one of them with from",
            settings=["from"],
        )
    return place, kept[place]


def _records(folder: Path) -> tuple[dict[Path, dict[str, Any]], list[DataError]]:
    """The facts of the rows in each folder, and the faults of records that are damaged."""
    found, damaged = dict[Path, dict[str, Any]](), list[DataError]()
    for record in sorted([*folder.glob(EXPERIMENT), *folder.glob(f"*/{EXPERIMENT}")]):
        try:
            found[record.parent] = {"revision": 1, "settings": None} | read_facts(record)
        except DataError as error:
            damaged.append(error)
    return found, damaged


def _other_facts(kept: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    """The first difference of kept rows from the facts, with what to do about it; empty if there is none."""
    for name, value in facts.items():
        if kept.get(name, value) != value:
            if name in OTHER_INPUTS:
                return f"{OTHER_INPUTS[name]}; give theirs, or leave out from"
            told = OTHER_REVISION if name == "revision" else "other settings"
            return f"{told}; name another folder with from"
    return ""


def kept_files(place: Path) -> list[Path]:
    """The files of the rows kept in `place`."""
    return sorted(place.glob(f"*/seed-*{_SUFFIX}"))


def take_up(experiment: Experiment, out: Path, place: Path) -> None:
    """Unpack the rows kept in `place` that are not finished in `out`.

    Rows that another process computes are left to it. A row made of others is taken up if it was
    made of the results in `out`.

    Raises:
        DataError: A kept row is damaged.
        DiskError: A file cannot be read or written.
    """
    waiting: list[tuple[Path, dict[str, bytes], dict[str, str]]] = []
    for kept in kept_files(place):
        row = out / kept.parent.name / kept.name.removesuffix(_SUFFIX)
        if not (row / RESULT).is_file():
            contents = _contents(kept, experiment)
            waiting.append((row, contents, json.loads(contents[RESULT]).get(MADE_OF, {})))
    for row, contents, made_of in sorted(waiting, key=lambda of_row: bool(of_row[2])):
        parts = {name: out / name / row.name / RESULT for name in made_of}
        if any(not part.is_file() or sha256_of(part) != made_of[name] for name, part in parts.items()):
            continue
        with contextlib.suppress(LockedError), RunDirectory(row).locked():
            if (row / RESULT).is_file():
                continue
            _forget_leftovers(row)
            if made_of:
                write_text(row / f"{MADE_OF}.json", json.dumps(made_of) + "\n")
            for name in sorted(contents, key=lambda name: name == RESULT):  # it says that the row is done
                with replaced_file(row / name) as aside:
                    aside.write_bytes(contents[name])


def _forget_leftovers(row: Path) -> None:
    """Remove what an interrupted computation of a row has written, which would count as the kept row's.

    So do its models, of which ensembles and silver trees are made.
    """
    for pattern in _MADE_FROM:
        for folder in row.glob(pattern):
            discard(folder)
    for name in (HYPOTHESES, REFERENCES, *(test.kept for test in TESTS.values())):
        for file in row.glob(f"{Path(name).stem}*{Path(name).suffix}"):
            with disk_errors(file):
                file.unlink()


def _name(out: Path) -> str:
    return out.resolve().name


def _files(row: Path) -> dict[str, bytes]:
    """Name -> content of what is kept of a row and seed."""
    files = {RESULT: (row / RESULT).read_bytes()}
    for figure in read_json(row / RESULT):
        kept, test = kept_of(figure, row), find_test(figure)
        if kept is None or test is None:
            continue
        if len(kept.lines) == 1:
            files[kept.name] = kept.files[0].read_bytes()
        else:
            lines = ("\t".join(map(str, counts)) for counts in kept.counts().tolist())
            files[kept.name] = "".join(f"{line}\n" for line in lines).encode()
        if test.outputs_are_ours and kept.outputs.is_file():
            files[kept.outputs.name] = kept.outputs.read_bytes()
    return files


def _are_kept(parts: Mapping[Path, str], experiment: Experiment) -> bool:
    """Whether kept rows have results with these sha256."""
    return all(
        kept.is_file() and hashlib.sha256(_contents(kept, experiment)[RESULT]).hexdigest() == sha256
        for kept, sha256 in parts.items()
    )


def _contents(kept: Path, experiment: Experiment) -> dict[str, bytes]:
    """Name -> content of the files of a kept row, checked."""
    found: dict[str, bytes] = {}
    with disk_errors(kept):
        packed = kept.read_bytes()
    try:
        unpacking = lzma.LZMADecompressor(memlimit=_MOST_BYTES)
        unpacked = unpacking.decompress(packed, _MOST_BYTES)
        with tarfile.TarFile(fileobj=io.BytesIO(unpacked)) as archive:
            for member in archive:
                is_whole = 0 <= member.size <= len(unpacked) and not member.issparse()
                if not (member.isreg() and is_whole and _NAME.fullmatch(member.name)):
                    raise tarfile.ReadError(f"{member.name} is not a file of a row")
                if len(found) == _MOST_FILES:
                    raise tarfile.ReadError("more files than a row has")
                content = archive.extractfile(member)
                assert content is not None
                found[member.name] = content.read()
        if not unpacking.eof:
            raise EOFError
        _check(json.loads(found[RESULT]), found, experiment)
    except _FAULTS:
        raise DataError(f"{kept}: is damaged; restore it, or remove it to compute the row again") from None
    return found


def _check(result: Any, found: Mapping[str, bytes], experiment: Experiment) -> None:
    """Raise one of `_FAULTS` unless figures, texts, curves, rates and counts are such as a row writes."""
    _require(isinstance(result, dict) and not {PICTURES, FAILED} & result.keys())
    _require(any(name in experiment.figures for name in result))
    for name, value in result.items():
        if name in experiment.figures or name in _COSTS:
            _require(value is None or value == "inf" or _is_number(value))  # JSON has no infinity
        elif name in _TEXTS:
            _require(isinstance(value, str))
    made_of, rates = result.get(MADE_OF, {}), result.get(RATES, {})
    _require(all(isinstance(named, dict) for named in (made_of, rates)))
    _require(all(isinstance(sha256, str) for sha256 in made_of.values()))
    for curve in [of_rate[CURVE] for of_rate in rates.values() if FAILED not in of_rate] + (
        [result[CURVE]] if CURVE in result else []
    ):
        scores = [task.score for task in TASKS.values() if task.score in curve]
        columns = [curve[name] for name in ("step", "seconds", "matmul_flops", "perplexity", *scores)]
        _require(all(len(column) == len(columns[0]) and all(map(_is_number, column)) for column in columns))
    for figure in result.keys() & experiment.figures.keys():
        test = find_test(figure)
        if test is not None and (kept := found.get(kept_file(test.kept, suffix_of(figure)).name)):
            counts = test.read(kept.decode().removesuffix("\n").split("\n"))
            found_score, of_counts = test.scale(result[figure]), test.score(counts.sum(axis=0))
            is_huge = found_score == math.inf and of_counts > _LOG_OF_HUGE  # a perplexity that overflows
            _require(is_huge or math.isclose(found_score, of_counts, abs_tol=_TOLERANCE))


def _require(is_so: bool) -> None:
    if not is_so:
        raise ValueError("not such as a row writes it")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)
