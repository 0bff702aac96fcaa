"""Verb clusters of both languages from one table: the auxiliaries that a clause needs and their forms."""

from typing import Literal

from allyouneed.lab.demo.grammar.lexicon import Verb, VerbForms
from allyouneed.lab.demo.grammar.syntax import Clause, Leaf, agreement

Form = Literal["finite", "infinitive", "participle", "gerund"]
ENGLISH_TAGS = {"infinitive": "VB", "participle": "VBN", "gerund": "VBG"}
GERMAN_TAGS = {"finite": "FIN", "infinitive": "INF", "participle": "PP"}


def _forms(kind: str, infinitive: str, present: str, past: str = "", participle: str = "") -> VerbForms:
    return VerbForms(infinitive, tuple(present.split()), tuple(past.split()), participle, kind=kind)


def _modal(word: str) -> VerbForms:
    return _forms("MD", word, f"{word} {word} {word}")


BE = Verb(
    english=VerbForms("be", ("am", "is", "are"), ("was", "was", "were"), "been", "being"),
    german=_forms("VA", "sein", "bin ist sind", "war war waren", "gewesen"),
    particle="",
    preposition="",
    auxiliary="sein",
    subjects=(),
    objects=(),
    traits=frozenset({"stative"}),
)
"""The copula, also used as an auxiliary."""

HABEN = _forms("VA", "haben", "habe hat haben")
WERDEN = _forms("VA", "werden", "werde wird werden", "wurde wurde wurden", "worden")

STEPS: dict[str, tuple[VerbForms, VerbForms | None, Form]] = {
    "do": (_forms("VV", "do", "do does do", "did did did"), None, "infinitive"),
    "future": (_modal("will"), WERDEN, "infinitive"),
    "can": (_modal("can"), _forms("VM", "können", "kann kann können"), "infinitive"),
    "must": (_modal("must"), _forms("VM", "müssen", "muss muss müssen"), "infinitive"),
    "should": (_modal("should"), _forms("VM", "sollen", "sollte sollte sollten"), "infinitive"),
    "perfect": (_forms("VV", "have", "have has have"), HABEN, "participle"),
    "progressive": (BE.english, None, "gerund"),
    "passive": (BE.english, WERDEN, "participle"),
}
"""Auxiliaries by meaning, outermost first: the verb in both languages, and the form of the next verb."""


def english_verbs(clause: Clause, *, inverted: bool = False) -> list[Leaf]:
    """The verbs from the finite to the main one; `do` is added if no auxiliary can be inverted or negated."""
    steps = _steps(clause)
    if (inverted or clause.negated) and not steps and clause.verb is not BE:
        steps = ["do"]
    chain = [(STEPS[step][0], step) for step in steps]
    return [
        Leaf(_english_tag(clause, forms, form), _word(clause, forms, form), ((clause, _part(step)),))
        for forms, step, form in _asked([*chain, (clause.verb.english, "verb")])
    ]


def german_verbs(clause: Clause, *, separated: bool) -> tuple[Leaf, list[Leaf]]:
    """The finite verb, and the end of the clause: the other verbs, innermost first, or a separated prefix."""
    with_sein = clause.passive or clause.verb.auxiliary == "sein"
    chain = [(verb, step) for step in _steps(clause) if (verb := STEPS[step][1])]
    chain = [(BE.german if step == "perfect" and with_sein else verb, step) for verb, step in chain]
    finite, *others = [
        Leaf(
            forms.kind + GERMAN_TAGS[form],
            ("" if form == "participle" or (separated and form == "finite") else forms.prefix)
            + _word(clause, forms, form),
            ((clause, _part(step)),),
        )
        for forms, step, form in _asked([*chain, (clause.verb.german, "verb")])
    ]
    if separated and not others and clause.verb.german.prefix:
        return finite, [Leaf("PTKVZ", clause.verb.german.prefix, finite.origins)]
    return finite, others[::-1]


def _steps(clause: Clause) -> list[str]:
    wanted = {clause.tense, clause.modal, "passive" if clause.passive else ""}
    return [step for step in STEPS if step in wanted]


def _asked(chain: list[tuple[VerbForms, str]]) -> list[tuple[VerbForms, str, Form]]:
    """Each verb with the form that the preceding verb requires."""
    asked: list[Form] = ["finite", *(STEPS[step][2] for _, step in chain[:-1])]
    return [(forms, step, form) for (forms, step), form in zip(chain, asked, strict=True)]


def _part(step: str) -> str:
    """The meaning of the verb; an auxiliary that only English has counts as the main verb."""
    return "verb" if step in {"do", "progressive"} else step


def _word(clause: Clause, forms: VerbForms, form: Form) -> str:
    if form != "finite":
        return str(getattr(forms, form))
    return (forms.past if clause.tense == "past" else forms.present)[agreement(clause.subject)]


def _english_tag(clause: Clause, forms: VerbForms, form: Form) -> str:
    if form != "finite":
        return ENGLISH_TAGS[form]
    if forms.kind == "MD":
        return "MD"
    return "VBD" if clause.tense == "past" else "VBZ" if agreement(clause.subject) == 1 else "VBP"
