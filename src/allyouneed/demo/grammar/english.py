"""English words, order and trees (Penn Treebank labels) for the structures of `syntax`."""

from typing import Literal

from allyouneed.demo.grammar.english_verbs import verb_layers
from allyouneed.demo.grammar.syntax import (
    Adjunct,
    Adverbial,
    Clause,
    Name,
    Nominal,
    NounPhrase,
    Pair,
    Predicate,
    Pronoun,
    RelativePronoun,
    Sentence,
    Subordinate,
    WhPronoun,
    is_human,
)
from allyouneed.demo.grammar.trees import Leaf, Origin, Phrase, Tree

Role = Literal["subject", "object", "after_preposition"]

DETERMINER_TAGS = {
    **dict.fromkeys(("the", "a", "an", "this", "these", "every", "no", "some"), "DT"),
    **dict.fromkeys(("my", "your", "his", "her", "our", "their"), "PRP$"),
    **dict.fromkeys(("many", "several"), "JJ"),
    "which": "WDT",
    "whose": "WP$",
}
"""Every other determiner is a number (CD), except `how many`."""

WH_DETERMINERS = frozenset({"which", "whose", "how many"})
OBJECTIVE = {"I": "me", "he": "him", "she": "her", "we": "us", "they": "them"}
WORD_TAGS = {"front": "NN", "order": "NN", "next": "JJ", "when": "WRB", "soon": "RB", "to": "TO"}
"""Tags of the words in prepositions and conjunctions that are not IN."""


def sentence(structure: Sentence) -> Phrase:
    """The tree of a whole sentence with its final mark."""
    mark = Leaf(".", "?" if structure.question else ".", ((structure, "mark"),))
    if len(structure.clauses) == 2:
        return Phrase("S", (*_coordinated(structure), mark))
    (clause,) = structure.clauses
    body = _question(clause) if structure.question else _declarative(clause)
    return Phrase(body.label, (*body.children, mark))


def _coordinated(structure: Sentence) -> tuple[Tree, ...]:
    first, second = structure.clauses
    comma = (Leaf(",", ",", ((structure, "comma"),)),) if structure.english_conjunction == "but" else ()
    joint = (*comma, Leaf("CC", structure.english_conjunction, ((structure, "conjunction"),)))
    if second.subject is first.subject:
        predicates = Phrase("VP", (_verb_phrase(first), *joint, _verb_phrase(second)))
        return (_nominal(first.subject), predicates)
    return (_declarative(first), *joint, _declarative(second))


# Clauses


def _declarative(clause: Clause) -> Phrase:
    return Phrase("S", (*_front(clause), *_subject(clause), _verb_phrase(clause)))


def _question(clause: Clause) -> Phrase:
    if clause.front is clause.subject:
        return Phrase("SBARQ", (*_front(clause), Phrase("SQ", (_verb_phrase(clause),))))
    auxiliary, *layers = verb_layers(clause, inverted=True)
    rest = [_nested(clause, layers, [])] if layers else _complements(clause)
    inverted = Phrase("SQ", (auxiliary, *_subject(clause), *_negation_and_adverb(clause), *rest))
    return Phrase("SBARQ", (*_front(clause), inverted)) if clause.front else inverted


def _gap_clause(clause: Clause) -> Phrase:
    """A relative clause or an embedded question: what is fronted, then the clause without it."""
    return Phrase("SBAR", (*_front(clause), Phrase("S", (*_subject(clause), _verb_phrase(clause)))))


def _subject(clause: Clause) -> tuple[Tree, ...]:
    return () if clause.front is clause.subject else (_nominal(clause.subject),)


def _front(clause: Clause) -> tuple[Tree, ...]:
    match clause.front:
        case None:
            return ()
        case Adjunct() | Adverbial() as fronted:
            return (_adjunct(fronted),)
        case Subordinate() as subordinate:
            return (_subordinate(subordinate), Leaf(",", ",", ((subordinate, "comma"),)))
        case fronted:
            return (_nominal(fronted, "subject" if fronted is clause.subject else "object"),)


