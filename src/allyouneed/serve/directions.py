"""The models that translate between languages, if need be over a third one."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from allyouneed.language_codes import are_same, closest_code, distance
from allyouneed.serve.exchanges import current
from allyouneed.serve.models import ServedModel
from allyouneed.serve.refusals import Refusal
from allyouneed.serve.request_options import RequestOptions
from allyouneed.tasks.translation.translator import Translator

NO_DIRECTION = 404, "no_direction", "no model translates that; GET /api/models lists the languages"
AUTO = "auto"
"""Asks for the detection of the source language."""
_WEIGHT = 2.0
"""Weight of languages that are translated, beside 1 of the target's own: a word that may be of either is
translated, because people rarely ask for the translation of text in the target language."""
_SHOWN = 0.005
"""Least confidence for a text to be in the target language, as a lower one is shown as 0%."""


@dataclass(frozen=True)
class Direction:
    """A pair of languages that can be translated, directly or over a third language."""

    source: str
    """Code of the source language, such as "en"."""
    target: str
    models: tuple[str, ...]
    """Names of the models that translate one after the other; none if source and target are the same."""
    languages: tuple[str, ...] = ()
    """Codes of a model that translates between any two of them; source and target are then empty."""

    def matching(self, source: str | None, target: str | None) -> "Iterable[Direction]":
        """The directions that this stands for, between the closest languages to these codes (None: any)."""
        if not self.languages:
            return [self]
        sources = _matching(
            source, self.languages if target or source else self.languages[:2], is_source=True
        )
        targets = _matching(target, self.languages)
        return [Direction(*pair, self.models) for pair in product(sources, targets) if pair[0] != pair[1]]


@lru_cache(maxsize=1 << 12)
def _matching(code: str | None, languages: tuple[str, ...], *, is_source: bool = False) -> tuple[str, ...]:
    """The language that is closest to a code, if any is; all for None."""
    if code is None:
        return languages
    found = closest_code(code, languages, is_source=is_source)
    return () if found is None else (found,)


def sources_of(directions: Iterable[Direction]) -> list[str]:
    """The codes of the source languages."""
    return [code for each in directions for code in (each.languages or [each.source])]


def targets_of(directions: Iterable[Direction]) -> list[str]:
    """The codes of the target languages."""
    return [code for each in directions for code in (each.languages or [each.target])]


@dataclass(frozen=True)
class Route:
    """How a text is translated."""

    direction: Direction
    confidence: float | None = None
    """Confidence of the detection of the source language, if it was detected."""


def directions_of(models: Sequence[ServedModel]) -> list[Direction]:
    """The directions of the models, then those over a third language; the first model of each is taken.

    A model of any two languages comes after those of one direction, as a single element.
    """
    found: dict[tuple[str, str], Direction] = {}
    translators = [model for model in models if isinstance(model.loaded, Translator)]
    between_any = [Direction("", "", (model.name,), model.languages) for model in models if model.languages]
    for model in translators:
        if model.languages:
            continue
        pair = model.source, model.target
        found.setdefault(pair, Direction(*pair, (model.name,)))
    over = [
        (distance(first.target, second.source) or 0, first, second)
        for first, second in product(list(found.values()), repeat=2)
        if are_same(first.target, second.source) and not are_same(first.source, second.target)
    ]
    num_direct = len(found)
    for _, first, second in sorted(over, key=lambda each: each[0]):
        pair = first.source, second.target
        found.setdefault(pair, Direction(*pair, first.models + second.models))
    pairs = list(found.values())
    return [*pairs[:num_direct], *between_any, *pairs[num_direct:]]


def closest(directions: Sequence[Direction], source: str | None, target: str | None) -> list[Direction]:
    """The directions between two languages (None: any) whose codes are closest to the given ones."""
    directions = [found for each in directions for found in each.matching(source, target)]
    if exact := [
        each for each in directions if source in (None, each.source) and target in (None, each.target)
    ]:
        return exact  # fast, as a page may have thousands of texts
    found: dict[int, list[Direction]] = {}
    for each in directions:
        from_source = 0 if source is None else distance(source, each.source, is_source=True)
        from_target = 0 if target is None else distance(target, each.target)
        if from_source is not None and from_target is not None:
            found.setdefault(from_source + from_target, []).append(each)
    return found[min(found)] if found else []


def to_itself(code: str) -> Direction:
    """The direction of a text that is in its target language already; it has no models."""
    return Direction(code, code, ())


def between(directions: Sequence[Direction], source: str, target: str) -> Direction | None:
    """The direction between two languages as clients name them; None if no model translates in it."""
    sources, targets = sources_of(directions), targets_of(directions)
    to = closest_code(target, targets + sources)
    if to != closest_code(source, sources + targets) and (fitting := closest(directions, source, target)):
        return fitting[0]
    return to_itself(to) if to and are_same(source, to) else None


class Router:
    """Chooses the direction of each text, in order of preference.

    `detect` gives all languages of the directions by falling probability for a text.
    """

    def __init__(
        self,
        models: Mapping[str, ServedModel],
        directions: Sequence[Direction],
        detect: Callable[[str], list[tuple[str, float]]],
    ) -> None:
        self._models, self._directions, self._detect = models, directions, detect

    def route(self, text: str, options: RequestOptions) -> Route:
        """The direction of a text; one without models if the detected language is the target.

        Refuses it if no model translates in this direction (404), or several and none is named (422).
        """
        directions = self._directions if options.model is None else [self._of_model(options.model, options)]
        if options.source == AUTO:
            route = self._detected(text, options.target, directions)
        else:
            route = Route(_only(directions, options.source, options.target))
        current().note(route.direction.source, route.direction.target, route.direction.models)
        return route

    def _of_model(self, name: str, options: RequestOptions) -> Direction:
        model = self._models.get(name)
        if model is None or not isinstance(model.loaded, Translator):
            raise Refusal(404, "no_model", "no such translation model; GET /api/models lists them")
        direction = Direction(model.source, model.target, (name,), model.languages)
        if not closest([direction], None if options.source == AUTO else options.source, options.target):
            does = "between other languages" if model.languages else f"from {model.source} to {model.target}"
            raise Refusal(422, "other_languages", f"the model translates {does}")
        return direction

    def _detected(self, text: str, target: str | None, directions: Sequence[Direction]) -> Route:
        """The route from the likeliest language that is the target or is translated to it."""
        found = self._detect(text)
        sources, targets = sources_of(directions), targets_of(directions)
        there = {closest_code(target, targets + sources) or ""} if target else {*targets} - {*sources}
        onward = {
            code: closest(
                [each for each in directions if code in (each.languages or (each.source,))], code, target
            )
            for code, _ in found
            if code not in there
        }
        likeliest = max(
            (each for each in found if onward.get(each[0]) or (each[0] in there and each[1] >= _SHOWN)),
            key=lambda each: each[1] * (_WEIGHT if each[0] in onward else 1.0),
            default=None,
        )
        if likeliest is None:
            return Route(_only(directions, None, target), 0.0)
        code, confidence = likeliest
        return Route(_only(onward[code], code, target) if code in onward else to_itself(code), confidence)


def _only(directions: Sequence[Direction], source: str | None, target: str | None) -> Direction:
    fitting = closest(directions, source, target)
    if not fitting:
        raise Refusal(*NO_DIRECTION)
    direct = [each for each in fitting if len(each.models) == 1]
    if len(fitting) > 1 and not (source and target) and len(direct) != 1:
        missing = "target" if source else "source"
        raise Refusal(422, "which_direction", f"several models fit; name the {missing} language")
    return (direct or fitting)[0]
