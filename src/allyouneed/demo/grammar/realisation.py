"""What both languages do alike with the structures of `syntax`; each brings its words and its order."""

from collections.abc import Callable
from dataclasses import dataclass

from allyouneed.demo.grammar.lexicon import Case
from allyouneed.demo.grammar.syntax import (
    Adjunct,
    Clause,
    Fixed,
    Nominal,
    NounPhrase,
    Sentence,
    Wording,
    wording,
)
from allyouneed.demo.grammar.trees import Leaf, Phrase, Tree

Slots = dict[str, list[Tree]]
"""The constituents of a clause, by the names that the languages put in order."""

NOT = wording("not/RB = nicht/PTKNEG")
COMMA = wording(",/, = ,/$,")
STOP, QUESTION_MARK = wording("./. = ./$."), wording("?/. = ?/$.")
LABELS = {"RB": "ADVP", "WRB": "WHADVP", "JJ": "ADJP", "ADJD": "AP", "ADV": "AVP", "PWAV": "AVP"}
"""Label of an adjunct without a noun, by the tag of its last word."""

PREPOSITIONS = frozenset({"IN", "APPR", "APPRART"})


@dataclass(frozen=True, slots=True)
class Language:
    """How a language says what it does not say as the other one does."""

    side: int
    """0 English, 1 German."""
    noun_words: Callable[[NounPhrase, Case, Clause | None], list[Leaf]]
    """The words of a noun phrase in a case, and the clause whose negation it carries (`kein`), if it does."""
    main_clause: Callable[[Clause, bool, bool], Phrase]
    """The main clause, if a question, if without its subject."""
    inner_clause: Callable[[Clause], list[Tree]]
    """A subordinate clause, with its commas."""
    objects: Callable[[Clause], Slots]
    prepositional: Callable[[list[Leaf], Phrase], Phrase]
    """A preposition with its noun phrase."""


def spell(words: Wording, language: Language, *mention: object) -> list[Leaf]:
    """The words in the language, aligned by the wording's links."""
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
    """What joins the clause to another, if anything does."""
    return spell(clause.conjunction, language, clause, "conjunction") if clause.conjunction else []


def slots(clause: Clause, language: Language) -> Slots:
    """The constituents of a clause but its verbs."""
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
    """The constituents in the order of their names, and none that the order does not name."""
    return [tree for name in order.split() for tree in found.get(name, ())]


def nominal(
    structure: Nominal,
    case: Case,
    language: Language,
    *,
    negating: Clause | None = None,
    extraposed: bool = False,
) -> Phrase:
    """A nominal in its case; its relative clause may be `extraposed` to the end of the clause."""
    if isinstance(structure, Fixed):
        words, relative = spell(structure.forms[case], language, structure), None
    else:
        words, relative = language.noun_words(structure, case, negating), structure.relative
    core = Phrase("WHNP" if words[0].tag.startswith("W") else "NP", tuple(words))
    return Phrase("NP", (core, *language.inner_clause(relative))) if relative and not extraposed else core


def adjunct(structure: Adjunct, language: Language) -> Tree:
    """A fixed expression, or a prepositional phrase."""
    words = spell(structure.wording, language, structure)
    if structure.nominal:
        return language.prepositional(words, nominal(structure.nominal, "dative", language))
    label = "PP" if words[0].tag in PREPOSITIONS else LABELS.get(words[-1].tag, "NP")
    return Phrase(label, tuple(words))
