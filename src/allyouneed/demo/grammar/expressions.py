"""Names, prepositions and fixed adverbials of the demo grammar."""

from allyouneed.demo.grammar.lexicon import Gender, nouns_of
from allyouneed.demo.grammar.syntax import NUMBERS, Adverbial, Preposition

FIRST_NAMES: dict[str, Gender] = {
    **dict.fromkeys(["Anna", "Maria", "Julia", "Laura", "Emma", "Sophie", "Lena", "Clara"], "feminine"),
    **dict.fromkeys(["Peter", "Thomas", "Paul", "Felix", "Lukas", "David", "Jonas", "Martin"], "masculine"),
}
LAST_NAMES = (
    "Weber",
    "Schmidt",
    "Fischer",
    "Becker",
    "Wagner",
    "Keller",
    "Hoffmann",
    "Braun",
    "Lehmann",
    "Schulz",
)
CITIES = {
    **{name: name for name in ["Berlin", "Hamburg", "Paris", "London", "Dresden", "Leipzig"]},
    "Munich": "München",
    "Vienna": "Wien",
    "Cologne": "Köln",
    "Zurich": "Zürich",
    "Prague": "Prag",
    "Rome": "Rom",
    "Geneva": "Genf",
}

IN = Preposition("in", "in", "dative")
TO = Preposition("to", "zu", "dative")
TO_CITY = Preposition("to", "nach", "dative")
WITH = Preposition("with", "mit", "dative")
BY = Preposition("by", "von", "dative")
FOR = Preposition("for", "für", "accusative")
NEAR = Preposition("near", "in der Nähe", "genitive")
BESIDE = (
    Preposition("behind", "hinter", "dative"),
    Preposition("in front of", "vor", "dative"),
    Preposition("next to", "neben", "dative"),
    NEAR,
)
LOCATIVE: dict[str, Preposition] = {
    "station": Preposition("at", "an", "dative"),
    "lake": Preposition("at", "an", "dative"),
    "market": Preposition("at", "auf", "dative"),
    "bridge": Preposition("on", "auf", "dative"),
}
"""Where one is, by noun; `in` for all other places."""

PLACES = nouns_of("home building area")
USUAL_PLACES = nouns_of("garden house office hotel school station city village park market")
LANDMARKS = nouns_of("house church school museum hotel castle station library hospital restaurant")
GOALS = nouns_of(
    "station market hospital museum castle church library hotel lake bridge park restaurant office"
)


def _adverbial(row: str) -> Adverbial:
    """An adverbial from `word/TAG .. = word/TAG ..`, with the links after a second `=` if not one to one."""
    english, german, *links = row.split(" = ")
    source = tuple(_tagged(word) for word in english.split())
    target = tuple(_tagged(word) for word in german.split())
    if not links:
        return Adverbial(source, target, tuple((i, i) for i in range(len(source))))
    pairs = (link.split("-") for link in links[0].split())
    return Adverbial(source, target, tuple((int(i), int(j)) for i, j in pairs))


def _tagged(text: str) -> tuple[str, str]:
    word, tag = text.split("/")
    return tag, word


_DAYS = zip(
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"],
    ["Montag", "Dienstag", "Mittwoch", "Donnerstag", "Freitag", "Samstag", "Sonntag"],
    strict=True,
)
_UNITS = (("days", "Tagen"), ("weeks", "Wochen"), ("months", "Monaten"), ("years", "Jahren"))
_ON_A_DAY = [f"on/IN {day}/NNP = am/APPRART {tag}/NN" for day, tag in _DAYS]
_AGO = [
    f"{number}/CD {unit}/NNS ago/RB = vor/APPR {zahl}/CARD {einheit}/NN = 0-1 1-2 2-0"
    for number, zahl in NUMBERS.items()
    for unit, einheit in _UNITS
]
_IN_A_YEAR = [f"in/IN {year}/CD = im/APPRART Jahr/NN {year}/CARD = 0-0 0-1 1-2" for year in range(2001, 2021)]
_HENCE = [
    f"in/IN {number}/CD {unit}/NNS = in/APPR {zahl}/CARD {einheit}/NN"
    for number, zahl in NUMBERS.items()
    for unit, einheit in _UNITS
]


def _choices(*groups: list[str]) -> tuple[tuple[Adverbial, ...], ...]:
    return tuple(tuple(map(_adverbial, group)) for group in groups)


_TODAY = "today/NN = heute/ADV"
_NOW = "now/RB = jetzt/ADV"
_NEXT = [
    "tomorrow/NN = morgen/ADV",
    "next/JJ week/NN = nächste/ADJA Woche/NN",
    "next/JJ year/NN = nächstes/ADJA Jahr/NN",
    "next/JJ month/NN = nächsten/ADJA Monat/NN",
]
_LAST = [
    "yesterday/NN = gestern/ADV",
    "last/JJ week/NN = letzte/ADJA Woche/NN",
    "last/JJ year/NN = letztes/ADJA Jahr/NN",
    "last/JJ month/NN = letzten/ADJA Monat/NN",
]
_EVERY = [
    "every/DT day/NN = jeden/PIAT Tag/NN",
    "every/DT morning/NN = jeden/PIAT Morgen/NN",
    "every/DT evening/NN = jeden/PIAT Abend/NN",
    "every/DT week/NN = jede/PIAT Woche/NN",
]
_THIS = [_TODAY, "this/DT week/NN = diese/PDAT Woche/NN", "this/DT year/NN = dieses/PDAT Jahr/NN"]
_MOMENT = "at/IN the/DT moment/NN = im/APPRART Moment/NN = 0-0 1-0 2-1"

TIMES = {
    "present": _choices(_EVERY),
    "progressive": _choices([_NOW, _TODAY, _MOMENT]),
    "past": _choices(_LAST, _LAST, _ON_A_DAY, _AGO, _IN_A_YEAR),
    "perfect": _choices(_THIS),
    "future": _choices(_NEXT, _NEXT, _ON_A_DAY, _HENCE),
    "modal": _choices([_NOW, _TODAY, *_NEXT]),
    "state": _choices([_NOW, _TODAY]),
}
"""When, by tense: groups to choose from, then their members."""

_FREQUENCY = {
    "present": (
        "often/RB = oft/ADV",
        "always/RB = immer/ADV",
        "sometimes/RB = manchmal/ADV",
        "rarely/RB = selten/ADV",
    ),
    "past": ("often/RB = oft/ADV", "never/RB = nie/ADV", "sometimes/RB = manchmal/ADV"),
    "perfect": ("already/RB = schon/ADV", "just/RB = gerade/ADV", "never/RB = nie/ADV", "often/RB = oft/ADV"),
    "future": ("always/RB = immer/ADV", "never/RB = nie/ADV", "soon/RB = bald/ADV"),
}
FREQUENCY = {tense: tuple(map(_adverbial, rows)) for tense, rows in _FREQUENCY.items()}
"""How often, by tense: adverbs that stand before the English verb."""

WHERE, WHEN, WHY = map(_adverbial, ("where/WRB = wo/PWAV", "when/WRB = wann/PWAV", "why/WRB = warum/PWAV"))