def _subordinate(subordinate: Subordinate) -> Phrase:
    clause = subordinate.clause
    origin: Origin = (subordinate, "conjunction")
    words = tuple(Leaf(WORD_TAGS.get(word, "IN"), word, (origin,)) for word in subordinate.english.split())
    if subordinate.infinitive:
        infinitive = Phrase("S", (_nested(clause, verb_layers(clause, infinitive=True), []),))
        return Phrase("SBAR", (*words, infinitive)) if words else infinitive
    return Phrase("SBAR", (*words, _declarative(clause))) if words else _gap_clause(clause)


# Verb phrases


def _verb_phrase(clause: Clause) -> Phrase:
    return _nested(clause, verb_layers(clause), _negation_and_adverb(clause))


def _nested(clause: Clause, layers: list[Leaf], inserted: list[Tree]) -> Phrase:
    """The verb phrase, where each verb governs the phrase of the next.

    `inserted` (negation and adverb) follows the first auxiliary or the copula, and precedes a lone full verb.
    """
    *outer, main = layers
    complements = _complements(clause)
    if clause.verb.particle:
        particle = Phrase("PRT", (Leaf("RP", clause.verb.particle, main.origins),))
        # a pronoun precedes the particle: `turns it on`, `turns on the lamp`
        pronoun = [thing for thing in clause.objects if isinstance(thing, Pronoun)]
        complements.insert(len(pronoun), particle)
    if outer or clause.verb.base == "be":
        phrase = Phrase("VP", (main, *([] if outer else inserted), *complements))
    else:
        phrase = Phrase("VP", (*inserted, main, *complements))
    for depth, verb in reversed(list(enumerate(outer))):
        phrase = Phrase("VP", (verb, *(inserted if depth == 0 else []), phrase))
        if verb.tag == "TO" and depth > 0:
            phrase = Phrase("S", (phrase,))
    return phrase


def _negation_and_adverb(clause: Clause) -> list[Tree]:
    negation = [Leaf("RB", "not", ((clause, "not"),))] if clause.negated else []
    return [*negation, *([_adjunct(clause.adverb)] if clause.adverb else [])]


def _complements(clause: Clause) -> list[Tree]:
    """All that follows the main verb, in order, without what stands in front."""
    objects = [tree for thing in clause.objects for tree in _object(clause, thing)]
    predicate = [_predicate(clause.predicate)] if clause.predicate else []
    adjuncts = [_adjunct(adjunct) for adjunct in clause.adjuncts if adjunct is not clause.front]
    time = [_adjunct(clause.time)] if clause.time and clause.time is not clause.front else []
    inner = clause.subordinate if clause.subordinate is not clause.front else None
    return [*objects, *predicate, *adjuncts, *time, *([_subordinate(inner)] if inner else [])]


def _object(clause: Clause, thing: Nominal) -> tuple[Tree, ...]:
    """The object, and the preposition of the verb even where the object is in front: `that she looks at`."""
    verb, fronted = clause.verb, thing is clause.front
    if not verb.preposition:
        return () if fronted else (_nominal(thing, "object"),)
    # German may say with its verb alone what English says with verb and preposition
    part = "preposition" if verb.objects[0].preposition else "verb"
    preposition = Leaf(WORD_TAGS.get(verb.preposition, "IN"), verb.preposition, ((clause, part),))
    return (Phrase("PP", (preposition, *(() if fronted else (_nominal(thing, "after_preposition"),)))),)


def _predicate(predicate: Predicate) -> Phrase:
    adjective, degree = predicate.adjective, predicate.degree
    origin: Origin = (predicate, "adjective")
    words = [Leaf("JJ", adjective.english, (origin,))]
    if degree == "comparative":
        more = Leaf("RBR", "more", (origin,))
        short = adjective.english_comparative
        words = [Leaf("JJR", short, (origin,))] if short else [more, *words]
    elif degree != "positive":
        words = [Leaf("RB", "as" if degree == "equal" else degree, ((predicate, "degree"),)), *words]
    if predicate.standard is None:
        return Phrase("ADJP", tuple(words))
    than = Leaf("IN", "as" if degree == "equal" else "than", ((predicate, "than"),))
    return Phrase("ADJP", (*words, Phrase("PP", (than, _nominal(predicate.standard)))))


# Nominals and adjuncts


