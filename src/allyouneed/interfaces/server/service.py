"""What all protocols share: translation, parsing and attention, with bounds, deadlines and cancellation."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from allyouneed.config.run import SearchSettings
from allyouneed.tasks.parsing.parser import Parse
from allyouneed.tasks.translation.outputs import Translation


@dataclass(frozen=True)
class Direction:
    """A pair of languages that can be translated, directly or over a third language."""

    source: str
    """Code of the source language, such as "en"."""
    target: str
    """Code of the target language."""
    models: tuple[str, ...]
    """Names of the models that translate one after the other."""


@dataclass(frozen=True)
class Ask:
    """Options of a request to translate; the same for all its texts."""

    source: str | None = None
    """Code of the source language; None: the only one, or that of `model`; "auto": detected."""
    target: str | None = None
    """Code of the target language; None: the only one that is translated to from the source."""
    model: str | None = None
    """Name of the model; None: the one of that direction, or several over a third language."""
    n_best: int = 1
    """Number of translations per text."""
    prefix: str = ""
    """Whole words that the translation begins with."""
    alignments: bool = False
    """Whether to align words."""
    search: SearchSettings = field(default_factory=SearchSettings)
    """Settings of the search, by default the model's own."""


@dataclass(frozen=True)
class Translated:
    """The translations of a text."""

    translations: list[Translation]
    """Best first; a text that is blank has one, as it is."""
    source: str
    """Code of the source language, given or detected."""
    target: str
    """Code of the target language."""
    models: tuple[str, ...]
    """Names of the models."""
    num_tokens: tuple[int, int] = (0, 0)
    """Number of tokens of the source and of the best translation."""
    confidence: float | None = None
    """Confidence of the detection of the source language, from 0 to 1; None if it was not detected."""
    notices: tuple[str, ...] = ()
    """What the user should know, such as that a text was split because it is too long."""


class Service:
    """Answers requests of all protocols; its methods raise `Refusal`.

    Cancelling the task that awaits an answer, as the server does when the client has gone, stops the work.
    """

    @property
    def directions(self) -> Sequence[Direction]:
        """Pairs of languages, those of one model first, in order of the models."""
        raise NotImplementedError

    @property
    def languages(self) -> dict[str, str]:
        """Code -> English name of all source and target languages, sorted by code."""
        raise NotImplementedError

    def detect(self, text: str) -> list[tuple[str, float]]:
        """Source languages of the served models by falling probability (from 0 to 1) for a text."""
        raise NotImplementedError

    async def translate(self, texts: Sequence[str], ask: Ask = Ask()) -> list[Translated]:
        """Translate texts of any number of sentences and lines; line breaks are kept."""
        raise NotImplementedError

    def stream(self, text: str, ask: Ask = Ask()) -> AsyncIterator[str | Translated]:
        """Growing prefixes of the translation that can no longer change, and at last the whole."""
        raise NotImplementedError

    async def parse(self, sentences: Sequence[str], model: str | None = None) -> list[Parse]:
        """Parse sentences."""
        raise NotImplementedError

    async def attention(self, text: str, translation: str | None, ask: Ask = Ask()) -> dict[str, Any]:
        """The document of the explorer (`explorer.page.pack_weights`) for a text of one sentence.

        Args:
            text: A sentence; also to be parsed, if `ask.model` is a parser.
            translation: Its translation; None: the model's own.
            ask: Direction or model.
        """
        raise NotImplementedError
