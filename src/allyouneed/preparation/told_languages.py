"""The directions of data for a model of several languages, and the symbols before their sources."""

from collections.abc import Callable, Iterable

from allyouneed.config.run import DataConfig
from allyouneed.data.corpus import Pair, Reader
from allyouneed.data.tokenizer import Tokenizer, split_symbol
from allyouneed.errors import DataError, UsageError
from allyouneed.language_codes import Direction
from allyouneed.tasks.task import Units


def with_directions(config: DataConfig, train: Reader, valid: Reader, units: Units | None) -> DataConfig:
    """The settings of data with the languages that files are named after.

    Data that continue a model, which has `units`, keep its directions, too.

    Raises:
        UsageError: Held-out files have a direction that training files lack, or only one of both have names;
            or the model cannot be told which language to write.
    """
    names = train.directions
    if valid and (bool(names) != bool(valid.directions) or {*valid.directions} - {*names}):
        of_both = [", ".join(map("-".join, each.directions)) or "none" for each in (valid, train)]
        raise UsageError(
            f"valid_pairs: their directions are {of_both[0]}, those of training are {of_both[1]}; name both, "
            "as in en-de=FILE, and validate what is trained",
            settings=["valid_pairs"],
        )
    if not names:
        return config
    known = tuple(dict.fromkeys([*config.directions, *names]))
    sources, targets = ({*side} for side in zip(*known, strict=True))
    if units and len(targets) > 1 and not units.symbols:
        raise UsageError(
            "tokenizer_from: its model writes one language; leave it out to learn several",
            settings=["tokenizer_from"],
        )
    return config.replace(
        source_language=sources.pop() if len(sources) == 1 else "",
        target_language=targets.pop() if len(targets) == 1 else "",
        directions=known if len(known) > 1 or (units and units.symbols) else (),
    )


def marking(units: Units, directions: Iterable[Direction]) -> Callable[[Pair], Pair]:
    """A function that puts the symbol of the target before the source of a pair, for a model of several.

    It raises DataError for a pair without a direction, whose source does not begin with a symbol either.

    Raises:
        UsageError: The vocabulary has symbols, but not of one of the targets.
    """
    if not units.symbols:
        return lambda pair: pair
    assert isinstance(units.source, Tokenizer)
    symbols = {each: units.source.symbol_of(each[1]) for each in directions}

    def marked(pair: Pair) -> Pair:
        if pair.direction:
            return pair._replace(source=f"{symbols[pair.direction]} {pair.source}")
        if len(units.symbols) > 1 and not split_symbol(pair.source, units.symbols)[0]:
            known = " or ".join(units.symbols)
            raise DataError(
                f"{pair.file}:{pair.line_number}: does not begin with {known}; name its direction, pairs "
                "en-de=FILE",
                settings=["pairs"],
            )
        return pair

    return marked
