"""What every command promises whatever it is given, held against what one has done."""

import hashlib
import os
import re
import signal
import stat
from dataclasses import dataclass
from pathlib import Path

from tests.siege.cases import FILLED, Case

from allyouneed.storage.publish import MANIFEST

Snapshot = dict[str, tuple[object, ...]]
"""Path in the folder -> what is there."""

MAX_LINE_CHARACTERS = 2_000
"""A message that is longer repeats what it was given."""

OURS = "allyouneed: ", "libgomp: Invalid value for environment variable"
"""How messages begin. The second is said by a library when it is loaded, before any of our code runs."""

STEP = re.compile(r".*/(checkpoints|state)/step-[0-9]+")
"""The published directories of a run."""

_ENDED_BY = {
    -signal.SIGXCPU: "computed longer than it may: hangs",
    -signal.SIGKILL: "waited longer than it may: hangs, or was killed",
    -signal.SIGABRT: "aborted, as where memory is refused",
    -signal.SIGSEGV: "touched memory that is not there",
}


@dataclass(frozen=True)
class Outcome:
    """What a program has done."""

    code: int
    stdout: bytes
    stderr: bytes
    before: Snapshot
    after: Snapshot


def snapshot(folder: Path) -> Snapshot:
    """All that is in the folder: kind, permissions, and content, or where a link points to."""
    found: Snapshot = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        content: object = None
        if stat.S_ISLNK(status.st_mode):
            content = os.fsencode(path.readlink())
        elif stat.S_ISREG(status.st_mode):
            content = hashlib.sha256(path.read_bytes()).digest()
        found[path.relative_to(folder).as_posix()] = (oct(status.st_mode), content)
    return found


def faults(case: Case, outcome: Outcome) -> list[str]:
    """What is wrong with the outcome, in words."""
    said = outcome.stderr.decode(errors="backslashreplace")
    found = [*_of_the_code(case, outcome.code), *_of_the_files(case, outcome)]
    if not case.silent:
        found += _of_the_messages(case, outcome.code, said)
    if case.rows is not None:
        found += _of_the_rows(case.rows, outcome)
    return found


def _of_the_code(case: Case, code: int) -> list[str]:
    if code in case.codes:
        return []
    return [f"ended with {code} ({_ENDED_BY.get(code, 'an exit code')}), wanted {sorted(case.codes)}"]


def _of_the_messages(case: Case, code: int, said: str) -> list[str]:
    found = []
    lines = said.split("\n")
    if said and not said.endswith("\n"):
        found.append("the last message is no whole line")
    strange = [line for line in lines if line and not line.startswith(OURS)]
    if strange:
        found.append(f"said what is no message: {strange[0][:200]!r}, and {len(strange) - 1} more lines")
    if "E-INTERNAL" in said:
        found.append("an internal error: " + next(line for line in lines if "E-INTERNAL" in line)[:300])
    if any(len(line) > MAX_LINE_CHARACTERS for line in lines):
        found.append(f"said a line of {max(map(len, lines)):,} characters")
    if code in range(2, 10) and "allyouneed: error[" not in said:
        found.append(f"ended with {code} without an error message")
    if case.says and not re.search(case.says, said):
        found.append(f"did not say {case.says!r}: {said[-300:]!r}")
    return found


def _of_the_rows(rows: int, outcome: Outcome) -> list[str]:
    written = outcome.stdout.count(b"\n")
    if outcome.stdout and not outcome.stdout.endswith(b"\n"):
        return ["the last line of output is torn"]
    if b"allyouneed: " in outcome.stdout:
        return ["a message stands among the output"]
    if written > rows or (outcome.code in FILLED and written != rows):
        return [f"{written} lines of output for {rows} lines of input"]
    return []


def _of_the_files(case: Case, outcome: Outcome) -> list[str]:
    def is_target(name: str) -> bool:
        return any(name == target or name.startswith(f"{target}/") for target in case.targets)

    before, after = outcome.before, outcome.after
    found = [f"left {name} behind" for name in after if ".tmp-" in name and name not in before]
    found += [f"removed {name}" for name in before if name not in after and not is_target(name)]
    found += [f"made {name}" for name in after if name not in before and not is_target(name)]
    if outcome.code not in FILLED:
        targets = {name for name in before.keys() | after.keys() if is_target(name)}
        found += _half_made(case, before, after, targets)
    found += [
        f"changed {name}"
        for name in before
        if name in after and before[name] != after[name] and not is_target(name)
    ]
    return found[:5]


def _half_made(case: Case, before: Snapshot, after: Snapshot, targets: set[str]) -> list[str]:
    """What a command that has failed has left of its targets that is neither as it was, nor published whole.

    Runs, and outputs that are gone on with, may grow until a command fails; a step of a run may not.
    """
    whole = {parent(name) for name in after if name.endswith(f"/{MANIFEST}")}
    if case.arguments[0] == "train" or "--resume-output" in case.arguments:
        targets = {name for name in targets if STEP.fullmatch(parent(name))}
    return [
        f"failed, but made, changed or removed {name}"
        for name in sorted(targets)
        if before.get(name) != after.get(name)
        and not any(f"{name}/".startswith(f"{each}/") or each.startswith(f"{name}/") for each in whole)
    ]


def parent(name: str) -> str:
    return name.rpartition("/")[0]
