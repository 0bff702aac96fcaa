"""Standard descriptors that are closed, full, or something else: lines of output stay lines of output."""

import itertools
import random

import pytest
from tests.forking.forker import CLOSED
from tests.siege.cases import FILLED, Case, parse, prepare, train, translate
from tests.siege.conftest import Record, Siege

ODD = {"closed": CLOSED, "full": "/dev/full", "nothing": "/dev/null", "as it is": None}
BAD = b"sun\n\xff\nmoon\n"
"""Three lines of which one is an error."""
COMMANDS = {
    "translate": translate("", stdin=BAD),
    "translate jsonl": translate("", "--jsonl", stdin=b'{"text": "sun"}\n{\n'),
    "parse": parse("", stdin=BAD),
    "score": Case("", ("score", "model", "--source", "text.en", "--target", "text.toy"), rows=60),
    "plan": Case("", ("plan",)),
    "help": Case("", ("--help",)),
    "version": Case("", ("--version",)),
    "wrong": Case("", ("plan", "--nothing")),
    "verify": Case("", ("verify", "model")),
    "doctor": Case("", ("doctor",)),
    "train": train("", "--steps", "1"),
    "prepare": prepare("", "--pairs", "pairs.tsv", "--vocab-size", "280"),
    "evaluate": Case("", ("evaluate", "model", "--source", "text.en", "--reference", "text.toy")),
    "attend": Case("", ("attend", "model", "sun moon")),
    "cost": Case("", ("cost", "run")),
    "average": Case("", ("average", "run", "--out", "new"), targets=("new",)),
}


def redirected(
    command: str, stdin: str = "as it is", stdout: str = "as it is", stderr: str = "as it is"
) -> Case:
    """The command with its descriptors as named."""
    case = COMMANDS[command]
    chosen = {"stdin": ODD[stdin], "stdout": ODD[stdout], "stderr": ODD[stderr]}
    streams = {name: path for name, path in chosen.items() if path is not None}
    unseen = "stdout" in streams or "stdin" in streams
    name = f"{command} with {stdin}, {stdout}, {stderr}"
    return Case(
        **{
            **vars(case),
            **{"name": name, "settings": streams, "silent": "stderr" in streams},
            "rows": None if unseen else case.rows,
        }
    )


TABLE = [
    *(redirected(command, stderr=odd) for command in COMMANDS for odd in ("closed", "full")),
    *(redirected(command, stdout=odd) for command in COMMANDS for odd in ("closed", "full")),
    *(
        redirected(command, stdin=odd)
        for command in ("translate", "parse", "plan", "train")
        for odd in ("closed", "nothing")
    ),
    redirected("translate", stdin="closed", stdout="closed", stderr="closed"),
    redirected("wrong", stdin="closed", stdout="closed", stderr="closed").ending(2),
]
for _place, _case in enumerate(TABLE):
    if _case.arguments[0] in ("translate", "parse") and set(_case.settings) == {"stderr"}:
        TABLE[_place] = _case.ending(*FILLED)  # nothing stops work for want of messages


def fuzzed(number: int) -> Case:
    """Any command with any descriptors."""
    draw = random.Random(f"descriptors-{number}")
    streams = list(
        itertools.product(["closed", "nothing", "as it is"], *[["closed", "full", "nothing", "as it is"]] * 2)
    )
    return redirected(draw.choice(sorted(COMMANDS)), *draw.choice(streams))


@pytest.mark.parametrize("count", [5, pytest.param(500, marks=pytest.mark.release)])
def test_no_descriptor_breaks_a_command(siege: Siege, count: int, record_property: Record) -> None:
    """Promise: Siege."""
    siege.hold("descriptors", TABLE, fuzzed, count, record_property)
