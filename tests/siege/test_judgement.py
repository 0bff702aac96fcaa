"""The judgement finds what it is there to find: half of a target that a command has left as it failed."""

import pytest
from tests.siege.cases import Case
from tests.siege.judgement import Outcome, Snapshot, faults

HALF: Snapshot = {"new": ("0o40755", None), "new/weights": ("0o100644", b"half")}
WHOLE: Snapshot = HALF | {"new/MANIFEST.json": ("0o100644", b"{}")}
STEP: Snapshot = {f"new/state/step-00000002{name[3:]}": file for name, file in HALF.items()}


@pytest.mark.parametrize(
    ("arguments", "before", "after", "code", "is_found"),
    [
        (("average",), {}, HALF, 6, True),
        (("average",), {}, HALF, 0, False),
        (("average",), {}, WHOLE, 141, False),
        (("average",), {}, {"new": ("0o40755", None)}, 6, True),
        (("average",), HALF, HALF, 6, False),
        (("average",), HALF, HALF | {"new/weights": ("0o100644", b"other")}, 6, True),
        (("average",), HALF, {}, 6, True),
        (("train",), {}, HALF, 6, False),
        (("train",), {}, STEP, 6, True),
        (("translate", "--resume-output"), {}, HALF, 6, False),
    ],
)
def test_a_target_is_as_it_was_or_whole_where_a_command_has_failed(
    arguments: tuple[str, ...], before: Snapshot, after: Snapshot, code: int, is_found: bool
) -> None:
    """Promise: Siege."""
    case = Case("a case", arguments, targets=("new",), silent=True)
    found = faults(case, Outcome(code, b"", b"", before, after))
    assert bool(found) is is_found, found
