"""Files of pairs in several directions, named as in `en-de=FILE`, and how often each pair is wanted."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from allyouneed.errors import UsageError
from allyouneed.language_codes import Direction, are_same, codes_of_direction, is_language_code, standard_code

TEMPERATURE: Final = 5.0
"""Default of sampling over directions, as in Arivazhagan et al. (2019): small ones are seen more often."""
Name = TypeVar("Name")
_FORM = "SOURCE-TARGET=FILE, such as en-de=train.tsv or en-pt_BR=train.tsv"


class ReadingOrder(NamedTuple):
    """The direction in which a file of pairs is read."""

    source: str
    """Code of the source language, such as "en"."""
    target: str
    """Code of the target language."""
    is_swapped: bool = False
    """Whether the columns of the file are in the other order."""

    @property
    def direction(self) -> Direction:
        """The codes, whatever their spelling."""
        return standard_code(self.source), standard_code(self.target)


def named_files(given: Sequence[Path], *, both: bool = False) -> tuple[list[Path], list[ReadingOrder]]:
    """The files of arguments like `en-de=FILE`, and how each is read; no readings of files without names.

    Args:
        given: Arguments of the command line.
        both: Whether each file is also read in the other direction, as another entry after it.

    Raises:
        UsageError: Some files have names and others have not, or a name has one language twice, or files
            without names are to be read in both directions.
    """
    found = [_split(str(argument)) for argument in given]
    named = [(file, reading) for file, reading in found if reading]
    if both and not named:
        raise UsageError(f"both_directions: is for named files; write {_FORM}", settings=["both_directions"])
    if named and (bare := [str(file) for file, reading in found if not reading]):
        raise UsageError(f"{bare[0]}: has no direction, but other files have; write {_FORM}")
    swapped = [(file, ReadingOrder(target, source, True)) for file, (source, target, _) in named]
    entries = [each for pair in zip(named, swapped, strict=True) for each in pair[: 1 + both]]
    return [file for file, _ in entries] or [*given], [reading for _, reading in entries]


def _split(argument: str) -> tuple[Path, ReadingOrder | None]:
    """The file of an argument, and its reading, if its name is that of a direction."""
    name, _, file = argument.partition("=")
    codes = codes_of_direction(name)
    if codes is None or not all(map(is_language_code, codes)) or not file:
        return Path(argument), None
    if are_same(*codes):
        raise UsageError(f"{argument}: has one language twice; write {_FORM}")
    return Path(file), ReadingOrder(*codes)


def tempered_weights(sizes: Mapping[Name, int], temperature: float, most: float) -> dict[Name, float]:
    """How often each pair of a direction is wanted, so that shares are proportional to size^(1/temperature).

    The pairs of the largest direction are wanted once, and none more than `most` times.

    Raises:
        UsageError: The temperature is below 1.
    """
    if not temperature >= 1:
        raise UsageError(
            f"temperature {temperature:g}: give 1, by which nothing is repeated, or more",
            settings=["temperature"],
        )
    largest = max(sizes.values(), default=1)
    return {
        each: min(most, (largest / max(1, size)) ** (1 - 1 / temperature)) for each, size in sizes.items()
    }
