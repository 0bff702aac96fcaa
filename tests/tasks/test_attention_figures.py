"""Figures draw the lines of the chosen words and heads, and nothing else."""

import xml.etree.ElementTree as ET
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
import torch

from allyouneed.inference.attention_weights import AttentionWeights
from allyouneed.tasks.attention_figures import Form, draw_lines, head_colour
from allyouneed.tasks.attention_maps import AttendedText, Attention, Selection, Word

HOSTILE = ["<script>", "</svg>", "&amp;", "$x_1^2$", "犬", "\U0001f436", "<U+202E>", "א"]


def tokens(texts: list[str]) -> AttendedText:
    words = [Word(text, place, place + 1, (place, place + 1)) for place, text in enumerate(texts)]
    return AttendedText(
        " ".join(texts), texts, [(word.begin, word.end) for word in words], words, control=None
    )


def attention(texts: list[str], looks_at: list[list[int]]) -> Attention:
    """Of one layer; head h of word i looks at word `looks_at[h][i]` alone."""
    weights = torch.nn.functional.one_hot(torch.tensor(looks_at), len(texts)).float()[None]
    all_kinds = AttentionWeights(weights, weights, weights)
    return Attention(all_kinds, tokens(texts), tokens(texts), tokens(texts), [], 1)


def lines(path: Path) -> list[tuple[float, float]]:
    """The ends of each line of an SVG, in words from the first line's beginning."""
    (group,) = [node for node in ET.parse(path).iter() if node.get("id", "").startswith("LineCollection")]
    found = [path.get("d", "").split() for path in group.iter() if path.tag.endswith("path")]
    return [(float(d[1]), float(d[4])) for d in found]


def test_a_line_runs_from_each_word_to_the_one_it_looks_at(tmp_path: Path) -> None:
    path = tmp_path / "figure.svg"
    draw_lines(attention(["a", "b", "c"], [[2, 0, 0]]), Selection("encoder", 0, [0]), path, "svg")
    step = 0.27 * 72  # points from word to word
    first = min(begin for begin, _ in lines(path))
    in_words = sorted(
        (round((begin - first) / step, 3), round((end - first) / step, 3)) for begin, end in lines(path)
    )
    scale = in_words[1][0]
    assert [(begin / scale, end / scale) for begin, end in in_words] == [(0, 2), (1, 0), (2, 0)]


def test_only_lines_of_chosen_words_and_heads_are_drawn(tmp_path: Path) -> None:
    path = tmp_path / "figure.svg"
    shown = attention(["a", "b", "a"], [[0, 1, 2], [2, 2, 2]])
    draw_lines(shown, Selection("cross", 0, [1], ["a"]), path, "svg")
    assert len(lines(path)) == 2
    assert len({end for _, end in lines(path)}) == 1


def test_a_head_has_its_colour_whatever_is_drawn_beside_it_and_a_key_names_it(tmp_path: Path) -> None:
    strokes = []
    for heads in ([2], [0, 2]):
        path = tmp_path / "figure.svg"
        draw_lines(attention(["a", "b"], [[0, 1]] * 3), Selection("encoder", 0, heads), path, "svg")
        content = path.read_bytes().decode()
        strokes.append({colour for colour in map(head_colour, range(3)) if f"stroke: {colour}" in content})
        texts = [node.text for node in ET.parse(path).iter() if node.tag.endswith("text")]
        name = "Encoder, layer 1, head" + "s" * (len(heads) > 1)
        assert texts[4:] == [name, *(str(head + 1) for head in heads)]
    assert strokes == [{head_colour(2)}, {head_colour(0), head_colour(2)}]


@pytest.mark.parametrize("form", ["png", "svg", "pdf"])
def test_any_word_can_be_drawn(form: Form, tmp_path: Path) -> None:
    path = tmp_path / f"figure.{form}"
    draw_lines(attention(HOSTILE, [list(range(8))] * 12), Selection("decoder", 0, range(12)), path, form)
    if form == "svg":
        texts = [node.text for node in ET.parse(path).iter() if node.tag.endswith("text")]
        key = ["Decoder, layer 1, heads", *(str(head + 1) for head in range(12))]
        assert texts == [*HOSTILE * 2, *key]
    if form == "png":
        assert np.ptp(matplotlib.image.imread(path)[..., :3]) > 0.5
    assert path.stat().st_size > 1_000
