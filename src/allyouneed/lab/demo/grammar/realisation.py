"""The realisation of the structures of `syntax` as trees, in English and in German.

English trees have the labels of the Penn Treebank, German ones STTS tags and TIGER labels, without gaps.
"""

from abc import ABC, abstractmethod

from allyouneed.lab.demo.grammar.expressions import DETERMINERS, NUMBERS
from allyouneed.lab.demo.grammar.lexicon import AUXILIARIES, BE, Case, Form, Noun, VerbForms
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
    agreement,
    is_personal,
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


class Language(ABC):
    """The parts of realisation that both languages share."""

    side: int
    """0 for English, 1 for German."""
    joined: str
    """Label of two main clauses in one sentence."""

    def sentence(self, structure: Sentence) -> Phrase:
        """The tree of a whole sentence with its final mark."""
        mark = self._spell(QUESTION_MARK if structure.question else STOP, structure)
        first, *others = structure.clauses
        body = self._main_clause(first, question=structure.question)
        if not others:
            return Phrase(body.label, (*body.children, *mark))
        (second,) = others
        rest = self._main_clause(second, elided=second.subject is first.subject)
        return Phrase(self.joined, (body, *self._conjunction(second), rest, *mark))

    @abstractmethod
    def _main_clause(self, clause: Clause, *, question: bool = False, elided: bool = False) -> Phrase:
        """The tree of a main clause; without its subject if that is `elided`."""

    @abstractmethod
    def _inner_clause(self, clause: Clause) -> list[Tree]:
        """The trees of a subordinate clause with its commas."""

    @abstractmethod
    def _objects(self, clause: Clause) -> Slots:
        """The objects of a clause."""

    @abstractmethod
    def _noun_words(self, phrase: NounPhrase, case: Case, negating: Clause | None) -> list[Leaf]:
        """The words of a noun phrase, which may negate a clause (`kein`)."""

    @abstractmethod
    def _prepositional(self, words: list[Leaf], inner: Phrase) -> Phrase:
        """The tree of a preposition and its noun phrase."""

    def _spell(self, words: Wording, *mention: object) -> list[Leaf]:
        """The words in this language, aligned by the wording's links."""
        return [
            Leaf(tag, word, tuple((*mention, link) for link in words.links if link[self.side] == i))
            for i, (tag, word) in enumerate(words.words[self.side])
        ]

    def _conjunction(self, clause: Clause) -> list[Leaf]:
        return self._spell(clause.conjunction, clause, "conjunction") if clause.conjunction else []

    def _slots(self, clause: Clause) -> Slots:
        """The constituents of a clause except its verbs."""
        alone = {"adverb": clause.adverb, "predicate": clause.predicate, "time": clause.time}
        return {
            "subject": [self._nominal(clause.subject, "nominative")],
            **{name: [self._adjunct(structure)] for name, structure in alone.items() if structure},
            "adjunct": [self._adjunct(place) for place in clause.adjuncts],
            "inner": self._inner_clause(clause.inner) if clause.inner else [],
            "not": [*self._spell(NOT, clause, "not")] if clause.negated else [],
            **self._objects(clause),
        }

    def _nominal(
        self, structure: Nominal, case: Case, *, negating: Clause | None = None, extraposed: bool = False
    ) -> Phrase:
        """A nominal in a case, without its relative clause if that is `extraposed` to the clause's end."""
        if isinstance(structure, Fixed):
            words, relative = self._spell(structure.forms[case], structure), None
        else:
            words, relative = self._noun_words(structure, case, negating), structure.relative
        core = Phrase("WHNP" if words[0].tag.startswith("W") else "NP", tuple(words))
        return Phrase("NP", (core, *self._inner_clause(relative))) if relative and not extraposed else core

    def _adjunct(self, structure: Adjunct) -> Tree:
        """A fixed expression or a prepositional phrase."""
        words = self._spell(structure.wording, structure)
        if structure.nominal:
            return self._prepositional(words, self._nominal(structure.nominal, "dative"))
        label = "PP" if words[0].tag in PREPOSITIONS else LABELS.get(words[-1].tag, "NP")
        return Phrase(label, tuple(words))


def _arranged(found: Slots, order: str) -> list[Tree]:
    """The constituents that `order` names, in that order."""
    return [tree for name in order.split() for tree in found.get(name, ())]


