"""Labels of treebanks: a category, optionally followed by function tags."""

import re


def without_function(label: str) -> str:
    """`NP` for `NP-SBJ-1` and `NP=2`, as in EVALB; labels that begin with `-`, as `-LRB-`, stay whole."""
    if label.startswith("-"):
        return label
    return label[:1] + re.split("[-=]", label[1:], maxsplit=1)[0]
