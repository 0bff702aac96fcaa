"""Options for spans, terms and whole texts whose translations are given."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from allyouneed.errors import UsageError

if TYPE_CHECKING:
    from allyouneed.tasks.translation.translator import Translator
    from allyouneed.terms.keeping import KeepingTranslator


@Parameter(name="*")
@dataclass(frozen=True)
class KeptText:
    """Spans, terms and whole texts whose translations are given."""

    keep: bool = False
    """Leave placeholders, addresses, code, hashtags, amounts with units and emoji as they are, each exactly
    once and in its place."""
    keep_patterns: Annotated[tuple[str, ...], Parameter(name="--keep-pattern")] = ()
    """Regular expression of further text to be kept; may be repeated."""
    glossary: Path | None = None
    """File with a term per line, SOURCE TAB TARGET|FORM|.. TAB NOTE: translations have one of the forms."""
    suggest_terms: bool = False
    """Only suggest the terms of the glossary to a model prepared with --annotate-terms, which may inflect or
    omit them; without it, they are required."""
    memory: Path | None = None
    """Translation memory (TMX): a line that it has, exactly, gets its translation from there."""
    report: Path | None = None
    """Append to this file a JSON object per text: what was kept, repaired, inserted or lost, and which tags
    were moved. Exit code 9 if a term was lost."""

    @property
    def files(self) -> list[Path]:
        """The files that answers depend on."""
        return [file for file in (self.glossary, self.memory) if file is not None]

    def unkept(self) -> Callable[[str], str]:
        """A function that returns a text without the spans that are kept."""
        if not (self.keep or self.keep_patterns):
            return str
        from allyouneed.data.spans import KINDS, Spans

        return Spans(self.keep_patterns, KINDS if self.keep else {}).without

    @property
    def is_wanted(self) -> bool:
        """Whether anything is to be kept."""
        return self.keep or self.suggest_terms or bool(self.keep_patterns or self.files)

    def translator(
        self, translator: "Translator", engine: str, shortlist: Path | None
    ) -> "KeepingTranslator":
        """A translator that keeps what is wanted."""
        if self.is_wanted and (engine != "local" or shortlist):
            other = "--shortlist" if shortlist else "--engine"
            raise UsageError(f"{other}: cannot be used with --keep, --glossary or --memory; leave out one")
        from allyouneed.terms.keeping import KeepingTranslator

        if self.suggest_terms and not self.glossary:
            raise UsageError("--suggest-terms: belongs to --glossary; add it, or leave this out")
        return KeepingTranslator.of(
            translator,
            keep=self.keep,
            keep_patterns=self.keep_patterns,
            glossary=self.glossary,
            memory=self.memory,
            suggest_terms=self.suggest_terms,
        )
