"""German words, order and trees (STTS tags, TIGER labels, no gaps) for the structures of `syntax`."""

from allyouneed.demo.grammar.german_morphology import (
    CONTRACTIONS,
    DETERMINER_TAGS,
    RELATIVE,
    adjective_form,
    column,
    determiner_form,
    noun_form,
    pronoun_form,
)
from allyouneed.demo.grammar.german_verbs import verb_cluster, zu_infinitive
from allyouneed.demo.grammar.lexicon import Case
from allyouneed.demo.grammar.syntax import (
    NUMBERS,
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
)
from allyouneed.demo.grammar.trees import Leaf, Origin, Phrase, Tree

DEFINITE = frozenset({"the", "this", "every", "my", "your", "his", "her", "our", "their"})
WORD_TAGS = {"der": "ART", "Nähe": "NN"}
"""Tags of the words in prepositions that are not APPR."""


def sentence(structure: Sentence) -> Phrase:
    """The tree of a whole sentence with its final mark."""
    mark = Leaf("$.", "?" if structure.question else ".", ((structure, "mark"),))
    if len(structure.clauses) == 2:
        return Phrase("CS", (*_coordinated(structure), mark))
    (clause,) = structure.clauses
    body = _main_clause(clause, verb_first=structure.question and clause.front is None)
    return Phrase(body.label, (*body.children, mark))


def _coordinated(structure: Sentence) -> tuple[Tree, ...]:
    first, second = structure.clauses
    conjunction = Leaf("KON", structure.german_conjunction, ((structure, "conjunction"),))
    comma = (Leaf("$,", ",", ((structure, "comma"),)),) if structure.german_conjunction == "aber" else ()
    return (
        _main_clause(first),
        *comma,
        conjunction,
        _main_clause(second, elided=second.subject is first.subject),
    )


# Clauses


def _main_clause(clause: Clause, *, verb_first: bool = False, elided: bool = False) -> Phrase:
    """The finite verb second (or first); participles, infinitives and separated prefixes last."""
    finite, tail = verb_cluster(clause, separated=True)
    subject = () if elided else _subject(clause)
    front, middle = (subject, ()) if clause.front is None and not verb_first else (_front(clause), subject)
    return Phrase("S", (*front, finite, *middle, *_predicate_field(clause, tail), *_after_field(clause)))


def _verb_final(clause: Clause, conjunction: tuple[Leaf, ...] = ()) -> Phrase:
    """A subordinate clause: conjunction, relative pronoun or question word first, the finite verb last."""
    finite, tail = verb_cluster(clause, separated=False)
    opening = (*conjunction, *_front(clause), *_subject(clause))
    return Phrase("S", (*opening, *_predicate_field(clause, tail), finite, *_after_field(clause)))


def _subordinate(subordinate: Subordinate) -> Phrase:
    clause = subordinate.clause
    origin: Origin = (subordinate, "conjunction")
    if subordinate.infinitive:
        # English may say with `to` alone what German says with `um .. zu`
        um = tuple(Leaf("KOUI", word, (origin, (clause, "to"))) for word in subordinate.german.split())
        return Phrase("VP", (*um, *_middle_field(clause), zu_infinitive(clause)))
    return _verb_final(clause, tuple(Leaf("KOUS", word, (origin,)) for word in subordinate.german.split()))


def _subject(clause: Clause) -> tuple[Tree, ...]:
    return () if clause.front is clause.subject else (_nominal(clause.subject, "nominative"),)


def _front(clause: Clause) -> tuple[Tree, ...]:
    match clause.front:
        case None:
            return ()
        case Adjunct() | Adverbial() as fronted:
            return (_adjunct(fronted),)
        case Subordinate() as fronted:
            return (_subordinate(fronted), Leaf("$,", ",", ((fronted, "comma"),)))
        case clause.subject as fronted:
            return (_nominal(fronted, "nominative"),)
    slots = zip(clause.objects, clause.verb.objects, strict=True)
    return tuple(_nominal(thing, slot.case) for thing, slot in slots if thing is clause.front)


def _after_field(clause: Clause) -> tuple[Tree, ...]:
    """What follows even a final verb: standard of comparison, relative clauses of objects, other clauses."""
    inner = clause.subordinate
    standard = _standard(clause.predicate) if clause.predicate else ()
    objects = (
        thing for thing in clause.objects if isinstance(thing, NounPhrase) and thing is not clause.front
    )
    relatives = [
        tree for thing in objects if thing.relative for tree in _enclosed(_verb_final(thing.relative))
    ]
    return (
        *standard,
        *relatives,
        *(_enclosed(_subordinate(inner)) if inner and inner is not clause.front else ()),
    )


