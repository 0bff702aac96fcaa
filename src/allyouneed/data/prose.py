"""Recognises what is not plain prose in a text: markup, subtitles, catalogues, placeholders, addresses.

The rules are conservative: ordinary prose, such as `I <3 you`, `AT&T`, `100 % sicher` or `10:30`, fits none.
"""

import re
from typing import Final

_TIME: Final = r"\b(?:\d{1,4}:)?\d\d:\d\d[,.]\d{2,3}"
_KINDS: Final = {
    "markup": r"""
        (?<!<)<(?!/?[^\W\d_abipqsuABIPQSU]>)                        # unlike `<<Bon>>` and `x<y>z`, a tag:
        /?[A-Za-z][\w:.-]*+(?:\s*+/?>|(?:\s++[\w:.-]++){1,3}\s*=)   # its name, then its end or `key=`
      | </?\d+/?> | <!(?:--|\[CDATA\[|DOCTYPE\b) | <\?\w+         # as in React, a comment, a declaration
      | &(?:\#\d+|\#[xX][\da-fA-F]+|[lg]t|[A-Za-z][A-Za-z\d]{2,31});  # an entity, unlike `B&Bs;`
      | \[/[A-Za-z]+\] | \[[^][\n]{1,80}\]\(\S+                     # BBCode, a link of Markdown
      | \{\\[A-Za-z\d][^{}\n]{0,80}\} | \\[nN]                    # of subtitles, a line break""",
    "a time code of subtitles": rf"{_TIME}\s*-->(?:\s*{_TIME})? | ^Dialogue:\s*\d+, | ^\[\d\d:\d\d\.\d\d\]",
    "a key of a catalogue or JSON file": r"""
        ^[ \t]*msg(?:id|str|ctxt|id_plural)(?:\[\d\])?\s*"          # gettext
      | ^[ \t{[,]+"[^"\n]{1,200}"\s*:\s*["{[\d]                   # JSON
      | ^"(?:[a-z][\w.-]*"\s*:\s*["{[\d]|[^"\n]{1,200}"\s*:\s*(?:"[^"\n]*"\s*)?[,{[]\s*$)
      | ^[ \t]*"[^"\n]{1,200}"\s*=\s*".*;\s*$                      # Apple's strings
      | ^[ \t]*'[^'\n]{1,200}'\s*=>\s*['[]                          # PHP
      | ^[ \t]*[A-Za-z][\w-]*(?:\.[\w-]+)+\s*=(?!=) | ^[a-z][\w-]{2,}=[^\s=]  # Java's properties""",
    "a placeholder": r"""
        (?<![\d%])%(?:\d+\$|\(\w+\))?[-+\#0]*+\d*(?:\.\d+)?(?:hh?|ll?|[zjtL])?[diouxXeEfFgGcsSpan@](?!\w)
      | (?<![\w%])%[A-Za-z_]\w*%
      | \{\{[^{}\n]{1,100}\}\}
      | <%[^%\n]{1,100}%> | \[\[[^][\n]{1,100}\]\] | (?<!\w)__[A-Za-z]\w*__(?!\w) | (?<![\w$])\$[a-z_]\w+
      | \{\w+\|[^{}\s]{1,40}\}
      | (?:[$#%]|(?!\{[^\W\dn_]\}))\{(?:[A-Za-z_][\w.-]*|\d*)(?:\[\w+\])*(?:![rsa])?(?::[^{}\s]{0,20})?\}
      | \{\w+,\s*(?:plural|select|selectordinal|number|date|time)\b""",
    "a URL": r"\b[A-Za-z][A-Za-z\d]{1,9}://\S+ | \bwww\.\w\S+",
    "an e-mail address": r"(?<![\w.+-])[\w.+-]++@[\w-]+\.[\w.-]*\w",
}
_NOT_PROSE: Final = re.compile("|".join(f"({each}\n)" for each in _KINDS.values()), re.VERBOSE | re.MULTILINE)
_SIGNS: Final = frozenset('<&]>%{:@="$_\\')
"""Each piece has one of these signs, or begins with `www.`."""


def not_prose_in(text: str) -> str | None:
    """The first piece of a text that is not plain prose, or None, in a time proportional to the text."""
    if _SIGNS.isdisjoint(text) and "www." not in text:  # as in most lines
        return None
    if found := _NOT_PROSE.search(text):
        kind = next(kind for kind, piece in zip(_KINDS, found.groups(), strict=True) if piece)
        return f"has {kind} (`{found[0].strip()[:80]}`)"
    return None