def _auxiliaries(clause: Clause) -> list[str]:
    """Meanings of the auxiliaries that a clause needs."""
    wanted = {clause.tense, clause.modal, "passive" if clause.passive else ""}
    return [meaning for meaning in AUXILIARIES if meaning in wanted]


def _asked(chain: list[tuple[VerbForms, str]]) -> list[tuple[VerbForms, str, Form]]:
    """Verbs and their meanings, each with the form that the preceding verb requires."""
    asked: list[Form] = ["finite", *(AUXILIARIES[meaning].next_form for _, meaning in chain[:-1])]
    return [(forms, meaning, form) for (forms, meaning), form in zip(chain, asked, strict=True)]


def _verb(clause: Clause, meaning: str, tag: str, word: str) -> Leaf:
    """A verb; an auxiliary that only English has counts as the main verb."""
    return Leaf(tag, word, ((clause, "verb" if meaning in {"do", "progressive"} else meaning),))


def _word(clause: Clause, forms: VerbForms, form: Form) -> str:
    if form != "finite":
        return str(getattr(forms, form))
    return (forms.past if clause.tense == "past" else forms.present)[agreement(clause.subject)]


# English

ENGLISH_TAGS = {"infinitive": "VB", "participle": "VBN", "gerund": "VBG"}
AFTER_ENGLISH_VERBS = "verbs pronoun particle object predicate adjunct time inner"
"""A pronoun precedes the verb's particle (`turns it on`); other objects follow it."""


class English(Language):
    """English words and word order."""

    side = 0
    joined = "S"

    def _main_clause(self, clause: Clause, *, question: bool = False, elided: bool = False) -> Phrase:
        inverted = question and clause.front != "subject"
        front, rest = self._parts(clause, inverted=inverted, elided=elided)
        if not question:
            return Phrase("S", (*front, *rest))
        core = Phrase("SQ", tuple(rest))
        return Phrase("SBARQ", (*front, core)) if front else core

    def _inner_clause(self, clause: Clause) -> list[Tree]:
        """A conjunction and a statement, or else the filler of a gap and the clause with the gap."""
        front, rest = self._parts(clause)
        if clause.conjunction:
            return [Phrase("SBAR", (*self._conjunction(clause), Phrase("S", (*front, *rest))))]
        return [Phrase("SBAR", (*front, Phrase("S", tuple(rest))))]

    def _parts(
        self, clause: Clause, *, inverted: bool = False, elided: bool = False
    ) -> tuple[list[Tree], list[Tree]]:
        """The fronted constituent and the rest, in which each verb heads a phrase of everything after it."""
        finite, *verbs = self._verbs(clause, inverted=inverted)
        found: Slots = {**self._slots(clause), "finite": [finite], "verbs": [*verbs]}
        front = found.pop(clause.front, [])
        if clause.inner and clause.front == "inner":
            front += self._spell(COMMA, clause.inner, "comma")
        if elided:
            found["subject"] = []
        if inverted:
            return front, [
                finite,
                *self._nested(_arranged(found, f"subject not adverb {AFTER_ENGLISH_VERBS}")),
            ]
        # adverbs precede a lone full verb, and follow the first auxiliary or the copula
        middle = "finite not adverb" if verbs or clause.verb is BE else "adverb finite"
        return front, self._nested(_arranged(found, f"subject {middle} {AFTER_ENGLISH_VERBS}"))

    def _nested(self, trees: list[Tree]) -> list[Tree]:
        nested: list[Tree] = []
        for tree in reversed(trees):
            nested.insert(0, tree)
            if isinstance(tree, Leaf) and tree.tag.startswith(("VB", "MD")):
                nested = [Phrase("VP", tuple(nested))]
        return nested

    def _verbs(self, clause: Clause, *, inverted: bool) -> list[Leaf]:
        """From the finite to the main one; `do` is added if no auxiliary can be inverted or negated."""
        meanings = _auxiliaries(clause)
        if (inverted or clause.negated) and not meanings and clause.verb is not BE:
            meanings = ["do"]
        chain = [
            *((AUXILIARIES[meaning].english, meaning) for meaning in meanings),
            (clause.verb.english, "verb"),
        ]
        return [
            _verb(clause, meaning, self._verb_tag(clause, forms, form), _word(clause, forms, form))
            for forms, meaning, form in _asked(chain)
        ]

    def _verb_tag(self, clause: Clause, forms: VerbForms, form: Form) -> str:
        if form != "finite":
            return ENGLISH_TAGS[form]
        if forms.kind == "MD":
            return "MD"
        return "VBD" if clause.tense == "past" else "VBZ" if agreement(clause.subject) == 1 else "VBP"

    def _objects(self, clause: Clause) -> Slots:
        """With particle and preposition; a fronted object strands the latter: `whom she looks for`."""
        verb, found = clause.verb, Slots()
        if verb.particle:
            found["particle"] = [Phrase("PRT", (Leaf("RP", verb.particle, ((clause, "verb"),)),))]
        things = [self._nominal(thing, "accusative") for thing in clause.objects]
        if verb.preposition:
            # the German verb may need no preposition where the English one does
            part = "preposition" if verb.objects[0].preposition else "verb"
            words = [Leaf("TO" if verb.preposition == "to" else "IN", verb.preposition, ((clause, part),))]
            if clause.front != "object":
                return found | {"object": [self._prepositional(words, *things)]}
            found["particle"] = [self._prepositional(words)]
        for thing, tree in zip(clause.objects, things, strict=True):
            found.setdefault("pronoun" if is_personal(thing) else "object", []).append(tree)
        return found

    def _noun_words(self, phrase: NounPhrase, case: Case, negating: Clause | None) -> list[Leaf]:
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

    def _prepositional(self, words: list[Leaf], *inner: Phrase) -> Phrase:
        return Phrase("PP", (*words, *inner))


