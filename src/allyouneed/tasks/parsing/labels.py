"""Labels of treebanks: what a constituent is, and behind it what it is for."""

import re


def without_function(label: str) -> str:
    """`NP` of `NP-SBJ-1` and of `NP=2`, as EVALB has it; a label that begins so, `-LRB-`, is left whole."""
    if label.startswith("-"):
        return label
    return label[:1] + re.split("[-=]", label[1:], maxsplit=1)[0]
