"""Programs written for a release go on running: griffe compares its public names with those of the sources.

`version_0_1/api.txt` has the names of 0.1; `python -m tests.compatibility.test_public_api_of_the_release`
writes them anew, which only a release does.
"""

from pathlib import Path

import griffe
import pytest
from tests.docs.public_api import stub

RELEASED = Path(__file__).parent / "version_0_1" / "api.txt"
_ALLOWED = {griffe.BreakageKind.PARAMETER_CHANGED_DEFAULT, griffe.BreakageKind.ATTRIBUTE_CHANGED_VALUE}
"""Changes that the promise allows with an entry in the changelog."""


def broken(new: str) -> list[str]:
    """What a program for the release would stumble on."""
    modules = [griffe.visit("allyouneed", filepath=RELEASED, code=code) for code in (_released(), new)]
    found = griffe.find_breaking_changes(*modules)
    return [f"{each.obj.path}: {each.kind.value}" for each in found if each.kind not in _ALLOWED]


def _released() -> str:
    return RELEASED.read_bytes().decode()


def test_no_public_name_or_parameter_of_the_release_is_gone() -> None:
    assert broken(stub()) == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("threads: int = 1, shortlist", "shortlist", "load_translator"),
        ("class Translation()", "class Translated()", "Translation"),
        ("    log_prob: float\n", "", "PairScore.log_prob"),
        ("continue_from(model:", "continue_from(place:", "continue_from"),
        ("into(language: str, source", "into(language: str, must: bool, source", "Translator.into"),
    ],
)
def test_a_break_is_found(old: str, new: str, said: str) -> None:
    assert old in _released()
    assert any(said in each for each in broken(_released().replace(old, new)))


def test_a_new_option_is_no_break() -> None:
    wider = _released().replace("n_best: int = 1,", "n_best: int = 1, new: bool = False,")
    assert wider != _released()
    assert broken(wider) == []


if __name__ == "__main__":
    RELEASED.write_bytes(stub().encode())
