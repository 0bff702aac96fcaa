"""German verb clusters: the finite verb, and the verbs or the prefix that end the clause."""

from itertools import pairwise
from typing import NamedTuple

from allyouneed.demo.grammar.german_morphology import (
    AUXILIARIES,
    Agreement,
    VerbForm,
    VerbForms,
    verb_forms,
)
from allyouneed.demo.grammar.syntax import Clause, Nominal, is_first_person_singular, is_plural
from allyouneed.demo.grammar.trees import Leaf, Origin, Phrase

MODALS = {"can": "können", "must": "müssen", "should": "sollen", "want": "wollen"}


class Step(NamedTuple):
    """One verb of a cluster: its forms, what it expresses, and the form that it asks of the next verb."""

    forms: VerbForms
    part: str
    next_form: VerbForm


def verb_cluster(clause: Clause, *, separated: bool) -> tuple[Leaf, list[Leaf]]:
    """The finite verb, and what ends the clause: the other verbs, innermost first, or a separated prefix."""
    steps = _steps(clause)
    forms, part, _ = steps[0]
    table = forms.past if clause.tense == "past" else forms.present
    word = table[_agreement(clause.subject)]
    origin: Origin = (clause, part)
    if separated and forms.prefix:
        return Leaf("VVFIN", word, (origin,)), [Leaf("PTKVZ", forms.prefix, (origin,))]
    inner = [_nonfinite(step.forms, outer.next_form, (clause, step.part)) for outer, step in pairwise(steps)]
    return Leaf(forms.tag + "FIN", forms.prefix + word, (origin,)), inner[::-1]


def zu_infinitive(clause: Clause) -> Leaf | Phrase:
    """The main verb with its `zu`, which a separable verb takes inside: `einzuladen`."""
    forms = verb_forms(clause.verb)
    zu: Origin = (clause, "to")
    verb: Origin = (clause, "verb")
    if forms.prefix:
        return Leaf("VVIZU", f"{forms.prefix}zu{forms.infinitive}", (zu, verb))
    return Phrase("VZ", (Leaf("PTKZU", "zu", (zu,)), Leaf(forms.tag + "INF", forms.infinitive, (verb,))))


def _steps(clause: Clause) -> list[Step]:
    """The verbs from the finite one to the main one."""
    steps: list[Step] = []
    if clause.tense == "future":
        steps.append(Step(AUXILIARIES["werden"], "auxiliary", "infinitive"))
    if clause.modal in MODALS:
        steps.append(Step(AUXILIARIES[MODALS[clause.modal]], "modal", "infinitive"))
    if clause.tense == "perfect":
        auxiliary = "sein" if clause.passive else clause.verb.auxiliary
        steps.append(Step(AUXILIARIES[auxiliary], "auxiliary", "participle"))
    if clause.passive:
        steps.append(Step(AUXILIARIES["werden"], "passive", "participle"))
    return [*steps, Step(verb_forms(clause.verb), "verb", "infinitive")]


def _nonfinite(forms: VerbForms, form: VerbForm, origin: Origin) -> Leaf:
    if form == "participle":
        return Leaf(forms.tag + "PP", forms.participle, (origin,))
    return Leaf(forms.tag + "INF", forms.prefix + forms.infinitive, (origin,))


def _agreement(subject: Nominal) -> Agreement:
    return "first" if is_first_person_singular(subject) else "plural" if is_plural(subject) else "third"