def _enclosed(clause: Phrase) -> tuple[Tree, ...]:
    """A clause between its two commas; `trees.as_written` drops those at the edge of the sentence."""
    return (Leaf("$,", ","), clause, Leaf("$,", ","))


# The field between the finite verb and the end of the clause


def _predicate_field(clause: Clause, tail: list[Leaf]) -> tuple[Tree, ...]:
    field = _middle_field(clause)
    if tail and tail[-1].tag != "PTKVZ":
        return (Phrase("VP", (*field, *tail)),)
    return (*field, *tail)


def _middle_field(clause: Clause) -> list[Tree]:
    """Pronouns, time, known things, negation, place, new things, prepositional object, predicate."""
    kein_host = _kein_host(clause)
    objects = _objects(clause, kein_host)
    time = [_adjunct(clause.time)] if clause.time and clause.time is not clause.front else []
    adverb = [_adjunct(clause.adverb)] if clause.adverb else []
    nicht = [Leaf("PTKNEG", "nicht", ((clause, "not"),))] if clause.negated and kein_host is None else []
    gern = [Leaf("ADV", "gern", ((clause, "modal"),))] if clause.modal == "like" else []
    # English says place before manner and company, German the reverse
    places = [_adjunct(item) for item in reversed(clause.adjuncts) if item is not clause.front]
    predicate = _predicate(clause.predicate) if clause.predicate else []
    known = [*objects["pronoun"], *time, *adverb, *objects["known"]]
    return [*known, *nicht, *gern, *places, *objects["new"], *objects["prepositional"], *predicate]


def _objects(clause: Clause, kein_host: Nominal | None) -> dict[str, list[Tree]]:
    """The objects by where they stand in the field."""
    placed: dict[str, list[Tree]] = {"pronoun": [], "known": [], "new": [], "prepositional": []}
    for thing, slot in zip(clause.objects, clause.verb.objects, strict=False):
        if thing is clause.front:
            continue
        kein = (clause, "not") if thing is kein_host else None
        if slot.preposition:
            inner = _nominal(thing, slot.case, kein, extraposed=True)
            phrase = _prepositional_phrase(slot.preposition, thing, inner, (clause, "preposition"))
            placed["prepositional"].append(phrase)
        else:
            placed[_status(thing, slot.case)].append(_nominal(thing, slot.case, kein, extraposed=True))
    return placed


def _kein_host(clause: Clause) -> Nominal | None:
    """The object that carries the negation: `not .. a` and `not` with a bare plural are `kein`."""
    hosts = (
        thing for thing in clause.objects if isinstance(thing, NounPhrase) and thing.determiner in {"", "a"}
    )
    return next(hosts, None) if clause.negated else None


def _status(thing: Nominal, case: Case) -> str:
    """What is new comes late: an indefinite accusative object follows the place."""
    if isinstance(thing, Pronoun):
        return "pronoun"
    if isinstance(thing, Pair):
        return _status(thing.left, case)
    new = isinstance(thing, NounPhrase) and thing.determiner not in DEFINITE and case == "accusative"
    return "new" if new else "known"


def _predicate(predicate: Predicate) -> list[Tree]:
    adjective, degree = predicate.adjective, predicate.degree
    form = adjective.german_comparative if degree == "comparative" else adjective.german
    words: list[Tree] = [Leaf("ADJD", form, ((predicate, "adjective"),))]
    adverbs = {"very": "sehr", "too": "zu", "equal": "so"}
    if degree in adverbs:
        words.insert(0, Leaf("ADV", adverbs[degree], ((predicate, "degree"),)))
    return [Phrase("AP", tuple(words))] if len(words) > 1 else words


def _standard(predicate: Predicate) -> tuple[Tree, ...]:
    if predicate.standard is None:
        return ()
    than = Leaf("KOKOM", "wie" if predicate.degree == "equal" else "als", ((predicate, "than"),))
    return (Phrase("PP", (than, _nominal(predicate.standard, "nominative"))),)


# Nominals and adjuncts


