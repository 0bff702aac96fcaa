"""Table 1 is measured, compared with the paper's, and written down as a page with pictures."""

import json
import math
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from allyouneed.lab.paper import layer_measurements, table1
from allyouneed.lab.paper.experiment import FAILED, Results
from allyouneed.lab.paper.layer_types import TYPES
from allyouneed.lab.paper.pages.results_page import as_terminal_table, write_report
from allyouneed.lab.paper.pages.results_table import results_table
from allyouneed.lab.paper.reproduction import reproduce
from allyouneed.lab.paper.scales import SCALES
from allyouneed.lab.paper.table1 import TABLE1, cheaper_from


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The experiment at sizes so small that times mean nothing."""
    out = tmp_path_factory.mktemp("table1")
    small = [
        replace(layer, lengths=(16, 32), widths=(8, 16), batch=1, width_of_lengths=16, length_of_widths=4)
        for layer in TYPES
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table1, "TYPES", small)
        patch.setattr(table1, "LENGTHS", (4, 8))
        patch.setattr(table1, "CONNECTED_N", 8)
        patch.setattr(table1, "_num_rounds", lambda scale: 1)
        patch.setattr(layer_measurements, "_LEAST_SECONDS", 1e-9)
        *_, results = reproduce(TABLE1, out, SCALES["tiny"], torch.device("cpu"))
        write_report(results)
        (out / "terminal.txt").write_bytes("\n".join(as_terminal_table(results_table(results))).encode())
    return out


def test_no_data_is_needed_and_every_row_is_measured(out: Path) -> None:
    squares = "self_attention", "fully_connected", "restricted"  # the last with sequences within a window
    for layer in TYPES:
        figures = json.loads((out / layer.name / "seed-1" / "result.json").read_bytes())
        assert figures["flops_n"] == pytest.approx(2 if layer.name in squares else 1)
        assert float(figures["path"]) == layer.path(8)
        assert figures["receptive_field"] == layer.receptive_field(8)
        assert figures["sequential_n"] == layer.sequential
        assert all(math.isfinite(figures[name]) for name in ("time_n", "time_d", "memory_n", "layer_d"))


def test_the_remark_on_separable_convolutions_holds_within_a_constant(out: Path) -> None:
    figures = json.loads((out / "separable_k_is_n" / "seed-1" / "result.json").read_bytes())
    n, d = 64, 256
    # 2n^2 d + 2nd^2 of the one; 4n^2 d + 8nd^2 and 16nd^2 of the two.
    shortest = (4 * n * n * d + 24 * n * d * d) / (2 * n * n * d + 2 * n * d * d)
    assert figures["ratio_shortest"] == pytest.approx(shortest)
    assert 2 < figures["ratio_longest"] < figures["ratio_shortest"] < 12


def test_the_page_has_the_paper_s_orders_and_its_pictures(out: Path) -> None:
    page, num_pictures = re.subn(
        r"data:image/svg\+xml;base64,[\w+/=]+", "", (out / "results.html").read_bytes().decode()
    )
    for text in (
        "O(n² · d)",
        "O(log_k n)",
        "O(n / r)",
        "∞",
        "Even with k = n",
        "How far information travels",
    ):
        assert text in page
    assert num_pictures == 7 + 7 + len(TYPES) + 1 + 1
    table = (out / "terminal.txt").read_bytes().decode()
    assert "recurrent (LSTM)" in table
    assert "BLEU" not in table + page, "nothing is trained here"


def test_the_verdict_says_how_far_the_measured_orders_are_from_the_papers(tmp_path: Path) -> None:
    rows = TABLE1.rows(SCALES["tiny"])
    measured = {row.name: {1: dict(row.paper)} for row in rows}
    measured["recurrent"][1]["time_d"] -= 0.13
    results = Results(TABLE1, SCALES["tiny"], rows, measured, tmp_path)
    assert results_table(results).verdict == (
        "The paper's orders hold: path lengths and sequential operations are off by at most 0, "
        "exponents of n and d by at most 0.00 in FLOPs and 0.13 in time."
    )
    measured["position_wise"][1]["path"] = 9.0
    assert "do not all hold: path lengths and sequential operations are off by at most inf" in (
        results_table(results).verdict
    )


def test_costs_of_core_and_layer_are_kept_at_every_size(out: Path) -> None:
    for layer in TYPES:
        figures = json.loads((out / layer.name / "seed-1" / "result.json").read_bytes())
        for curve in (figures["by_n"], figures["by_d"]):
            for cost in ("seconds", "flops", "bytes"):
                assert all(value > 0 for value in curve[cost])
                assert len(curve[f"layer_{cost}"]) == len(curve[cost])
            assert all(whole > core for core, whole in zip(curve["bytes"], curve["layer_bytes"], strict=True))


@pytest.mark.parametrize("failed", ["separable_k_is_n", "recurrent"])
def test_the_page_is_written_where_a_row_has_failed(failed: str, out: Path, tmp_path: Path) -> None:
    copied = tmp_path / "table1"
    shutil.copytree(out, copied)
    (copied / failed / "seed-1" / "result.json").write_bytes(json.dumps({FAILED: "no memory"}).encode())
    *_, results = reproduce(TABLE1, copied, SCALES["tiny"], torch.device("cpu"))
    assert FAILED in results.outcomes[failed][1]
    write_report(results)
    page = (copied / "results.html").read_bytes().decode()
    assert page.count("data:image/svg+xml;base64,") == 7 + 7 + len(TYPES) + 1  # one less than whole
    assert f"({FAILED})" in page


def test_the_exponents_of_the_paper_are_those_of_its_formulas() -> None:
    paper = {row.name: row.paper for row in TABLE1.rows(SCALES["tiny"])}
    assert [paper["self_attention"][f] for f in ("time_n", "time_d", "path")] == [2, 1, 1]
    assert [paper["recurrent"][f] for f in ("time_n", "time_d", "sequential_n")] == [1, 2, 1]
    assert [paper["restricted"][f] for f in ("time_n", "time_d")] == [1, 1]
    assert [paper["fully_connected"][f] for f in ("time_n", "time_d")] == [2, 2]
    assert paper["separable"]["time_d"] == pytest.approx(2, abs=0.02)  # n d^2 outweighs k n d
    assert paper["recurrent"]["cheaper_from"] == 256, "n = d"


def test_a_layer_is_cheaper_from_where_its_cost_meets_that_of_self_attention() -> None:
    n = [16, 32, 64]
    attention = {"by_n": {"n": n, "d": [8] * 3, "seconds": [x * x for x in n], "flops": [x * x for x in n]}}
    other = {"by_n": {"n": n, "d": [8] * 3, "seconds": [40 * x for x in n], "flops": [9 * x for x in n]}}
    found = cheaper_from(other, attention)
    assert found == {"cheaper_from": pytest.approx(40), "cheaper_from_flops": pytest.approx(9)}
    assert cheaper_from(attention, attention) == {}
    assert cheaper_from({"failed": "no memory"}, attention) == {}
    wider = {"by_n": {**other["by_n"], "d": [9] * 3}}
    assert cheaper_from(wider, attention) == {}


def test_the_quick_scale_leaves_out_the_largest_sizes() -> None:
    quick, tiny = (TABLE1.rows(TABLE1.scale(name)) for name in ("quick", "tiny"))
    assert [row.name for row in quick] == [row.name for row in tiny]
    assert all(short.paper.keys() == long.paper.keys() for short, long in zip(quick, tiny, strict=True))
    of_attention = quick[0].compute.args[0]  # type: ignore[attr-defined]
    assert of_attention.lengths == TYPES[0].lengths[:-1]
