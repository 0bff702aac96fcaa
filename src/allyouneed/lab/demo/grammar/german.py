"""German words, word order and trees (STTS tags, TIGER labels, no gaps) for the structures of `syntax`."""

from allyouneed.lab.demo.grammar.expressions import DETERMINERS, NUMBERS
from allyouneed.lab.demo.grammar.lexicon import Case, Noun
from allyouneed.lab.demo.grammar.realisation import (
    COMMA,
    NOT,
    Language,
    Slots,
    arranged,
    conjunction,
    nominal,
    slots,
    spell,
)
from allyouneed.lab.demo.grammar.syntax import Clause, Leaf, NounPhrase, Phrase, Tree, is_personal
from allyouneed.lab.demo.grammar.verbs import german_verbs

FIELD = "pronoun time adverb known not adjunct new prepositional predicate"
"""The middle field, between the finite verb and the verbs that end the clause."""

AFTER_VERBS = "relative inner"
"""Constituents after the final verbs."""

DEFINITE = frozenset({"the", "this", "every", "my", "your", "his", "her", "our", "their"})

CONTRACTIONS = {("in", "dem"): "im", ("an", "dem"): "am", ("von", "dem"): "vom"} | {
    ("zu", "dem"): "zum",
    ("zu", "der"): "zur",
}


def _table(nominative: str, accusative: str, dative: str) -> dict[tuple[str, str], str]:
    """Forms or endings by case and gender or plural."""
    rows = {"nominative": nominative, "accusative": accusative, "dative": dative}
    genders = ("masculine", "feminine", "neuter", "plural")
    return {
        (case, gender): ending.strip("-")
        for case, row in rows.items()
        for gender, ending in zip(genders, row.split(), strict=True)
    }


ARTICLE = _table("der die das die", "den die das die", "dem der dem den")
DER_WORDS = _table("er e es e", "en e es e", "em er em en")
EIN_WORDS = _table("- e - e", "en e - e", "em er em en")
ADJECTIVES = {
    "strong": DER_WORDS,
    "weak": _table("e e e en", "en e e en", "en en en en"),
    "mixed": _table("er e es en", "en e es en", "en en en en"),
}
"""Strong endings follow a number or no determiner, weak ones `der`, mixed ones `ein`."""


# Clauses


def _main_clause(clause: Clause, question: bool, elided: bool) -> Phrase:
    """The finite verb second (or first); participles, infinitives and separated prefixes last."""
    finite, ending = german_verbs(clause, separated=True)
    found = slots(clause, GERMAN)
    front = found.pop(clause.front or ("" if question else "subject"), [])
    start = [*([] if elided else front), finite, *arranged(found, "subject")]
    return Phrase("S", (*start, *_field(found, ending), *arranged(found, AFTER_VERBS)))


def _inner_clause(clause: Clause) -> list[Tree]:
    """Conjunction, relative pronoun or question word first, the finite verb last, enclosed in commas.

    `trees.written` drops the commas at the edge of the sentence.
    """
    finite, ending = german_verbs(clause, separated=False)
    found = slots(clause, GERMAN)
    front = found.pop(clause.front, [])
    start = [*conjunction(clause, GERMAN), *front, *arranged(found, "subject")]
    whole = Phrase("S", (*start, *_field(found, ending), finite, *arranged(found, AFTER_VERBS)))
    return [Leaf("$,", ","), whole, *spell(COMMA, GERMAN, clause, "comma")]


def _field(found: Slots, ending: list[Leaf]) -> list[Tree]:
    field = arranged(found, FIELD)
    nonfinite = ending and ending[-1].tag != "PTKVZ"
    return [Phrase("VP", (*field, *ending))] if nonfinite else [*field, *ending]


def _objects(clause: Clause) -> Slots:
    """The objects; `not` merges with the first that has `a` or no determiner, as `kein`."""
    found: Slots = {}
    for thing, slot in zip(clause.objects, clause.verb.objects, strict=False):
        indefinite = isinstance(thing, NounPhrase) and thing.determiner in {"", "a"}
        negating = clause if clause.negated and indefinite and "not" not in found else None
        if negating:
            found["not"] = []
        tree = nominal(thing, slot.case, GERMAN, negating=negating, extraposed=True)
        if slot.preposition:
            origin = (clause, "preposition")
            tree = _prepositional([Leaf("APPR", slot.preposition, (origin,))], tree)
        # new information comes late: an indefinite accusative object follows the place
        known = not isinstance(thing, NounPhrase) or thing.determiner in DEFINITE or slot.case == "dative"
        place = "pronoun" if is_personal(thing) else "known" if known else "new"
        place = "prepositional" if slot.preposition else place
        found.setdefault("object" if clause.front == "object" else place, []).append(tree)
        if isinstance(thing, NounPhrase) and thing.relative:
            found["relative"] = _inner_clause(thing.relative)
    return found


# Noun phrases


def _noun_words(phrase: NounPhrase, case: Case, negating: Clause | None) -> list[Leaf]:
    where = "plural" if phrase.plural else phrase.noun.gender
    determiner = DETERMINERS.get("no" if negating else phrase.determiner)
    words = []
    if determiner:
        negation = spell(NOT, GERMAN, negating, "not")[0].origins if negating else ()
        origins = ((phrase, "determiner"), *negation)
        endings = EIN_WORDS if determiner.declension == "mixed" else DER_WORDS
        form = (
            ARTICLE[case, where]
            if phrase.determiner == "the"
            else determiner.german_stem + endings[case, where]
        )
        words = [Leaf(determiner.german_tag, form, origins)]
    elif phrase.determiner:
        words = [Leaf("CARD", NUMBERS[phrase.determiner], ((phrase, "determiner"),))]
    if phrase.very:
        words.append(Leaf("ADV", "sehr", ((phrase, "very"),)))
    if phrase.adjective:
        declension = determiner.declension if determiner else "strong"
        form = phrase.adjective.german_stem + ADJECTIVES[declension][case, where]
        words.append(Leaf("ADJA", form, ((phrase, "adjective"),)))
    return [*words, Leaf("NN", _noun_form(phrase.noun, phrase.plural, case), ((phrase, "noun"),))]


def _noun_form(noun: Noun, plural: bool, case: Case) -> str:
    if plural:
        return noun.german_plural + ("n" if case == "dative" and noun.german_plural[-1] not in "ns" else "")
    # weak masculines (der Student, den Studenten) have the form of their plural except in the nominative
    weak = noun.is_human and noun.gender == "masculine" and noun.german_plural.endswith("n")
    return noun.german_plural if weak and case != "nominative" else noun.german


def _prepositional(words: list[Leaf], inner: Phrase) -> Phrase:
    """A preposition and its noun phrase, contracted with a plain article (`in dem` is `im`).

    There is no contraction before a relative clause: `von dem Hund, der schläft`.
    """
    article = inner.children[0]
    if isinstance(article, Leaf) and (words[0].word, article.word) in CONTRACTIONS:
        contraction = CONTRACTIONS[words[0].word, article.word]
        contracted = Leaf("APPRART", contraction, (*words[0].origins, *article.origins))
        return Phrase("PP", (contracted, Phrase("NP", inner.children[1:])))
    return Phrase("PP", (*words, inner))


GERMAN = Language(1, _noun_words, _main_clause, _inner_clause, _objects, _prepositional)
