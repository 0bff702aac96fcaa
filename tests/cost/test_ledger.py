"""The ledger of a run has both figures of FLOPs, and the paper's are those of its Table 2."""

import json
from pathlib import Path

import pytest

from allyouneed.cli.program import main
from allyouneed.cost.ledger import TFLOPS, read_ledger
from allyouneed.errors import ModelError


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
        ("Tesla V100-SXM2-16GB", "float32", 15.7, "data sheet, float32"),
        ("Tesla V100-PCIE-16GB", "float32", 14.0, "data sheet, float32"),
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
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "cuda"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "cuda"),
        ("NVIDIA GeForce RTX 4090 D", "cuda"),
        ("NVIDIA GeForce RTX 3090 Ti", "cuda"),
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


START = {"event": "start", "processes": 1, "environment": {"device": "cpu", "device_name": "CPU"}}
COST = {"event": "cost", "step": 1, "seconds": 1.0, "matmul_flops": 1.0, "energy_joules": None, "peak": 1e9}


@pytest.mark.parametrize(
    "events",
    [
        [COST],
        [START, {"event": "cost"}],
        [START, COST | {"seconds": "long"}],
        [START, COST | {"seconds": float("nan")}],
        [START, COST | {"seconds": 10**400}],
        [START | {"processes": 0}, COST],
        [START | {"environment": []}, COST],
        [{"event": "start"}, COST],
    ],
)
def test_a_damaged_log_is_one_line(
    events: list[dict[str, object]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_run(tmp_path / "run", "Tesla P100", 8, 1.0)
    (run / "log.jsonl").write_bytes("".join(json.dumps(event) + "\n" for event in events).encode())
    assert main(["cost", str(run)]) == 4
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "log.jsonl: is damaged: its last start or cost is no such event" in err


def test_lines_of_a_log_that_are_no_events_are_skipped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_run(tmp_path / "run", "Tesla P100", 8, 1.0)
    with (run / "log.jsonl").open("ab") as log:
        log.write(b'{"event": []}\n[]\n' + b"[" * 100_000 + b'\n\xff\n{"event": ' + b"9" * 5_000 + b"}\n")
    assert main(["cost", str(run)]) == 0
    capsys.readouterr()


def test_a_run_that_took_no_time_has_no_share(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", str(write_run(tmp_path / "run", "Tesla P100", 8, 0.0))]) == 0
    assert "counted of formula" in capsys.readouterr().out


@pytest.mark.parametrize("value", ["nan", "inf", "0", "-1", "1e309"])
def test_a_price_is_a_positive_number(value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", str(tmp_path), f"--price-per-hour={value}"]) == 2
    assert "Must be > 0 and <= 1e+30." in capsys.readouterr().err
