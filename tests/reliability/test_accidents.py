"""What else befalls a program: stops, storms of signals, leaps of its clock, the loss of its folder."""

import random
import shutil
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from allyouneed.config.run import DataConfig
from allyouneed.data.corpus_files import CorpusFiles
from allyouneed.preparation.preparing import prepare

if TYPE_CHECKING:
    from tests.forking.forker import Program
    from tests.reliability.conftest import Laboratory

Record = Callable[[str, object], None]
HARMLESS = (signal.SIGWINCH, signal.SIGCHLD, signal.SIGURG, signal.SIGCONT, signal.SIGPIPE)


@pytest.mark.parametrize("stops", [20, pytest.param(200, marks=pytest.mark.release)])
def test_a_run_that_is_stopped_and_continued_again_and_again_ends_with_the_same_bits(
    laboratory: "Laboratory", tmp_path: Path, stops: int, record_property: Record
) -> None:
    """Promise: Disturbance."""
    run = tmp_path / "run"
    program = laboratory.start(run, paused=True)
    for _ in range(stops):
        program.signal(signal.SIGCONT)
        time.sleep(random.uniform(0, 0.02))
        program.signal(signal.SIGSTOP)
    program.signal(signal.SIGCONT)
    assert program.wait() == 0, program.said()
    assert laboratory.bits(run) == laboratory.bits(laboratory.whole)
    record_property("SIGSTOP", stops)


@pytest.mark.parametrize("storms", [3, pytest.param(30, marks=pytest.mark.release)])
def test_a_storm_of_signals_leaves_a_run_that_ends_with_the_same_bits(
    laboratory: "Laboratory", tmp_path: Path, storms: int, record_property: Record
) -> None:
    """Promise: Disturbance."""
    for number in range(storms):
        run = tmp_path / f"run-{number}"
        program = laboratory.start(run)
        laboratory.wait_for(run, "train", random.randrange(1, 20))
        for _ in range(200):
            program.signal(random.choice(HARMLESS))
        for _ in range(5):
            program.signal(random.choice([signal.SIGTERM, signal.SIGINT]))
        assert program.wait() in (130, 143), program.said()
        assert "Traceback" not in program.said()
        assert not list(run.rglob("*.tmp-*"))
        laboratory.require_sound(run)
        laboratory.finish(run)
    record_property("storms of 205 signals", storms)


def test_a_run_whose_clock_leaps_ends_with_the_same_bits(laboratory: "Laboratory", tmp_path: Path) -> None:
    """Promise: Disturbance."""
    run = tmp_path / "run"
    program = laboratory.forker.start(*laboratory.arguments(run), clock_leaps=True)
    assert program.wait() == 0, program.said()
    assert laboratory.bits(run) == laboratory.bits(laboratory.whole)


@pytest.mark.parametrize("what", ["run", "run/checkpoints", "run/state"])
def test_a_run_whose_folder_is_deleted_says_so_and_ends(
    laboratory: "Laboratory", tmp_path: Path, what: str
) -> None:
    """Promise: Place."""
    program = laboratory.start(tmp_path / "run")
    laboratory.wait_for(tmp_path / "run", "checkpoint", 10)
    program.signal(signal.SIGSTOP)
    shutil.rmtree(tmp_path / what)
    program.signal(signal.SIGCONT)
    code = program.wait()
    assert code == 6 if what == "run" else code in (0, 6), program.said()
    assert "Traceback" not in program.said()
    assert code == 0 or len(program.errors()) == 1
    assert not list(tmp_path.rglob("*.tmp-*"))
    assert what != "run" or not (tmp_path / "run").exists()


def test_a_process_of_a_run_that_has_other_data_is_refused_before_anything_is_learned(
    laboratory: "Laboratory", toy_text: Path, tmp_path: Path
) -> None:
    """Promise: Faulty processes."""
    files = CorpusFiles(toy_text / "valid.en", toy_text / "valid.toy")
    prepare(tmp_path / "other", files, CorpusFiles(), DataConfig(tokenizer="byte"))
    programs = started_together(
        laboratory, tmp_path / "run", [laboratory.folder / "data", tmp_path / "other"]
    )
    codes = [program.wait() for program in programs]
    said = "".join(program.said() for program in programs)
    assert 3 in codes, said
    assert "process 1 has other data than process 0" in said
    assert "Traceback" not in said
    assert laboratory.logged(tmp_path / "run", "train") == []


def started_together(laboratory: "Laboratory", run: Path, data: list[Path]) -> list["Program"]:
    """The processes of one run, as `torchrun` starts them, each with data of its own."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    together = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(len(data))}
    return [
        laboratory.forker.start(
            *(
                "train",
                run,
                "--data",
                its_data,
                "--config",
                laboratory.folder / "config.toml",
                "--device",
                "cpu",
            ),
            environment=together | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank, its_data in enumerate(data)
    ]
