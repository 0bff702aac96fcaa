"""The limits of requests, the options of a request to translate, and its result."""

from dataclasses import dataclass, field
from typing import Final

from allyouneed.config.run import SearchSettings
from allyouneed.tasks.translation.outputs import Segment, Translation
from allyouneed.terms.glossary import Glossary

MOST_BODY_BYTES: Final = 2**20
MOST_FILE_BYTES: Final = 2**24
MOST_TEXTS: Final = 64
MOST_FIELDS: Final = 1_000
"""Maximum number of fields of a form, and of keys of an object in JSON: more take seconds to read."""
MOST_BEAMS: Final = 16
"""Maximum beam size, and number of translations per text, that a request may ask for."""


@dataclass(frozen=True)
class RequestOptions:
    """Options of a request to translate; the same for all its texts."""

    source: str | None = None
    """Code of the source language; None: the only one, or that of `model`; "auto": detected."""
    target: str | None = None
    """Code of the target language; None: the only one that is translated to from the source."""
    model: str | None = None
    """Name of the model; None: the one of that direction, or several over a third language."""
    n_best: int = 1
    prefix: str = ""
    alignments: bool = False
    """Whether to align words; has no effect over a third language."""
    glossary: Glossary | None = None
    """Terms of the direction, which one model translates in."""
    keep: bool = False
    """Whether placeholders and the like stay as they are, also where the server does not keep all."""
    most_characters: int = 0
    """Length that a text may have, if more than in other requests."""
    links: bool = False
    """Whether to align characters, over a third language, too."""
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
    models: tuple[str, ...]
    """Names of the models; none if the text is in the target language already."""
    segments: list[Segment] = field(default_factory=list)
    """The parts of the text that were translated separately; over a third language, those of the second
    step."""
    num_tokens: tuple[int, int] = (0, 0)
    """Number of tokens of the source and of the best translation."""
    confidence: float | None = None
    """Confidence of the detection of the source language, from 0 to 1; None if it was not detected."""
    notices: tuple[str, ...] = ()
    """Notices for the user, such as that a text was split because it is too long."""


def unchanged(text: str, language: str, confidence: float | None = None) -> Translated:
    """The "translation" of a text that is in the target language already: the text itself."""
    return Translated(
        [Translation(text, 0.0)],
        language,
        language,
        (),
        [Segment(text, text, "")] if text.strip() else [],
        confidence=confidence,
        notices=("the text is in the target language already and stays as it is",),
    )