def _nominal(
    structure: Nominal, case: Case, kein: Origin | None = None, *, extraposed: bool = False
) -> Phrase:
    """A noun phrase, name or pronoun in its case.

    `kein` is the negation that it carries, if any; its relative clause may be `extraposed` to the end.
    """
    match structure:
        case NounPhrase():
            words = (*_determiner(structure, case, kein), *_after_determiner(structure, case, kein))
            within = structure.relative if not extraposed else None
            return Phrase("NP", (*words, *(_enclosed(_verb_final(within)) if within else ())))
        case Name(german=words):
            return Phrase(
                "NP", tuple(Leaf("NE", word, ((structure, str(i)),)) for i, word in enumerate(words))
            )
        case Pair(left=left, right=right):
            conjunction = Leaf("KON", "und", ((structure, "and"),))
            return Phrase("CNP", (_nominal(left, case), conjunction, _nominal(right, case)))
        case Pronoun(word=word, gender=gender):
            tag, form = "PPER", pronoun_form(word, gender, case)
        case WhPronoun(word=word):
            tag, form = "PWS", pronoun_form(word, "neuter", case)
        case RelativePronoun(noun=noun, plural=plural):
            tag, form = "PRELS", RELATIVE[case][column(noun, plural)]
    return Phrase("NP", (Leaf(tag, form, ((structure, "noun"),)),))


def _determiner(phrase: NounPhrase, case: Case, kein: Origin | None) -> tuple[Leaf, ...]:
    determiner, where = phrase.determiner, column(phrase.noun, phrase.plural)
    origin: Origin = (phrase, "determiner")
    if kein:
        return (Leaf("PIAT", determiner_form("no", where, case), (origin, kein)),)
    if isinstance(phrase.possessor, RelativePronoun):
        owner = phrase.possessor
        return (Leaf("PRELAT", RELATIVE["genitive"][column(owner.noun, owner.plural)], ((owner, "noun"),)),)
    if determiner in DETERMINER_TAGS:
        how = (Leaf("PWAV", "wie", ((phrase, "how"),)),) if determiner == "how many" else ()
        return (*how, Leaf(DETERMINER_TAGS[determiner], determiner_form(determiner, where, case), (origin,)))
    return (Leaf("CARD", NUMBERS.get(determiner, determiner), (origin,)),) if determiner else ()


def _after_determiner(phrase: NounPhrase, case: Case, kein: Origin | None) -> list[Tree]:
    where, determiner = column(phrase.noun, phrase.plural), "no" if kein else phrase.determiner
    children: list[Tree] = [Leaf("ADV", "sehr", ((phrase, "very"),))] if phrase.very else []
    if phrase.adjective:
        form = adjective_form(phrase.adjective.german_stem, determiner, where, case)
        children.append(Leaf("ADJA", form, ((phrase, "adjective"),)))
    children.append(Leaf("NN", noun_form(phrase.noun, phrase.plural, case), ((phrase, "noun"),)))
    if isinstance(phrase.possessor, NounPhrase):
        children.append(_nominal(phrase.possessor, "genitive"))
    if phrase.place:
        children.append(_adjunct(phrase.place))
    return children


def _prepositional_phrase(german: str, structure: Nominal, inner: Phrase, origin: Origin) -> Phrase:
    """A preposition and its noun phrase, contracted with a plain singular article (`in dem` is `im`)."""
    article = inner.children[0]
    # an article that points to a relative clause keeps its stress: `von dem Hund, der schläft`
    contractible = (
        isinstance(structure, NounPhrase) and structure.determiner == "the" and not structure.relative
    )
    if contractible and isinstance(article, Leaf) and (german, article.word) in CONTRACTIONS:
        contraction = Leaf("APPRART", CONTRACTIONS[german, article.word], (origin, *article.origins))
        return Phrase("PP", (contraction, Phrase("NP", inner.children[1:])))
    words = tuple(Leaf(WORD_TAGS.get(word, "APPR"), word, (origin,)) for word in german.split())
    return Phrase("PP", (*words, inner))


def _adjunct(structure: Adjunct | Adverbial) -> Tree:
    if isinstance(structure, Adverbial):
        return _adverbial(structure)
    preposition = structure.preposition
    inner = _nominal(structure.nominal, preposition.case)
    return _prepositional_phrase(preposition.german, structure.nominal, inner, (structure, "preposition"))


def _adverbial(structure: Adverbial) -> Tree:
    words = tuple(
        Leaf(tag, word, tuple((structure, f"{i}-{k}") for i, k in structure.links if k == j))
        for j, (tag, word) in enumerate(structure.german)
    )
    if len(words) == 1:
        return words[0]
    return Phrase("PP" if words[0].tag in {"APPR", "APPRART"} else "NP", words)
