"""English names of languages."""

from typing import Final

from allyouneed.language_codes import language_parts

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
