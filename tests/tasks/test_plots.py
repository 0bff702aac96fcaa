import json
from collections import Counter
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import numpy.typing as npt
import pytest
from matplotlib.figure import Figure

from allyouneed.errors import DiskError
from allyouneed.tasks import plots
from allyouneed.tasks.parsing.bracket_f1 import Brackets, BracketScores
from allyouneed.tasks.plots import last_events, plot_attention, plot_f1_by_length, plot_run

PNG = b"\x89PNG\r\n\x1a\n"
DARKEST_BLUE = np.array([8, 48, 107]) / 255  # of matplotlib's colour map, the colour of weight 1


def train(step: int, loss: float) -> dict[str, Any]:
    return {"event": "train", "step": step, "loss": loss, "learning_rate": step * 1e-6}


def write_log(run: Path, *events: dict[str, Any], torn: str = "") -> None:
    (run / "log.jsonl").write_bytes(("".join(json.dumps(event) + "\n" for event in events) + torn).encode())


def one_hot(target: int, source: int) -> npt.NDArray[np.float64]:
    weights = np.zeros((1, 3, 2))
    weights[0, target, source] = 1
    return weights


def centre_of_darkest(path: Path) -> tuple[float, float]:
    pixels = matplotlib.image.imread(path)[:, :, :3]
    pixels = pixels[:, : pixels.shape[1] * 2 // 3]  # leaves out the bar of colours
    rows, columns = np.nonzero(np.abs(pixels - DARKEST_BLUE).max(axis=2) < 0.01)
    return float(rows.mean()), float(columns.mean())


def test_the_last_event_of_a_repeated_step_counts() -> None:
    validate = {"event": "validate", "step": 20, "loss": 5.0}
    log = [train(10, 9.0), train(20, 8.0), validate, train(30, 7.0), {"event": "notice"}, train(20, 8.5)]
    assert last_events(log) == [
        train(10, 9.0),
        train(20, 8.5),
        validate,
        train(30, 7.0),
    ]


def test_loss_and_learning_rate_are_drawn_and_bleu_is_not_where_there_is_none(tmp_path: Path) -> None:
    validate = {"event": "validate", "step": 20, "loss": 8.0, "bleu": None}
    write_log(tmp_path, train(10, 9.0), train(20, 8.0), validate, torn='{"ev')
    assert plot_run(tmp_path) == [tmp_path / "loss.png", tmp_path / "learning_rate.png"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["learning_rate.png", "log.jsonl", "loss.png"]
    assert (tmp_path / "loss.png").read_bytes().startswith(PNG)


def test_bleu_is_drawn_where_there_is_any(tmp_path: Path) -> None:
    write_log(tmp_path, {"event": "validate", "step": 20, "loss": 8.0, "bleu": 31.4})
    assert plot_run(tmp_path) == [tmp_path / "loss.png", tmp_path / "bleu.png"]


def test_drawing_again_replaces_the_picture(tmp_path: Path) -> None:
    write_log(tmp_path, train(10, 9.0))
    plot_run(tmp_path)
    before = (tmp_path / "loss.png").read_bytes()
    write_log(tmp_path, train(10, 9.0), train(20, 3.0))
    plot_run(tmp_path)
    assert (tmp_path / "loss.png").read_bytes() != before


def test_steps_have_whole_numbers_on_a_short_axis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures: list[Figure] = []
    monkeypatch.setattr(plots, "save_figure", lambda figure, *_, **__: figures.append(figure))
    write_log(tmp_path, train(1, 9.0), train(2, 8.0))
    plot_run(tmp_path)
    assert figures
    for figure in figures:
        ticks = figure.axes[0].get_xticks()
        assert len(set(ticks)) == len(ticks) >= 2
        assert all(tick == round(tick) for tick in ticks)


def test_a_picture_that_cannot_be_written_is_a_disk_error_and_leaves_nothing(tmp_path: Path) -> None:
    write_log(tmp_path, train(10, 9.0))
    (tmp_path / "loss.png").mkdir()
    with pytest.raises(DiskError, match="directory"):
        plot_run(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.jsonl", "loss.png"]


def test_a_weight_is_drawn_in_the_row_of_its_target_and_the_column_of_its_source(tmp_path: Path) -> None:
    for name, weights in ("upper_right", one_hot(0, 1)), ("lower_left", one_hot(2, 0)):
        plot_attention(weights, ["a", "b"], ["c", "d", "e"], tmp_path / name)
    upper, right = centre_of_darkest(tmp_path / "upper_right")
    lower, left = centre_of_darkest(tmp_path / "lower_left")
    assert upper < lower
    assert left < right


@pytest.mark.parametrize("num_heads", [1, 3, 5, 8])
def test_any_number_of_heads_and_any_unicode_can_be_drawn(num_heads: int, tmp_path: Path) -> None:
    pieces = [" Hund", "$x_1^2", "犬", "\U0001f436", "\n\0", "\u05d0\u0627", "\U0010fffd", ""]
    weights = np.full((num_heads, 8, 8), 1 / 8)
    plot_attention(weights, pieces, pieces, tmp_path / "attention.png")
    assert (tmp_path / "attention.png").read_bytes().startswith(PNG)


def test_a_bar_is_as_high_as_the_f1_of_its_lengths(tmp_path: Path) -> None:
    scores = BracketScores(
        by_length={0: Brackets(9, 10, 10), 2: Brackets(3, 10, 10)}, num_by_length=Counter({0: 5, 2: 4})
    )
    plot_f1_by_length(scores, tmp_path / "lengths.png")
    pixels = matplotlib.image.imread(tmp_path / "lengths.png")[:, :, :3]
    is_blue = np.abs(pixels - np.array([31, 119, 180]) / 255).max(axis=2) < 0.01
    columns = np.flatnonzero(is_blue.any(axis=0))
    left, right = is_blue[:, columns[5]].sum(), is_blue[:, columns[-5]].sum()
    assert left / right == pytest.approx(3, rel=0.05)
