"""The corpora of the paper (5.1), as the workshop WMT 2014 has published them.

They are not fetched: a folder holds the files, unpacked, wherever their archives put them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import NamedTuple

from allyouneed.data.compressed import SUFFIXES, open_compressed
from allyouneed.data.corpus_files import CorpusFiles
from allyouneed.data.lines import LineCounts, reading_errors
from allyouneed.errors import DataError, UsageError

_PAGE = "https://www.statmt.org/wmt14/translation-task.html"
_BLOCK_BYTES = 1 << 20


class CorpusPart(NamedTuple):
    """Two files of a corpus, one for each language."""

    stem: str
    """Name of both without the language: `training/europarl-v7.de-en`."""
    num_lines: int
    """Number of lines of each, as published."""
    archive: str
    """The archive that holds them."""


@dataclass(frozen=True)
class PublicCorpus:
    """A corpus of a shared task."""

    source_language: str
    target_language: str
    train: tuple[CorpusPart, ...]
    valid: CorpusPart
    preset: str
    """The preset whose data settings are the paper's."""
    paper_pairs: str
    """The number of training pairs that the paper gives."""

    def files(self, folder: Path) -> tuple[CorpusFiles, CorpusFiles]:
        """The training and validation files in a folder. Unusable lines are dropped, up to a hundredth.

        Raises:
            DataError: Files are missing, or have not as many lines as published; names all of them.
        """
        languages = self.source_language, self.target_language
        found = {
            (part, language): _found(folder, f"{part.stem}.{language}")
            for part in (*self.train, self.valid)
            for language in languages
        }
        present = {place: file for place, file in found.items() if file is not None}
        if missing := [
            f"{folder}: has no {part.stem}.{language}; it is in {part.archive} of {_PAGE}"
            for part, language in found
            if (part, language) not in present
        ]:
            raise DataError(missing)
        if wrong := [
            f"{file}: has {num_lines:,} lines, {part.num_lines:,} are published; fetch {part.archive} again"
            for (part, _), file in present.items()
            if (num_lines := count_lines(file)) != part.num_lines
        ]:
            raise DataError(wrong)
        sources, targets = ([present[part, language] for part in self.train] for language in languages)
        valid = CorpusFiles(*(present[self.valid, language] for language in languages))
        return CorpusFiles(sources, targets, max_bad_share=0.01), valid


_EUROPARL = "training-parallel-europarl-v7.tgz"
_COMMON_CRAWL = "training-parallel-commoncrawl.tgz"
_NEWS = "training-parallel-nc-v9.tgz"
PUBLIC_CORPORA: Mapping[str, PublicCorpus] = {
    "wmt14-en-de": PublicCorpus(
        source_language="en",
        target_language="de",
        train=(
            CorpusPart("training/europarl-v7.de-en", 1_920_209, _EUROPARL),
            CorpusPart("commoncrawl.de-en", 2_399_123, _COMMON_CRAWL),
            CorpusPart("training/news-commentary-v9.de-en", 201_288, _NEWS),
        ),
        valid=CorpusPart("dev/newstest2013", 3_000, "dev.tgz"),
        preset="base",
        paper_pairs="about 4.5 million",
    ),
    "wmt14-en-fr": PublicCorpus(
        source_language="en",
        target_language="fr",
        train=(
            CorpusPart("training/europarl-v7.fr-en", 2_007_723, _EUROPARL),
            CorpusPart("commoncrawl.fr-en", 3_244_152, _COMMON_CRAWL),
            CorpusPart("un/undoc.2000.fr-en", 12_886_831, "training-parallel-un.tgz"),
            CorpusPart("training/news-commentary-v9.fr-en", 183_251, _NEWS),
            CorpusPart("giga-fren.release2.fixed", 22_520_376, "training-giga-fren.tar"),
        ),
        valid=CorpusPart("dev/newstest2013", 3_000, "dev.tgz"),
        preset="big_en_fr",
        paper_pairs="36 million",
    ),
}
"""Name of a corpus -> its files."""


def public_corpus(name: str) -> PublicCorpus:
    """The corpus of a name; raises UsageError if there is none."""
    if name not in PUBLIC_CORPORA:
        known = " and ".join(PUBLIC_CORPORA)
        raise UsageError(f"corpus {name}: unknown; there are {known}", settings=["corpus"])
    return PUBLIC_CORPORA[name]


def count_lines(file: Path) -> int:
    """The number of lines of a file, which may be compressed.

    Raises:
        DataError: The compressed data is damaged.
        DiskError: The file cannot be read.
    """
    counts, last = LineCounts(), b"\n"
    with reading_errors(str(file), counts), open_compressed(file) as stream:
        while block := stream.read(_BLOCK_BYTES):
            counts.num_lines += block.count(b"\n")
            last = block[-1:]
    return counts.num_lines + (last != b"\n")


def _found(folder: Path, name: str) -> Path | None:
    """A file of a name in a folder, or of its last part, perhaps compressed."""
    places = product((folder / name, folder / Path(name).name), ("", *SUFFIXES))
    paths = (place.with_name(place.name + suffix) for place, suffix in places)
    return next(filter(Path.is_file, paths), None)
