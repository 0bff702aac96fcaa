"""Languages and their names, and the models that translate between them, if need be over a third one."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Final

from allyouneed.language_codes import are_same, closest_code, distance, language_parts
from allyouneed.serve.exchanges import current
from allyouneed.serve.models import ServedModel
from allyouneed.serve.refusals import Refusal
from allyouneed.serve.request_options import RequestOptions
from allyouneed.tasks.translation.translator import Translator

_NAMES: Final = """
aa Afar, ab Abkhazian, ae Avestan, af Afrikaans, ak Akan, am Amharic, an Aragonese, ar Arabic, as Assamese,
av Avaric, ay Aymara, az Azerbaijani, ba Bashkir, be Belarusian, bg Bulgarian, bi Bislama, bm Bambara,
bn Bengali, bo Tibetan, br Breton, bs Bosnian, ca Catalan, ce Chechen, ch Chamorro, co Corsican, cr Cree,
cs Czech, cu Church Slavic, cv Chuvash, cy Welsh, da Danish, de German, dv Divehi, dz Dzongkha, ee Ewe,
el Greek, en English, eo Esperanto, es Spanish, et Estonian, eu Basque, fa Persian, ff Fula, fi Finnish,
fj Fijian, fo Faroese, fr French, fy Western Frisian, ga Irish, gd Scottish Gaelic, gl Galician, gn Guarani,
gu Gujarati, gv Manx, ha Hausa, he Hebrew, hi Hindi, ho Hiri Motu, hr Croatian, ht Haitian Creole,
hu Hungarian, hy Armenian, hz Herero, ia Interlingua, id Indonesian, ie Interlingue, ig Igbo, ii Sichuan Yi,
ik Inupiaq, io Ido, is Icelandic, it Italian, iu Inuktitut, ja Japanese, jv Javanese, ka Georgian, kg Kongo,
ki Kikuyu, kj Kuanyama, kk Kazakh, kl Kalaallisut, km Khmer, kn Kannada, ko Korean, kr Kanuri, ks Kashmiri,
ku Kurdish, kv Komi, kw Cornish, ky Kyrgyz, la Latin, lb Luxembourgish, lg Ganda, li Limburgish, ln Lingala,
lo Lao, lt Lithuanian, lu Luba-Katanga, lv Latvian, mg Malagasy, mh Marshallese, mi Māori, mk Macedonian,
ml Malayalam, mn Mongolian, mr Marathi, ms Malay, mt Maltese, my Burmese, na Nauru, nb Norwegian Bokmål,
nd North Ndebele, ne Nepali, ng Ndonga, nl Dutch, nn Norwegian Nynorsk, no Norwegian, nr South Ndebele,
nv Navajo, ny Nyanja, oc Occitan, oj Ojibwa, om Oromo, or Odia, os Ossetic, pa Punjabi, pi Pali, pl Polish,
ps Pashto, pt Portuguese, qu Quechua, rm Romansh, rn Rundi, ro Romanian, ru Russian, rw Kinyarwanda,
sa Sanskrit, sc Sardinian, sd Sindhi, se Northern Sami, sg Sango, si Sinhala, sk Slovak, sl Slovenian,
sm Samoan, sn Shona, so Somali, sq Albanian, sr Serbian, ss Swati, st Southern Sotho, su Sundanese,
sv Swedish, sw Swahili, ta Tamil, te Telugu, tg Tajik, th Thai, ti Tigrinya, tk Turkmen, tl Tagalog,
tn Tswana, to Tongan, tr Turkish, ts Tsonga, tt Tatar, tw Twi, ty Tahitian, ug Uyghur, uk Ukrainian,
ur Urdu, uz Uzbek, ve Venda, vi Vietnamese, vo Volapük, wa Walloon, wo Wolof, xh Xhosa, yi Yiddish,
yo Yoruba, za Zhuang, zh Chinese, zu Zulu,
ace Acehnese, ary Moroccan Arabic, arz Egyptian Arabic, ast Asturian, awa Awadhi, bho Bhojpuri, brx Bodo,
ceb Cebuano, ckb Central Kurdish, crh Crimean Tatar, csb Kashubian, doi Dogri, dsb Lower Sorbian,
ext Extremaduran, fil Filipino, fur Friulian, grc Ancient Greek, gsw Swiss German, hmn Hmong,
hsb Upper Sorbian, ilo Iloko, kab Kabyle, kok Konkani, lij Ligurian, lmo Lombard, ltg Latgalian, lus Mizo,
mag Magahi, mai Maithili, min Minangkabau, mni Manipuri, nds Low German, nso Northern Sotho, pap Papiamento,
pcm Nigerian Pidgin, pms Piedmontese, rom Romany, sah Yakut, sat Santali, scn Sicilian, shn Shan,
szl Silesian, tet Tetum, vec Venetian, war Waray, wuu Wu Chinese, yue Cantonese
"""
_LANGUAGES: Final = dict(entry.strip().split(" ", 1) for entry in _NAMES.split(","))
_VARIANTS: Final = {
    **{"hans": "Simplified", "hant": "Traditional", "cyrl": "Cyrillic", "latn": "Latin", "arab": "Arabic"},
    **{"at": "Austria", "be": "Belgium", "br": "Brazil", "ca": "Canada", "ch": "Switzerland", "cn": "China"},
    **{"de": "Germany", "es": "Spain", "fr": "France", "gb": "United Kingdom", "hk": "Hong Kong"},
    **{"mx": "Mexico", "pt": "Portugal", "tw": "Taiwan", "us": "United States", "419": "Latin America"},
}
NAMED: Final = {name.lower(): code for code, name in _LANGUAGES.items()} | {
    **{"simplified chinese": "zh-hans", "traditional chinese": "zh-hant", "mandarin": "zh"},
    **{"brazilian portuguese": "pt-br", "european portuguese": "pt-pt"},
    **{"american english": "en-us", "british english": "en-gb"},
}


def language_code(name: str) -> str | None:
    """Return the code of a language that is named in English, or by a code; None if no language is known."""
    return NAMED.get(name.lower()) or (name if language_parts(name)[0] in _LANGUAGES else None)


def language_name(code: str) -> str:
    """Return the English name of a language by its code of ISO 639; an unknown code is its own name.

    The code may have scripts and regions, as in "zh-Hans" and "pt_BR".
    """
    language, *variants = language_parts(code)
    if language not in _LANGUAGES:
        return code
    described = ", ".join(_VARIANTS.get(variant, variant.upper()) for variant in variants)
    return f"{_LANGUAGES[language]} ({described})" if described else _LANGUAGES[language]


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
