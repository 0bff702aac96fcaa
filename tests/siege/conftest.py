"""The siege: runs cases one after the other, each in a folder and a process of its own, with limits.

The programs run as nobody where the tests are root's, so that none of them can harm the machine.
"""

import contextlib
import os
import shlex
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.forking.forker import Forker
from tests.siege.cases import Case
from tests.siege.judgement import Outcome, faults, snapshot
from tests.siege.stock import build_stock, give_away, take

Record = Callable[[str, object], None]
Fuzzed = Callable[[int], Case]
"""The case of a number, always the same."""

NOBODY = 65534
LIMITS = {"RLIMIT_CPU": 60, "RLIMIT_AS": 3 << 30, "RLIMIT_FSIZE": 1 << 30, "RLIMIT_CORE": 0}
"""Seconds and bytes; far more than any of the cases needs."""
ONLY = "ALLYOUNEED_SIEGE"
"""The variable that names the one case to be tried, as the message of a failure does."""


@dataclass
class Siege:
    """Tries cases, and keeps the folders of those that fail.

    Args:
        forker: Starts the programs.
        stock: What cases are made of; not to be changed.
        camp: Directory for the cases' folders, which every user may enter.
        kept: Directory for the folders of those that failed.
    """

    forker: Forker
    stock: Path
    camp: Path
    kept: Path
    tried: int = 0

    def hold(self, surface: str, table: Iterable[Case], fuzzed: Fuzzed, count: int, record: Record) -> None:
        """Try all of the table, and so many fuzzed cases; none may fail."""
        listed = [*table]
        cases = {f"{surface}-{case.name}": case for case in listed}
        assert len(cases) == len(listed), "two cases have one name"
        names = [*cases, *(f"{surface}-{number}" for number in range(count))]
        if only := os.environ.get(ONLY):
            names = [only] if only.startswith(f"{surface}-") else []
        failed = []
        for name in names:
            case = cases[name] if name in cases else fuzzed(int(name.rpartition("-")[2]))
            if found := self.tried_case(case):
                failed.append(f"{ONLY}='{name}': allyouneed {shown(case.arguments)}: {'; '.join(found)}")
        record("cases", len(names))
        assert not failed, f"{len(failed)} of {len(names)} failed; see {self.kept}\n" + "\n".join(failed)

    def tried_case(self, case: Case) -> list[str]:
        """What is wrong with what the program does in this case."""
        self.tried += 1
        folder = self.camp / f"case-{self.tried}"
        folder.mkdir()
        take(self.stock, {argument.split("/")[0] for argument in case.arguments} | {*case.needs}, folder)
        case.change(folder)
        give_away(folder, NOBODY)
        outcome = self.outcome(case, folder)
        found = faults(case, outcome)
        if found:
            kept = self.kept / folder.name
            shutil.move(folder, kept)
            for name in ("stdin", "stdout", "stderr"):
                shutil.copyfile(self.camp / name, kept / f"its-{name}")
            found.append(f"kept in {kept}")
        else:
            shutil.rmtree(folder, ignore_errors=True)  # some are gone, which is their point
        return found

    def outcome(self, case: Case, folder: Path) -> Outcome:
        """Run the program to its end."""
        streams = {name: self.camp / name for name in ("stdin", "stdout", "stderr")}
        for path in streams.values():
            path.write_bytes(b"")
        streams["stdin"].write_bytes(case.stdin)
        home = {"HOME": str(self.camp / "home"), "OMP_NUM_THREADS": "1", "COLUMNS": None}
        home["PATH"] = f"{self.camp / 'bin'}:{os.environ['PATH']}"
        settings: dict[str, Any] = {name: str(path) for name, path in streams.items()}
        settings |= {"folder": str(folder), "unprivileged": True, **case.settings}
        settings["environment"] = home | dict(case.settings.get("environment", {}))
        settings["limits"] = LIMITS | dict(case.settings.get("limits", {}))
        before = snapshot(folder)
        program = self.forker.start(*case.arguments, output=self.camp / "other", **settings)
        code = program.wait(may_sleep=False)
        stdout, stderr = (streams[name].read_bytes() for name in ("stdout", "stderr"))
        return Outcome(code, stdout, stderr, before, snapshot(folder))


def shown(arguments: Iterable[str]) -> str:
    """A command line for a message, in which nothing is long."""
    return " ".join(repr(a) if len(a) < 80 else f"{a[:60]!r}..({len(a):,} characters)" for a in arguments)


def make_compiler(folder: Path) -> None:
    """A compiler that is there first and does not optimise: kernels have to be there, and may be slow."""
    folder.mkdir()
    if compiler := shutil.which("cc"):
        (folder / "cc").write_text(f'#!/bin/sh\nexec {shlex.quote(compiler)} "$@" -O0\n')
        (folder / "cc").chmod(0o755)


@pytest.fixture(scope="session")
def siege(
    tmp_path_factory: pytest.TempPathFactory, forker: Forker, toy_text: Path, toy_treebank: Path
) -> Iterator[Siege]:
    """Everything that is needed to try cases."""
    folder = tmp_path_factory.mktemp("siege")
    camp = Path(tempfile.mkdtemp(prefix="allyouneed-siege-"))  # pytest's own folders are closed to nobody
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, camp)
        camp.chmod(0o711)
        (camp / "home").mkdir()
        give_away(camp / "home", NOBODY)
        make_compiler(camp / "bin")
        (folder / "stock").mkdir()
        (folder / "kept").mkdir()

        def allyouneed(*arguments: str) -> None:
            program = forker.start(*arguments, folder=str(folder / "stock"))
            assert program.wait() == 0, program.said()

        build_stock(folder / "stock", toy_text, toy_treebank, allyouneed)
        yield Siege(forker, folder / "stock", camp, folder / "kept")