# German

GERMAN_TAGS = {"finite": "FIN", "infinitive": "INF", "participle": "PP"}
MIDDLE_FIELD = "pronoun time adverb known not adjunct new prepositional predicate"
"""Constituents between the finite verb and the verbs that end the clause."""
AFTER_GERMAN_VERBS = "relative inner"
DEFINITE = frozenset({"the", "this", "every", "my", "your", "his", "her", "our", "their"})
CONTRACTIONS = {
    **{("in", "dem"): "im", ("an", "dem"): "am", ("von", "dem"): "vom"},
    **{("zu", "dem"): "zum", ("zu", "der"): "zur"},
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


class German(Language):
    """German words and word order."""

    side = 1
    joined = "CS"

    def _main_clause(self, clause: Clause, *, question: bool = False, elided: bool = False) -> Phrase:
        """The finite verb second (or first); participles, infinitives and separated prefixes last."""
        finite, ending = self._verbs(clause, separated=True)
        found = self._slots(clause)
        front = found.pop(clause.front or ("" if question else "subject"), [])
        start = [*([] if elided else front), finite, *_arranged(found, "subject")]
        return Phrase("S", (*start, *self._field(found, ending), *_arranged(found, AFTER_GERMAN_VERBS)))

    def _inner_clause(self, clause: Clause) -> list[Tree]:
        """Conjunction, relative pronoun or question word first, the finite verb last, enclosed in commas.

        `syntax.written` drops the commas at the edge of the sentence.
        """
        finite, ending = self._verbs(clause, separated=False)
        found = self._slots(clause)
        front = found.pop(clause.front, [])
        start = [*self._conjunction(clause), *front, *_arranged(found, "subject")]
        end = [finite, *_arranged(found, AFTER_GERMAN_VERBS)]
        whole = Phrase("S", (*start, *self._field(found, ending), *end))
        return [Leaf("$,", ","), whole, *self._spell(COMMA, clause, "comma")]

    def _field(self, found: Slots, ending: list[Leaf]) -> list[Tree]:
        field = _arranged(found, MIDDLE_FIELD)
        nonfinite = ending and ending[-1].tag != "PTKVZ"
        return [Phrase("VP", (*field, *ending))] if nonfinite else [*field, *ending]

    def _verbs(self, clause: Clause, *, separated: bool) -> tuple[Leaf, list[Leaf]]:
        """The finite verb, and the clause's end: the others, innermost first, or a separated prefix."""
        with_sein = clause.passive or clause.verb.auxiliary == "sein"
        chain = [
            (forms, meaning) for meaning in _auxiliaries(clause) if (forms := AUXILIARIES[meaning].german)
        ]
        chain = [
            (BE.german if meaning == "perfect" and with_sein else forms, meaning) for forms, meaning in chain
        ]
        verbs = []
        for forms, meaning, form in _asked([*chain, (clause.verb.german, "verb")]):
            is_apart = form == "participle" or (separated and form == "finite")
            word = ("" if is_apart else forms.prefix) + _word(clause, forms, form)
            verbs.append(_verb(clause, meaning, forms.kind + GERMAN_TAGS[form], word))
        finite, *others = verbs
        if separated and not others and clause.verb.german.prefix:
            return finite, [Leaf("PTKVZ", clause.verb.german.prefix, finite.origins)]
        return finite, others[::-1]

    def _objects(self, clause: Clause) -> Slots:
        """`not` merges with the first object that has `a` or no determiner, as `kein`."""
        found: Slots = {}
        for thing, slot in zip(clause.objects, clause.verb.objects, strict=False):
            phrase = thing if isinstance(thing, NounPhrase) else None
            indefinite = phrase is not None and phrase.determiner in {"", "a"}
            negating = clause if clause.negated and indefinite and "not" not in found else None
            if negating:
                found["not"] = []
            tree = self._nominal(thing, slot.case, negating=negating, extraposed=True)
            if slot.preposition:
                tree = self._prepositional([Leaf("APPR", slot.preposition, ((clause, "preposition"),))], tree)
            # new information comes late: an indefinite accusative object follows the place
            known = phrase is None or phrase.determiner in DEFINITE or slot.case == "dative"
            place = "pronoun" if is_personal(thing) else "known" if known else "new"
            place = "prepositional" if slot.preposition else place
            found.setdefault("object" if clause.front == "object" else place, []).append(tree)
            if phrase and phrase.relative:
                found["relative"] = self._inner_clause(phrase.relative)
        return found

    def _noun_words(self, phrase: NounPhrase, case: Case, negating: Clause | None) -> list[Leaf]:
        where = "plural" if phrase.plural else phrase.noun.gender
        determiner = DETERMINERS.get("no" if negating else phrase.determiner)
        words = []
        if determiner:
            negation = self._spell(NOT, negating, "not")[0].origins if negating else ()
            endings = EIN_WORDS if determiner.declension == "mixed" else DER_WORDS
            is_article = phrase.determiner == "the"
            form = ARTICLE[case, where] if is_article else determiner.german_stem + endings[case, where]
            words = [Leaf(determiner.german_tag, form, ((phrase, "determiner"), *negation))]
        elif phrase.determiner:
            words = [Leaf("CARD", NUMBERS[phrase.determiner], ((phrase, "determiner"),))]
        if phrase.very:
            words.append(Leaf("ADV", "sehr", ((phrase, "very"),)))
        if phrase.adjective:
            declension = determiner.declension if determiner else "strong"
            form = phrase.adjective.german_stem + ADJECTIVES[declension][case, where]
            words.append(Leaf("ADJA", form, ((phrase, "adjective"),)))
        return [*words, Leaf("NN", self._noun_form(phrase.noun, phrase.plural, case), ((phrase, "noun"),))]

    def _noun_form(self, noun: Noun, plural: bool, case: Case) -> str:
        if plural:
            return noun.german_plural + "n" * (case == "dative" and noun.german_plural[-1] not in "ns")
        # weak masculines (der Student, den Studenten) have the form of their plural except in the nominative
        weak = noun.is_human and noun.gender == "masculine" and noun.german_plural.endswith("n")
        return noun.german_plural if weak and case != "nominative" else noun.german

    def _prepositional(self, words: list[Leaf], inner: Phrase) -> Phrase:
        """Contracted with a plain article (`in dem` is `im`), but not before a relative clause."""
        article = inner.children[0]
        if isinstance(article, Leaf) and (words[0].word, article.word) in CONTRACTIONS:
            contraction = CONTRACTIONS[words[0].word, article.word]
            contracted = Leaf("APPRART", contraction, (*words[0].origins, *article.origins))
            return Phrase("PP", (contracted, Phrase("NP", inner.children[1:])))
        return Phrase("PP", (*words, inner))
