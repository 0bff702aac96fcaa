"""The files that commands read: corpora for `prepare`, and held-out text that is translated and scored."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from allyouneed.cli.shared_options import AtLeastOne, Finite, Share, between
from allyouneed.data.lines import read_aligned
from allyouneed.errors import UsageError, notice

if TYPE_CHECKING:
    from allyouneed.config.run import DataConfig
    from allyouneed.data.corpus import Reader
    from allyouneed.data.corpus_files import CorpusFiles
    from allyouneed.data.directed_pairs import ReadingOrder
    from allyouneed.data.public_corpora import PublicCorpus
    from allyouneed.data.tab_separated import Columns
    from allyouneed.language_codes import Direction
    from allyouneed.tasks.task import Task


_BAD_SHARE = 0.01
_FILES = (
    *("source", "target", "pairs", "valid_source", "valid_target", "valid_pairs"),
    *("trees", "valid_trees", "silver_trees"),
)
_OF_DIRECTIONS = "both_directions", "temperature"
_OF_PAIRS = (
    *("corpus", "on_bad_line", "max_bad_share", "max_bytes", "drop_copies", "keep_repeats", "weights"),
    *("columns", "score_column", "min_score", "languages", *_OF_DIRECTIONS),
)
"""Options that are not for trees."""

Files = Annotated[tuple[Path, ...], Parameter(consume_multiple=True, show_default=False)]


@Parameter(name="*")
@dataclass(frozen=True)
class CorpusOptions:
    """Training text and held-out text."""

    source: Files = ()
    """Training text in the source language, one sentence per line."""
    target: Files = ()
    """Its translation, line by line."""
    pairs: Files = ()
    """Lines of source TAB target, or translation memories (TMX), instead of `--source` and `--target` or in
    addition to them. A TMX needs `--source-language` and `--target-language`. For a model of several
    directions, `en-de=FILE en-fr=FILE`: the languages of the first and the second column."""
    valid_source: Files = ()
    """Held-out source text, to validate with during training."""
    valid_target: Files = ()
    """Its translation, line by line."""
    valid_pairs: Files = ()
    """Lines of source TAB target, or translation memories, instead of `--valid-source` and `--valid-target`
    or in addition to them; `en-de=FILE` if `--pairs` are named."""
    both_directions: bool = False
    """Read each file of `--pairs en-de=FILE` and `--valid-pairs en-de=FILE` as de-en, too."""
    temperature: Finite | None = None
    """With several directions, repeat pairs of small ones until the shares of all are proportional to
    size^(1/T), by default 5; 1 repeats nothing. Instead of `--weights`."""
    corpus: str | None = None
    """A corpus of the paper, `wmt14-en-de` or `wmt14-en-fr`, whose files are in `--from`, instead of the
    options above. The preset and the languages are then its own, and `--on-bad-line` is drop."""
    from_: Annotated[Path | None, Parameter(name="--from")] = None
    """Folder with the files of `--corpus`, unpacked as WMT 2014 has published them."""
    on_bad_line: Literal["error", "drop"] | None = None
    """Treatment of a line of sentence pairs that is not UTF-8, has a NUL, or has no tab: end with an
    error, which is the default, or drop its pair."""
    max_bad_share: Share | None = None
    """Share of the lines of a file that `--on-bad-line drop` may drop, from 0 to 1, by default 0.01. A file
    of which most of the first lines are bad is not read to its end."""
    max_bytes: AtLeastOne | None = None
    """Most bytes of text in a file of sentence pairs; a file with more is an error. For compressed files from
    strangers, which may expand to any size."""
    drop_copies: bool = False
    """Drop pairs whose translation is the source itself, which teach a model to copy; they are counted in any
    case."""
    keep_repeats: bool = False
    """Keep training pairs that have come before; by default the first one stays, and the others are counted.
    Held-out text is kept as it is."""
    weights: Annotated[tuple[float, ...], Parameter(consume_multiple=True, show_default=False)] = ()
    """How often each training pair is wanted, for each source file and then each file of pairs, from 0 to
    1,000; by default once. 2.5 writes each pair twice, and about half of them a third time."""
    columns: tuple[AtLeastOne, AtLeastOne] | None = None
    """The columns of `--pairs` and `--valid-pairs` (not TMX) with source and target, by default 1 and 2."""
    score_column: AtLeastOne | None = None
    """Column of `--pairs` with a score that another program gave the pair, such as Bicleaner."""
    min_score: Finite | None = None
    """Drop training pairs with a lower score in `--score-column`."""
    languages: tuple[str, str] | None = None
    """Languages of source and target, such as `en de`. Drop training pairs of which a side is in another one;
    the detector is slow (`pip install 'allyouneed[languages]'`)."""
    trees: Files = ()
    """Training trees in Penn brackets (`--task parsing`)."""
    valid_trees: Files = ()
    """Held-out trees."""
    silver_trees: Files = ()
    """Additional trees that a parser made from raw text (`allyouneed parse --min-confidence`)."""
    repeat_trees: AtLeastOne = 1
    """Number of copies of each tree of `--trees`, to set their share relative to silver trees."""
    exchange: Annotated[int, between(0, 1_000_000_000)] = 0
    """Number of new trees made from `--trees` by replacing a constituent with another of the same label."""

    def readers(self, task: "Task", config: "DataConfig") -> tuple["Reader", "Reader"]:
        """Readers of the training files and of the validation files.

        Raises:
            UsageError: Files are given that the task does not read.
        """
        from allyouneed.data.corpus_files import CorpusFiles
        from allyouneed.data.directed_pairs import named_files
        from allyouneed.tasks.parsing.treebank import TreeFiles

        if not task.reads_pairs:
            default, own = CorpusOptions(), asdict(self)
            given = (name for name in _OF_PAIRS if own[name] != getattr(default, name))
            refuse(given, "for sentence pairs only")
        share, columns = self._share_to_drop(), self._columns()
        filters: dict[str, Any] = {"drop_copies": self.drop_copies, "drop_repeats": not self.keep_repeats}
        filters |= {"max_bytes": self.max_bytes, "weights": self.weights, "languages": self.languages}
        if (public := self.public_corpus()) and self.from_:
            train, valid = public.files(self.from_)
            if self.on_bad_line is not None:
                filters["max_bad_share"] = share
            return replace(train, **filters), replace(valid, max_bytes=self.max_bytes)
        of_both: dict[str, Any] = {"max_bad_share": share, "max_bytes": self.max_bytes}
        of_both["sides_are_alike"] = task.sides_are_alike
        of_both |= {"source_language": config.source_language, "target_language": config.target_language}
        pairs, readings = named_files(self.pairs, both=self.both_directions)
        of_train = {"pairs": pairs, "readings": readings, "columns": columns, **of_both, **filters}
        train_pairs = self._tempered(CorpusFiles(self.source, self.target, **of_train))
        unscored = replace(columns, score=None, min_score=-math.inf)
        both = self.both_directions and bool(self.valid_pairs)
        pairs, readings = named_files(self.valid_pairs, both=both)
        of_valid = {"pairs": pairs, "readings": readings, "columns": unscored, **of_both}
        valid_pairs = CorpusFiles(self.valid_source, self.valid_target, **of_valid)
        train_trees = TreeFiles(self.trees, self.silver_trees, self.repeat_trees, self.exchange)
        valid_trees = TreeFiles(self.valid_trees)
        if not task.reads_pairs:
            if train_pairs or valid_pairs:
                raise UsageError(f"--task {task.name} reads --trees and --valid-trees, not sentence pairs")
            return train_trees, valid_trees
        if (train_trees, valid_trees) != (TreeFiles(), TreeFiles()):
            raise UsageError(
                "--trees and related options are for parsers; add --task parsing, or leave them out"
            )
        return train_pairs, valid_pairs

    def _tempered(self, files: "CorpusFiles") -> "CorpusFiles":
        """The files, with weights by `--temperature` if they have several directions and no `--weights`."""
        from allyouneed.data.directed_pairs import TEMPERATURE

        if self.weights or len(files.directions) < 2:
            if self.temperature is not None:
                raise UsageError("--temperature: is for several directions, without --weights; leave it out")
            num_each = 1 + self.both_directions
            return replace(files, weights=[weight for weight in self.weights for _ in range(num_each)])
        files.require_usable()
        temperature = TEMPERATURE if self.temperature is None else self.temperature
        found = files.tempered(temperature)
        if any(weight > 1 for weight in found.weights):
            wanted = {"-".join(each): f"{n:.3g}" for (_, each), n in found.weights_by_file().items() if each}
            told = ", ".join(f"{name} {weight}" for name, weight in wanted.items())
            notice(f"--temperature {temperature:g} wants each pair so often: {told}")
        return found

    def public_corpus(self) -> "PublicCorpus | None":
        """The corpus of `--corpus`, which has to be known, and given with its folder and no other files."""
        from allyouneed.data.public_corpora import public_corpus

        if self.corpus is None:
            if self.from_:
                raise UsageError("--from: belongs to --corpus; add it, or leave this out")
            return None
        found, own = public_corpus(self.corpus), asdict(self)
        if others := [f"--{name.replace('_', '-')}" for name in (*_FILES, *_OF_DIRECTIONS) if own[name]]:
            raise UsageError(
                f"--corpus {self.corpus}: has files of its own; leave out {' and '.join(others)}"
            )
        if self.from_ is None:
            raise UsageError(f"--corpus {self.corpus}: name the folder with its files by --from")
        return found

    def _columns(self) -> "Columns":
        from allyouneed.data.tab_separated import FIRST_TWO

        if (self.score_column is None) != (self.min_score is None):
            raise UsageError("--score-column and --min-score belong together; give both, or neither")
        if (self.columns and not (self.pairs or self.valid_pairs)) or (self.score_column and not self.pairs):
            raise UsageError("--columns and --score-column are about --pairs; give that, or leave them out")
        source, target = self.columns or (FIRST_TWO.source, FIRST_TWO.target)
        if len({source, target, self.score_column}) < 3:
            raise UsageError("--columns and --score-column: name one column twice; give different ones")
        least = FIRST_TWO.min_score if self.min_score is None else self.min_score
        return replace(FIRST_TWO, source=source, target=target, score=self.score_column, min_score=least)

    def _share_to_drop(self) -> float | None:
        if self.on_bad_line == "drop":
            return _BAD_SHARE if self.max_bad_share is None else self.max_bad_share
        if self.max_bad_share is not None:
            raise UsageError("--max-bad-share: belongs to --on-bad-line drop; add it, or leave this out")
        return None


def refuse(names: Iterable[str], fault: str) -> None:
    """Reject the options of these names, if there are any, as they would do nothing."""
    if options := [f"--{name.replace('_', '-')}" for name in names]:
        raise UsageError(f"{' and '.join(options)}: {fault}; leave out")


def read_held_out(
    source: Path | None, references: Sequence[Path] | None, pairs: Path | None, model: Path
) -> tuple[list[str], ...]:
    """The sources, and one or more lists of references; an error if they are not given, or not readable."""
    if pairs is not None and source is None and references is None:
        return read_pairs_for(model, pairs)
    if pairs is not None or source is None or references is None:
        raise UsageError(
            "give --source and --reference, two line-aligned files, or --pairs, one file of both"
        )
    return tuple(read_aligned(source, *references))


def read_directed(
    files: Sequence[Path], readings: "Sequence[ReadingOrder]"
) -> "dict[Direction, tuple[list[str], list[str]]]":
    """Direction -> sources and targets of the files that are named after it."""
    from allyouneed.data.corpus import CleaningReport
    from allyouneed.data.corpus_files import CorpusFiles

    given = CorpusFiles(pairs=files, readings=readings)
    given.require_usable()
    found: dict[Direction, tuple[list[str], list[str]]] = {each: ([], []) for each in given.directions}
    for pair in given.read(CleaningReport()):
        if pair.direction and not pair.dropped:
            for side, text in zip(found[pair.direction], (pair.source, pair.target), strict=True):
                side.append(text)
    return found


def read_pairs_for(model: Path, pairs: Path) -> tuple[list[str], list[str]]:
    """The sources and targets of a file of pairs; those of a translation memory in the model's languages.

    A notice counts the units without one of the languages, which are dropped.
    """
    from allyouneed.data.corpus import CleaningReport
    from allyouneed.data.corpus_files import read_pairs
    from allyouneed.data.tmx import is_xml

    if not is_xml(pairs):
        return read_pairs(pairs)
    from allyouneed.runs.loading import config_of

    data = config_of(model).data
    if not (data.source_language and data.target_language):
        raise UsageError(
            f"{pairs}: is a translation memory, and {model} does not record its languages; give two "
            "line-aligned files instead"
        )
    languages, report = (data.source_language, data.target_language), CleaningReport()
    sources, targets = read_pairs(pairs, *languages, report)
    if report.num_dropped:
        dropped, lacking = report.num_dropped, " or ".join(languages)
        notice(f"{pairs}: dropped {dropped:,} of {dropped + len(sources):,} units, which lack {lacking}")
    return sources, targets
