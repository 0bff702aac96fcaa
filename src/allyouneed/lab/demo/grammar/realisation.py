"""The realisation shared by both languages: from the structures of `syntax` to trees."""

from collections.abc import Callable
from dataclasses import dataclass

from allyouneed.lab.demo.grammar.lexicon import Case
from allyouneed.lab.demo.grammar.syntax import (
    Adjunct,
    Clause,
    Fixed,
    Leaf,
    Nominal,
    NounPhrase,
    Phrase,
    Sentence,
    Tree,
    Wording,
    wording,
)

Slots = dict[str, list[Tree]]
"""The constituents of a clause by name; each language orders the names."""

NOT = wording("not/RB = nicht/PTKNEG")
COMMA = wording(",/, = ,/$,")
STOP, QUESTION_MARK = wording("./. = ./$."), wording("?/. = ?/$.")
LABELS = {"RB": "ADVP", "WRB": "WHADVP", "JJ": "ADJP", "ADJD": "AP", "ADV": "AVP", "PWAV": "AVP"}
"""Labels of adjuncts without a noun, by the tag of their last word."""

PREPOSITIONS = frozenset({"IN", "APPR", "APPRART"})


@dataclass(frozen=True, slots=True)
class Language:
    """The language-specific part of realisation."""

    side: int
    """0 for English, 1 for German."""
    noun_words: Callable[[NounPhrase, Case, Clause | None], list[Leaf]]
    """Words of a noun phrase. Arguments: phrase, case, and the clause that it negates (`kein`), if any."""
    main_clause: Callable[[Clause, bool, bool], Phrase]
    """Tree of a main clause. Arguments: clause, whether it is a question, whether to omit its subject."""
    inner_clause: Callable[[Clause], list[Tree]]
    """Trees of a subordinate clause with its commas."""
    objects: Callable[[Clause], Slots]
    """The objects of a clause."""
    prepositional: Callable[[list[Leaf], Phrase], Phrase]
    """Tree of a preposition and its noun phrase."""


def spell(words: Wording, language: Language, *mention: object) -> list[Leaf]:
    """The words in one language, aligned by the wording's links."""
    return [
        Leaf(tag, word, tuple((*mention, link) for link in words.links if link[language.side] == i))
        for i, (tag, word) in enumerate(words.words[language.side])
    ]


def sentence_tree(structure: Sentence, language: Language) -> Phrase:
    """The tree of a whole sentence with its final mark."""
    mark = spell(QUESTION_MARK if structure.question else STOP, language, structure)
    first, *others = structure.clauses
    body = language.main_clause(first, structure.question, False)
    if not others:
        return Phrase(body.label, (*body.children, *mark))
    (second,) = others
    rest = language.main_clause(second, False, second.subject is first.subject)
    return Phrase(("S", "CS")[language.side], (body, *conjunction(second, language), rest, *mark))


def conjunction(clause: Clause, language: Language) -> list[Leaf]:
    """The conjunction of the clause, or nothing."""
    return spell(clause.conjunction, language, clause, "conjunction") if clause.conjunction else []


def slots(clause: Clause, language: Language) -> Slots:
    """The constituents of a clause except its verbs."""
    found: Slots = {
        "subject": [nominal(clause.subject, "nominative", language)],
        "adverb": [adjunct(clause.adverb, language)] if clause.adverb else [],
        "predicate": [adjunct(clause.predicate, language)] if clause.predicate else [],
        "time": [adjunct(clause.time, language)] if clause.time else [],
        "adjunct": [adjunct(place, language) for place in clause.adjuncts],
        "inner": language.inner_clause(clause.inner) if clause.inner else [],
        "not": [*spell(NOT, language, clause, "not")] if clause.negated else [],
    }
    return found | language.objects(clause)


def arranged(found: Slots, order: str) -> list[Tree]:
    """The constituents that `order` names, in that order."""
    return [tree for name in order.split() for tree in found.get(name, ())]


def nominal(
    structure: Nominal,
    case: Case,
    language: Language,
    *,
    negating: Clause | None = None,
    extraposed: bool = False,
) -> Phrase:
    """A nominal in a case, without its relative clause if that is `extraposed` to the end of the clause."""
    if isinstance(structure, Fixed):
        words, relative = spell(structure.forms[case], language, structure), None
    else:
        words, relative = language.noun_words(structure, case, negating), structure.relative
    core = Phrase("WHNP" if words[0].tag.startswith("W") else "NP", tuple(words))
    return Phrase("NP", (core, *language.inner_clause(relative))) if relative and not extraposed else core


def adjunct(structure: Adjunct, language: Language) -> Tree:
    """A fixed expression or a prepositional phrase."""
    words = spell(structure.wording, language, structure)
    if structure.nominal:
        return language.prepositional(words, nominal(structure.nominal, "dative", language))
    label = "PP" if words[0].tag in PREPOSITIONS else LABELS.get(words[-1].tag, "NP")
    return Phrase(label, tuple(words))
