"""Codes of languages (ISO 639, BCP 47): one spelling for the many in use."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

Direction = tuple[str, str]
"""Codes of a source and a target language."""

_THREE_LETTERS: Final = """
aar:aa abk:ab ave:ae afr:af aka:ak amh:am arg:an ara:ar asm:as ava:av aym:ay aze:az bak:ba bel:be bul:bg
bis:bi bam:bm ben:bn bod/tib:bo bre:br bos:bs cat:ca che:ce cha:ch cos:co cre:cr ces/cze:cs chu:cu chv:cv
cym/wel:cy dan:da deu/ger:de div:dv dzo:dz ewe:ee ell/gre:el eng:en epo:eo spa:es est/ekk:et eus/baq:eu
fas/per/pes/prs:fa ful:ff fin:fi fij:fj fao:fo fra/fre:fr fry:fy gle:ga gla:gd glg:gl grn:gn guj:gu glv:gv
hau:ha heb:he hin:hi hmo:ho hrv:hr hat:ht hun:hu hye/arm:hy her:hz ina:ia ind:id ile:ie ibo:ig iii:ii ipk:ik
ido:io isl/ice:is ita:it iku:iu jpn:ja jav:jv kat/geo:ka kon:kg kik:ki kua:kj kaz:kk kal:kl khm:km kan:kn
kor:ko kau:kr kas:ks kur/kmr:ku kom:kv cor:kw kir:ky lat:la ltz:lb lug:lg lim:li lin:ln lao:lo lit:lt lub:lu
lav/lvs:lv mlg/plt:mg mah:mh mri/mao:mi mkd/mac:mk mal:ml mon/khk:mn mar:mr msa/may/zsm:ms mlt:mt mya/bur:my
nau:na nob:nb nde:nd nep/npi:ne ndo:ng nld/dut:nl nno:nn nor:no nbl:nr nav:nv nya:ny oci:oc oji:oj
orm/gaz:om ori/ory:or oss:os pan:pa pli:pi pol:pl pus/pbt:ps por:pt que/quy:qu roh:rm run:rn ron/rum:ro
rus:ru kin:rw san:sa srd:sc snd:sd sme:se sag:sg hbs:sh sin:si slk/slo:sk slv:sl smo:sm sna:sn som:so
sqi/alb/als:sq srp:sr ssw:ss sot:st sun:su swe:sv swa/swh:sw tam:ta tel:te tgk:tg tha:th tir:ti tuk:tk
tgl:tl tsn:tn ton:to tur:tr tso:ts tat:tt twi:tw tah:ty uig:ug ukr:uk urd:ur uzb/uzn:uz ven:ve vie:vi
vol:vo wln:wa wol:wo xho:xh yid/ydd:yi yor:yo zha:za zho/chi/cmn:zh zul:zu arb:ar azj:az
"""
"""Codes of ISO 639-2 and 639-3, those of the standard variety of a language included -> ISO 639-1."""

_OTHER_NAMES: Final = {
    **{"iw": "he", "in": "id", "ji": "yi", "jw": "jv", "mo": "ro"},  # withdrawn
    **{"pb": "pt-br", "zt": "zh-hant"},  # Argos Translate's
    **{
        long: short
        for entry in _THREE_LETTERS.split()
        for longs, short in [entry.split(":")]
        for long in longs.split("/")
    },
}
_REGIONS_OF_SCRIPTS: Final = {
    **{"zh-cn": "zh-hans", "zh-sg": "zh-hans", "zh-hk": "zh-hant", "zh-mo": "zh-hant", "zh-tw": "zh-hant"},
}
_SPOKEN: Final = {"fil": "tl", "nb": "no", "sh": "sr"}
_IN_DIRECTION: Final = re.compile(
    r"[A-Za-z]{2,8}(_[A-Za-z0-9]+)*|[A-Za-z]{2,3}(-([A-Za-z]{4}|[A-Z]{2}|[0-9]{3}))+"
)
_USUAL_SCRIPTS: Final = {"zh": "hans"}
"""Script of a language whose code names none, where texts in another script are as usual."""
_LISTED: Final = 20
"""Most codes in a message."""
_FAR: Final = 100
"""Distance between scripts, more than any number of variants."""

CHINESE: Final = frozenset(["gan", "hsn", "lzh", "wuu", "yue", "zh"])
"""Chinese languages."""
WITHOUT_SPACES_BETWEEN_SENTENCES: Final = CHINESE | {"ja"}
"""Languages whose marks are as wide as a character, so that no space follows a sentence."""
WITHOUT_SPACES_BETWEEN_WORDS: Final = WITHOUT_SPACES_BETWEEN_SENTENCES | {
    *("bo", "dz", "km", "lo", "my", "shn", "th"),
}
"""Languages that are written without spaces between words; some have one after a sentence."""


def primary_language(code: str) -> str:
    """The language of a code: its code of ISO 639-1 if it has one, without script, region and capitals.

    Args:
        code: Language code as people and programs write them: "de", "DE", "de-AT", "zh_CN", "zh-Hans",
            "deu", "ger", "deu_Latn". An unknown code is its own language; "" stays empty.
    """
    return language_parts(code)[0]


def spoken_language(code: str) -> str:
    """The language of a code, the same for two names of one: "no" for Bokmål, "tl" for Filipino."""
    language = primary_language(code)
    return _SPOKEN.get(language, language)


def is_language_code(code: str) -> bool:
    """Whether a code can be one of ISO 639: two letters of 639-1, or any three, as 639-3 has thousands."""
    language = primary_language(code)
    return language in _OTHER_NAMES.values() or re.fullmatch("[a-z]{3}", language) is not None


def plain_code(code: str) -> str:
    """A language code in lower case, with hyphens."""
    return code.strip().lower().replace("_", "-")


def language_parts(code: str) -> list[str]:
    """The parts of a language code in lower case: the language as in ISO 639-1, then its variants."""
    language, *variants = plain_code(code).split("-")
    spelled = "-".join([_OTHER_NAMES.get(language, language), *variants])
    return _REGIONS_OF_SCRIPTS.get(spelled, spelled).split("-")


def standard_code(code: str) -> str:
    """The code of a language as BCP 47 spells it, such as "pt-BR" and "zh-Hant"."""
    language, *variants = language_parts(code)
    return "-".join([language, *(each.title() if _is_script(each) else each.upper() for each in variants)])


def codes_of_direction(name: str) -> Direction | None:
    """The codes in a name such as `en-de`, `en-pt_BR` or `zh-Hans-en`, as they are spelled there.

    A variant follows "_", or "-" if it looks like one. None if the name is not that of one direction.
    """
    pairs = [(name[: dash.start()], name[dash.end() :]) for dash in re.finditer("-", name)]
    fitting = [pair for pair in pairs if all(map(_IN_DIRECTION.fullmatch, pair))]
    return fitting[0] if len(fitting) == 1 else None


def distance(asked: str, served: str, *, is_source: bool = False) -> int | None:
    """How far a served language is from the one that a code asks for.

    Args:
        asked: Code of a client, or of a setting.
        served: Code of a model, or of a text.
        is_source: Whether it is the source language. A model may read another script than it was trained on,
            but will not write another one than its own.

    Returns:
        The number of variants that only one of the codes names, so 0 if they are the same; None if they are
        different languages, or a target of which the code names another script.
    """
    wanted, found = language_parts(asked), language_parts(served)
    other_script = len({_script(wanted), _script(found)} - {""}) > 1
    if spoken_language(asked) != spoken_language(served) or (
        other_script and len(wanted) > 1 and not is_source
    ):
        return None
    return len({*wanted[1:]} ^ {*found[1:]}) + _FAR * other_script


def closest_code(asked: str, served: Iterable[str], *, is_source: bool = False) -> str | None:
    """The served code that is closest to a client's, the first of several; None if there is none."""
    apart = {
        each: found for each in served if (found := distance(asked, each, is_source=is_source)) is not None
    }
    return asked if asked in apart else min(apart, key=apart.__getitem__, default=None)


def short_codes(codes: Sequence[str]) -> list[str]:
    """The shortest code by which `closest_code` finds each of these, such as "fr" for "fra_Latn"."""
    return [
        next(
            short
            for short in (primary_language(code), standard_code(code), code)
            if closest_code(short, codes) == code
        )
        for code in codes
    ]


def listed(codes: Iterable[str]) -> str:
    """Codes for a message: all, or the first and the number of the others."""
    all_codes = [*codes]
    more = len(all_codes) - _LISTED
    return ", ".join(all_codes if more <= 0 else [*all_codes[:_LISTED], f"{more} more (see verify)"])


def are_same(one: str, other: str) -> bool:
    """Whether two codes are of the same language in the same script."""
    return None not in (distance(one, other), distance(other, one))


def _script(parts: list[str]) -> str:
    return next(filter(_is_script, parts[1:]), _USUAL_SCRIPTS.get(parts[0], ""))


def _is_script(part: str) -> bool:
    return len(part) == 4 and part.isalpha()
