"""Which models translate between which languages, one after the other where no model does it alone."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from allyouneed.interfaces.server.ask import Ask
from allyouneed.interfaces.server.models import ServedModel
from allyouneed.interfaces.server.refusal import Refusal
from allyouneed.tasks.translation.translator import Translator

AUTO = "auto"
"""Asks for the detection of the source language."""


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
class Route:
    """How a text is translated."""

    direction: Direction
    confidence: float | None = None
    """Confidence of the detection of the source language, if it was detected."""


def directions_of(models: Sequence[ServedModel]) -> list[Direction]:
    """The directions of the models, then those over a third language; the first model of each is taken."""
    found: dict[tuple[str, str], Direction] = {}
    translators = [model for model in models if isinstance(model.loaded, Translator)]
    for model in translators:
        pair = model.source, model.target
        found.setdefault(pair, Direction(*pair, (model.name,)))
    for first, second in product(list(found.values()), repeat=2):
        pair = first.source, second.target
        if first.target == second.source and first.source != second.target:
            found.setdefault(pair, Direction(*pair, first.models + second.models))
    return list(found.values())


class Router:
    """Chooses the direction of each text.

    Args:
        models: The served models by name.
        directions: Their directions, in order of preference.
        detect: Source languages of a text by falling probability.
    """

    def __init__(
        self,
        models: Mapping[str, ServedModel],
        directions: Sequence[Direction],
        detect: Callable[[str], list[tuple[str, float]]],
    ) -> None:
        self._models, self._directions, self._detect = models, directions, detect

    def route(self, text: str, ask: Ask) -> Route:
        """The direction of a text.

        Raises:
            Refusal: No model translates in this direction (404), or several do and the request names none
                (422).
        """
        if ask.model is not None:
            return self._by_name(ask.model, ask)
        if ask.source != AUTO:
            return Route(self._only(ask.source, ask.target))
        for code, confidence in self._detect(text):
            if any(self._fits(each, code, ask.target) for each in self._directions):
                return Route(self._only(code, ask.target), confidence)
        return Route(self._only(None, ask.target), 0.0)

    def _by_name(self, name: str, ask: Ask) -> Route:
        model = self._models.get(name)
        if model is None or not isinstance(model.loaded, Translator):
            raise Refusal(404, "no_model", "no such translation model; GET /api/models lists them")
        direction = Direction(model.source, model.target, (name,))
        source = None if ask.source == AUTO else ask.source
        if not self._fits(direction, source, ask.target):
            raise Refusal(
                422, "other_languages", f"the model translates from {model.source} to {model.target}"
            )
        return Route(direction)

    def _only(self, source: str | None, target: str | None) -> Direction:
        fitting = [each for each in self._directions if self._fits(each, source, target)]
        if not fitting:
            raise Refusal(
                404, "no_direction", "no model translates that; GET /api/models lists the languages"
            )
        if len(fitting) > 1 and not (source and target) and len(self._direct(fitting)) != 1:
            missing = "target" if source else "source"
            raise Refusal(422, "which_direction", f"several models fit; name the {missing} language")
        return self._direct(fitting)[0] if self._direct(fitting) else fitting[0]

    @staticmethod
    def _direct(directions: Sequence[Direction]) -> list[Direction]:
        return [each for each in directions if len(each.models) == 1]

    @staticmethod
    def _fits(direction: Direction, source: str | None, target: str | None) -> bool:
        return direction.source == (source or direction.source) and direction.target == (
            target or direction.target
        )
