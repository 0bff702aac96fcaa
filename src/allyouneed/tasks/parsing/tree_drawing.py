"""Draws trees as SVG, without scripts or embedded fonts, for light and dark pages."""

import html
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from allyouneed.tasks.parsing.linearisation import WORD
from allyouneed.tasks.parsing.trees import Tree, labels_around_words

_COLUMN, _GAP, _ROW, _MARGIN = 8.5, 14.0, 44.0, 16.0
"""Pixels: width of a character, gap between words, height of a level, and margin around a tree."""
_STYLE = (
    "svg{background:#fff}text{font:14px sans-serif;text-anchor:middle;fill:#1b1f24}"
    ".label{fill:#0b57b0;font-weight:600}.tag{fill:#5c6570;font-size:12px}path{stroke:#9aa3ad;fill:none;shape-rendering:crispEdges}"
    "@media(prefers-color-scheme:dark){svg{background:#14171b}text{fill:#e9ecef}"
    ".label{fill:#8ab8ff}.tag{fill:#a4adb7}path{stroke:#6b747e}}"
)
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def draw_trees(trees: Sequence[Tree]) -> str:
    """One SVG document with all trees, one below another; the words of a tree stand on one line."""
    parts, width, height = [], 0.0, 0.0
    for tree in trees:
        elements, tree_width, tree_height = _drawn(tree)
        title = _in_xml(" ".join(tree.words))
        parts += [f'<g transform="translate(0 {height:g})"><title>{title}</title>', *elements, "</g>"]
        width, height = max(width, tree_width), height + tree_height
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width:g}" height="{height:g}"'
        f' viewBox="0 0 {width:g} {height:g}"><style>{_STYLE}</style>'
    )
    return "\n".join([head, *parts, "</svg>\n"])


@dataclass
class _Node:
    """A constituent, or the tag of a word, with its position in the picture."""

    label: str
    parent: int
    """Index of the parent node; -1 for the root."""
    x: float = 0.0
    level: int = 0
    """Level above the words; 0 for a tag."""


def _drawn(tree: Tree) -> tuple[list[str], float, float]:
    """The elements of a tree's picture, its width and its height in pixels.

    Each constituent is centred above its children, as low as they allow.
    """
    nodes, tags = _nodes(tree)
    x = _MARGIN
    for tag, width in zip(tags, _leaf_widths(tree), strict=True):
        nodes[tag].x = x + width / 2
        x += width + _GAP
    children: list[list[_Node]] = [[] for _ in nodes]
    for node, inside in zip(reversed(nodes), reversed(children), strict=True):  # children before parents
        if inside:
            node.x = (inside[0].x + inside[-1].x) / 2
            node.level = 1 + max(child.level for child in inside)
        if node.parent >= 0:
            children[node.parent].append(node)
    words_y = _MARGIN + _ROW * nodes[0].level + 34
    return list(_elements(tree, nodes, set(tags), words_y)), x - _GAP + _MARGIN, words_y + _MARGIN


def _nodes(tree: Tree) -> tuple[list[_Node], list[int]]:
    """Constituents and tags, parents before children; and the indices of the tags."""
    nodes: list[_Node] = []
    tags: list[int] = []
    open_nodes = [-1]
    around = labels_around_words(tree.constituents, len(tree.words))
    for tag, (begun, ended) in zip(tree.tags, around, strict=True):
        for label in begun:
            nodes.append(_Node(label, open_nodes[-1]))
            open_nodes.append(len(nodes) - 1)
        tags.append(len(nodes))
        nodes.append(_Node(tag, open_nodes[-1]))
        del open_nodes[len(open_nodes) - len(ended) :]
    return nodes, tags


def _leaf_widths(tree: Tree) -> list[float]:
    """Width of each word in pixels: room for the word, its tag, and constituents over it alone."""
    columns = [max(map(_columns, pair)) for pair in zip(tree.words, tree.tags, strict=True)]
    for label, start, end in tree.constituents:
        if end == start + 1:
            columns[start] = max(columns[start], _columns(label))
    return [_COLUMN * number for number in columns]


def _columns(text: str) -> int:
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(unicodedata.category(character) in ("Mn", "Me") for character in text)


def _elements(tree: Tree, nodes: Sequence[_Node], tags: set[int], words_y: float) -> Iterator[str]:
    """The elements of the picture: the lines first, then the text over them."""

    def y(node: _Node) -> float:
        return words_y - 20 - _ROW * node.level

    # Down, across and down: such lines never cross, unlike diagonal ones.
    lines = (
        f"M{nodes[node.parent].x:g} {y(nodes[node.parent]) + 5:g}v7H{node.x:g}V{y(node) - 14:g}"
        for node in nodes[1:]
    )
    yield f'<path d="{"".join(lines)}"/>'
    words = iter(tree.words)
    for place, node in enumerate(nodes):
        if node.label != WORD:
            kind = "tag" if place in tags else "label"
            yield f'<text class="{kind}" x="{node.x:g}" y="{y(node):g}">{_in_xml(node.label)}</text>'
        if place in tags:
            yield f'<text x="{node.x:g}" y="{words_y:g}">{_in_xml(next(words))}</text>'


def _in_xml(text: str) -> str:
    return html.escape(_NOT_IN_XML.sub("\N{REPLACEMENT CHARACTER}", text))
