"""English verb clusters: the finite verb, the auxiliaries it needs (`do` included) and the main verb."""

from typing import Literal

from allyouneed.demo.grammar.syntax import Clause, Nominal, Pronoun, is_first_person_singular, is_plural
from allyouneed.demo.grammar.trees import Leaf, Origin

Form = Literal["present", "past", "base", "participle", "gerund"]
PrincipalParts = tuple[str, str, str, str]

AUXILIARIES: dict[str, PrincipalParts] = {
    "be": ("be", "was", "been", "being"),
    "have": ("have", "had", "had", "having"),
    "do": ("do", "did", "done", "doing"),
    "want": ("want", "wanted", "wanted", "wanting"),
    "like": ("like", "liked", "liked", "liking"),
}
MODALS = frozenset({"can", "must", "should", "will"})
LEXICAL_MODALS = frozenset({"want", "like"})
"""They take `to` and need `do` like other verbs; in German the one is a modal verb, the other an adverb."""

IRREGULAR_PRESENT = {"be": ("am", "is", "are"), "have": ("have", "has", "have")}
"""First person singular, third person singular, plural."""

FORM_TAGS: dict[Form, str] = {"past": "VBD", "base": "VB", "participle": "VBN", "gerund": "VBG"}


def verb_layers(clause: Clause, *, inverted: bool = False, infinitive: bool = False) -> list[Leaf]:
    """The verbs from the finite one to the main one; each step decides the form of the next."""
    form: Form = "base" if infinitive else "past" if clause.tense == "past" else "present"
    layers = [Leaf("TO", "to", ((clause, "to"),))] if infinitive else []
    for auxiliary, part, next_form in _auxiliaries(clause, inverted):
        layers.append(_leaf(AUXILIARIES.get(auxiliary, (auxiliary,) * 4), form, clause, (clause, part)))
        if auxiliary in LEXICAL_MODALS:
            layers.append(Leaf("TO", "to", ((clause, part),)))
        form = next_form
    verb = clause.verb
    parts = (verb.base, verb.past, verb.participle, verb.gerund)
    return [*layers, _leaf(parts, form, clause, (clause, "verb"))]


def _auxiliaries(clause: Clause, inverted: bool) -> list[tuple[str, str, Form]]:
    """(verb, part of the clause it expresses, form of the verb after it) from the outside in."""
    steps: list[tuple[str, str, Form]] = []
    if clause.tense == "future":
        steps.append(("will", "auxiliary", "base"))
    if clause.modal:
        steps.append((clause.modal, "modal", "base"))
    if clause.tense == "perfect":
        steps.append(("have", "auxiliary", "participle"))
    if clause.tense == "progressive":
        steps.append(("be", "verb", "gerund"))
    if clause.passive:
        steps.append(("be", "passive", "participle"))
    lexical = steps[0][0] in LEXICAL_MODALS if steps else clause.verb.base != "be"
    if lexical and (inverted or clause.negated):
        steps.insert(0, ("do", "modal" if steps else "verb", "base"))
    return steps


def _leaf(parts: PrincipalParts, form: Form, clause: Clause, origin: Origin) -> Leaf:
    base, past, participle, gerund = parts
    if base in MODALS:
        return Leaf("MD", base, (origin,))
    subject = clause.subject
    if isinstance(subject, Pronoun) and subject.word == "there":
        subject = clause.objects[0]
    if form == "present":
        third = not is_plural(subject) and not is_first_person_singular(subject)
        return Leaf("VBZ" if third else "VBP", _present(base, subject), (origin,))
    if base == "be" and is_plural(subject):
        past = "were"
    word = {"past": past, "base": base, "participle": participle, "gerund": gerund}[form]
    return Leaf(FORM_TAGS[form], word, (origin,))


def _present(base: str, subject: Nominal) -> str:
    first, third, plural = IRREGULAR_PRESENT.get(base, (base, _third_person(base), base))
    return first if is_first_person_singular(subject) else plural if is_plural(subject) else third


def _third_person(base: str) -> str:
    if base.endswith("y") and base[-2] not in "aeiou":
        return base[:-1] + "ies"
    return base + ("es" if base.endswith(("s", "sh", "ch", "x", "o")) else "s")
