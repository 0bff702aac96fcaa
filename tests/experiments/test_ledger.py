"""The ledger of a run has both figures of FLOPs, and the paper's are those of its Table 2."""

import json
from pathlib import Path

import pytest

from allyouneed.errors import ModelError
from allyouneed.experiments.ledger import TFLOPS, read_ledger
from allyouneed.interfaces.cli import main


def write_run(
    run: Path, name: str, processes: int, seconds: float, precision: str = "float32", device: str = "cuda"
) -> Path:
    run.mkdir()
    (run / "config.toml").write_bytes(f'[training]\nprecision = "{precision}"\n'.encode())
    events = [
        {"event": "start", "processes": processes, "environment": {"device": device, "device_name": name}},
        {
            "event": "cost",
            "step": 50,
            "seconds": 1.0,
            "matmul_flops": 1.0,
            "energy_joules": None,
            "peak": 6e11,
        },
        {"event": "cost", "step": 100, "seconds": seconds, "matmul_flops": 9.5e17, "energy_joules": 7.2e6}
        | {"peak": 6e11},
    ]
    (run / "log.jsonl").write_bytes("".join(json.dumps(event) + "\n" for event in events).encode())
    return run


def test_the_papers_base_run_costs_what_table_2_prints(tmp_path: Path) -> None:
    ledger = read_ledger(
        write_run(tmp_path / "run", "Tesla P100-SXM2-16GB", 8, 12 * 3600), price_per_hour=2.0
    )
    assert ledger.formula_flops == pytest.approx(3.28e18, rel=1e-3)
    assert ledger.matmul_flops == 9.5e17
    assert ledger.price == 12 * 8 * 2.0
    assert ledger.tflops_source == "the paper (6.1)"


@pytest.mark.parametrize(
    ("name", "precision", "tflops", "source"),
    [
        ("NVIDIA H100 80GB HBM3", "bfloat16", 989.0, "data sheet, bfloat16"),
        ("NVIDIA H200", "float32", 66.9, "data sheet, float32"),
        ("NVIDIA A100-SXM4-40GB", "float32", 19.5, "data sheet, float32"),
        ("NVIDIA A100 80GB PCIe", "bfloat16", 312.0, "data sheet, bfloat16"),
        ("NVIDIA GeForce RTX 4090", "bfloat16", 165.2, "data sheet, bfloat16"),
        ("Tesla V100-SXM2-16GB", "bfloat16", 15.7, "data sheet, float32"),
        ("NVIDIA L40S", "float32", 91.6, "data sheet, float32"),
        ("NVIDIA A10", "float32", 31.2, "data sheet, float32"),
        ("Tesla K80", "float32", 2.8, "the paper (6.1)"),
    ],
)
def test_a_gpu_is_found_by_its_name(
    tmp_path: Path, name: str, precision: str, tflops: float, source: str
) -> None:
    ledger = read_ledger(write_run(tmp_path / "run", name, 1, 1.0, precision))
    assert (ledger.device_tflops, ledger.tflops_source) == (tflops, source)


@pytest.mark.parametrize(
    ("name", "device"),
    [
        ("AMD EPYC", "cpu"),
        ("Intel(R) Xeon(R) with a T4 in its name", "cpu"),
        ("NVIDIA H100 PCIe", "cuda"),
        ("NVIDIA H200 NVL", "cuda"),
        ("NVIDIA GH200 480GB", "cuda"),
    ],
)
def test_of_a_device_that_no_table_knows_the_rate_is_what_was_measured(
    tmp_path: Path, name: str, device: str
) -> None:
    ledger = read_ledger(write_run(tmp_path / "run", name, 2, 1.0, device=device))
    assert ledger.device_tflops == pytest.approx(0.3)
    assert ledger.tflops_source == "measured on matrix products"
    assert read_ledger(tmp_path / "run", tflops=7.0).device_tflops == 7.0


def test_the_papers_four_gpus_have_its_rates() -> None:
    assert [TFLOPS["the paper (6.1)"][name] for name in ("K80", "K40", "M40", "P100")] == [2.8, 3.7, 6.0, 9.5]


def test_a_run_without_a_cost_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="is no run; give one, as RUN or OUT/ROW/seed-1/run"):
        read_ledger(tmp_path)
    run = write_run(tmp_path / "run", "Tesla P100", 8, 12 * 3600)
    (run / "log.jsonl").unlink()
    with pytest.raises(ModelError, match="recorded no cost"):
        read_ledger(run)


def test_the_command_prints_both_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path / "run", "Tesla P100", 8, 12 * 3600)
    assert main(["cost", str(run), "--price-per-hour", "2.5"]) == 0
    out = capsys.readouterr().out
    for part in ("9.50e+17", "3.28e+18", "29%", "2.000 kWh", "240.00", "8 x Tesla P100"):
        assert part in out
    assert main(["cost", str(run), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["formula_flops"] == pytest.approx(3.28e18, rel=1e-3)


@pytest.mark.parametrize(
    "changes",
    [
        {"start": None},
        {"start": {"processes": 0}},
        {"start": {"environment": "a GPU"}},
        {"start": {"environment": {"device": "cuda", "device_name": 3}}},
        {"cost": {"seconds": None}},
        {"cost": {"peak": None}},
    ],
    ids=str,
)
def test_a_log_that_no_run_writes_is_refused_with_its_name(
    tmp_path: Path, changes: dict[str, dict[str, object] | None]
) -> None:
    log = write_run(tmp_path / "run", "a GPU that no table knows", 1, 10.0, device="cpu") / "log.jsonl"
    events = [json.loads(line) for line in log.read_bytes().split(b"\n") if line]
    changed = [event | (changes.get(event["event"], {}) or {}) for event in events]
    kept = [event for event in changed if changes.get(event["event"], {}) is not None]
    log.write_bytes("".join(json.dumps(event) + "\n" for event in kept).encode())
    with pytest.raises(
        ModelError, match=r"log\.jsonl: its last events `start` and `cost` are not what a run"
    ):
        read_ledger(tmp_path / "run", price_per_hour=1.0)
