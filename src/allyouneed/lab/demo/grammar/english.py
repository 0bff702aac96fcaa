"""English words, word order and trees (Penn Treebank labels) for the structures of `syntax`."""

from allyouneed.lab.demo.grammar.expressions import DETERMINERS
from allyouneed.lab.demo.grammar.lexicon import Case
from allyouneed.lab.demo.grammar.realisation import (
    COMMA,
    Language,
    Slots,
    arranged,
    conjunction,
    nominal,
    slots,
    spell,
)
from allyouneed.lab.demo.grammar.syntax import Clause, Leaf, NounPhrase, Phrase, Tree, is_personal
from allyouneed.lab.demo.grammar.verbs import BE, english_verbs

AFTER_VERBS = "verbs pronoun particle object predicate adjunct time inner"
"""A pronoun precedes the verb's particle (`turns it on`); other objects follow it."""


def _main_clause(clause: Clause, question: bool, elided: bool) -> Phrase:
    inverted = question and clause.front != "subject"
    front, rest = _arranged(clause, inverted=inverted, elided=elided)
    if not question:
        return Phrase("S", (*front, *rest))
    core = Phrase("SQ", tuple(rest))
    return Phrase("SBARQ", (*front, core)) if front else core


def _inner_clause(clause: Clause) -> list[Tree]:
    """A conjunction and a statement, or else the filler of a gap and the clause with the gap."""
    front, rest = _arranged(clause)
    if clause.conjunction:
        return [Phrase("SBAR", (*conjunction(clause, ENGLISH), Phrase("S", (*front, *rest))))]
    return [Phrase("SBAR", (*front, Phrase("S", tuple(rest))))]


def _arranged(
    clause: Clause, *, inverted: bool = False, elided: bool = False
) -> tuple[list[Tree], list[Tree]]:
    """The fronted constituent and the rest, in which each verb heads a phrase of everything after it."""
    finite, *verbs = english_verbs(clause, inverted=inverted)
    found: Slots = {**slots(clause, ENGLISH), "finite": [finite], "verbs": [*verbs]}
    front = found.pop(clause.front, [])
    if clause.inner and clause.front == "inner":
        front += spell(COMMA, ENGLISH, clause.inner, "comma")
    if elided:
        found["subject"] = []
    if inverted:
        return front, [finite, *_nested(arranged(found, f"subject not adverb {AFTER_VERBS}"))]
    # adverbs precede a lone full verb, and follow the first auxiliary or the copula
    middle = "finite not adverb" if verbs or clause.verb is BE else "adverb finite"
    return front, _nested(arranged(found, f"subject {middle} {AFTER_VERBS}"))


def _nested(trees: list[Tree]) -> list[Tree]:
    nested: list[Tree] = []
    for tree in reversed(trees):
        nested.insert(0, tree)
        if isinstance(tree, Leaf) and tree.tag.startswith(("VB", "MD")):
            nested = [Phrase("VP", tuple(nested))]
    return nested


def _objects(clause: Clause) -> Slots:
    """The objects, particle and preposition; a fronted object strands the latter: `whom she looks for`."""
    verb, found = clause.verb, Slots()
    if verb.particle:
        found["particle"] = [Phrase("PRT", (Leaf("RP", verb.particle, ((clause, "verb"),)),))]
    things = [nominal(thing, "accusative", ENGLISH) for thing in clause.objects]
    if verb.preposition:
        # the German verb may need no preposition where the English one does
        part = "preposition" if verb.objects[0].preposition else "verb"
        words = [Leaf("TO" if verb.preposition == "to" else "IN", verb.preposition, ((clause, part),))]
        if clause.front != "object":
            return found | {"object": [_prepositional(words, *things)]}
        found["particle"] = [_prepositional(words)]
    for thing, tree in zip(clause.objects, things, strict=True):
        found.setdefault("pronoun" if is_personal(thing) else "object", []).append(tree)
    return found


def _noun_words(phrase: NounPhrase, case: Case, negating: Clause | None) -> list[Leaf]:
    noun = phrase.noun.english_plural if phrase.plural else phrase.noun.english
    words = [Leaf("NNS" if phrase.plural else "NN", noun, ((phrase, "noun"),))]
    if phrase.adjective:
        words.insert(0, Leaf("JJ", phrase.adjective.english, ((phrase, "adjective"),)))
    if phrase.very:
        words.insert(0, Leaf("RB", "very", ((phrase, "very"),)))
    if phrase.determiner:
        word = "these" if phrase.determiner == "this" and phrase.plural else phrase.determiner
        word = "an" if word == "a" and words[0].word[0] in "aeiou" else word
        tag = DETERMINERS[phrase.determiner].tag if phrase.determiner in DETERMINERS else "CD"
        words.insert(0, Leaf(tag, word, ((phrase, "determiner"),)))
    return words


def _prepositional(words: list[Leaf], *inner: Tree) -> Phrase:
    return Phrase("PP", (*words, *inner))


ENGLISH = Language(0, _noun_words, _main_clause, _inner_clause, _objects, _prepositional)