def _nominal(structure: Nominal, role: Role = "subject") -> Phrase:
    match structure:
        case NounPhrase():
            return _noun_phrase(structure)
        case Name(english=words):
            return Phrase(
                "NP", tuple(Leaf("NNP", word, ((structure, str(i)),)) for i, word in enumerate(words))
            )
        case Pronoun(word=word):
            form = word if role == "subject" else OBJECTIVE.get(word, word)
            return Phrase("NP", (Leaf("EX" if word == "there" else "PRP", form, ((structure, "noun"),)),))
        case WhPronoun(word=word):
            form = "whom" if word == "who" and role != "subject" else word
            return Phrase("WHNP", (Leaf("WP", form, ((structure, "noun"),)),))
        case RelativePronoun():
            return Phrase("WHNP", (_relative_pronoun(structure, role),))
        case Pair(left=left, right=right):
            conjunction = Leaf("CC", "and", ((structure, "and"),))
            return Phrase("NP", (_nominal(left, role), conjunction, _nominal(right, role)))


def _relative_pronoun(pronoun: RelativePronoun, role: Role) -> Leaf:
    origin: Origin = (pronoun, "noun")
    if is_human(pronoun.noun):
        return Leaf("WP", "who" if role == "subject" else "whom", (origin,))
    return Leaf("WDT", "which" if role == "after_preposition" else "that", (origin,))


def _noun_phrase(phrase: NounPhrase) -> Phrase:
    label = "WHNP" if phrase.determiner in WH_DETERMINERS else "NP"
    words = _adjective_and_noun(phrase)
    core = Phrase(label, (*_determiner(phrase, words[0].word), *words))
    after: list[Tree] = []
    if isinstance(phrase.possessor, NounPhrase):
        of = Leaf("IN", "of", ((phrase.possessor, "determiner"),))
        after.append(Phrase("PP", (of, _nominal(phrase.possessor))))
    if phrase.place:
        after.append(_adjunct(phrase.place))
    if phrase.relative:
        after.append(_gap_clause(phrase.relative))
    return Phrase(label, (core, *after)) if after else core


def _adjective_and_noun(phrase: NounPhrase) -> list[Leaf]:
    noun = phrase.noun.english_plural if phrase.plural else phrase.noun.english
    words = [Leaf("NNS" if phrase.plural else "NN", noun, ((phrase, "noun"),))]
    if phrase.adjective:
        words.insert(0, Leaf("JJ", phrase.adjective.english, ((phrase, "adjective"),)))
    if phrase.very:
        words.insert(0, Leaf("RB", "very", ((phrase, "very"),)))
    return words


def _determiner(phrase: NounPhrase, next_word: str) -> tuple[Leaf, ...]:
    origin: Origin = (phrase, "determiner")
    match phrase.determiner:
        case "":
            return ()
        case "how many":
            return (Leaf("WRB", "how", ((phrase, "how"),)), Leaf("JJ", "many", (origin,)))
        case "whose":
            return (Leaf("WP$", "whose", ((phrase.possessor, "noun"),)),)
        case "this" if phrase.plural:
            word = "these"
        case "a" if next_word[0] in "aeiou":
            word = "an"
        case word:
            pass
    return (Leaf(DETERMINER_TAGS.get(word, "CD"), word, (origin,)),)


def _adjunct(structure: Adjunct | Adverbial) -> Phrase:
    if isinstance(structure, Adverbial):
        return _adverbial(structure)
    origin: Origin = (structure, "preposition")
    english = structure.preposition.english
    words = tuple(Leaf(WORD_TAGS.get(word, "IN"), word, (origin,)) for word in english.split())
    label = "WHPP" if isinstance(structure.nominal, RelativePronoun) else "PP"
    return Phrase(label, (*words, _nominal(structure.nominal, "after_preposition")))


def _adverbial(adverbial: Adverbial) -> Phrase:
    words = tuple(
        Leaf(tag, word, tuple((adverbial, f"{i}-{j}") for k, j in adverbial.links if k == i))
        for i, (tag, word) in enumerate(adverbial.english)
    )
    labels = {"IN": "PP", "RB": "ADVP", "WRB": "WHADVP"}
    return Phrase(labels.get(words[0].tag, "NP"), words)
