"""What a run costs is added up over updates and resumes; energy is read where there are counters."""

import copy
import math
from pathlib import Path

import pytest
import torch
from torch.nn import functional

from allyouneed.config.run import RunConfig, TrainingConfig
from allyouneed.hardware.energy import EnergyMeter
from allyouneed.inference.scoring import score_targets
from allyouneed.inference.torch_engine import TorchEngine
from allyouneed.model.transformer import Transformer
from allyouneed.storage.run_directory import RunDirectory
from allyouneed.storage.run_log import Event, read_log
from allyouneed.symbols import END, START
from allyouneed.training import meters
from allyouneed.training.flops import batch_flops
from allyouneed.training.meters import Best, CostMeter, Interval, perplexity_of, validation_loss
from allyouneed.training.trainer import Corpus, Trainer

CPU = torch.device("cpu")


def write_counter(powercap: Path, zone: str, name: str, microjoules: int, largest: int = 1_000_000) -> None:
    (powercap / zone).mkdir(exist_ok=True)
    (powercap / zone / "name").write_bytes(f"{name}\n".encode())
    (powercap / zone / "energy_uj").write_bytes(b"%d\n" % microjoules)
    (powercap / zone / "max_energy_range_uj").write_bytes(b"%d\n" % largest)


def test_energy_is_the_sum_of_the_packages_and_counters_may_run_over(tmp_path: Path) -> None:
    write_counter(tmp_path, "intel-rapl:0", "package-0", 900_000)
    write_counter(tmp_path, "intel-rapl:1", "package-1", 100_000)
    write_counter(tmp_path, "intel-rapl:0:0", "core", 5)  # a part of the first
    write_counter(tmp_path, "intel-rapl:2", "psys", 900_005)  # all there is
    meter = EnergyMeter(CPU, tmp_path)
    write_counter(tmp_path, "intel-rapl:0", "package-0", 300_000)  # 400,000 further
    write_counter(tmp_path, "intel-rapl:1", "package-1", 150_000)
    write_counter(tmp_path, "intel-rapl:0:0", "core", 99)
    write_counter(tmp_path, "intel-rapl:2", "psys", 999_999)
    assert meter.joules() == pytest.approx(0.45)
    write_counter(tmp_path, "intel-rapl:1", "package-1", 250_000)
    assert meter.joules() == pytest.approx(0.55)


def test_energy_is_unknown_where_there_are_no_counters(tmp_path: Path) -> None:
    assert EnergyMeter(CPU, tmp_path).joules() is None
    (tmp_path / "intel-rapl:0").mkdir()
    assert EnergyMeter(CPU, tmp_path).joules() is None


def test_a_meter_goes_on_from_what_it_read_and_knows_no_energy_from_before_it_was_kept() -> None:
    meter = CostMeter(CPU, clock=iter([100.0, 101.0, 101.5]).__next__)
    meter.add(5)
    again = CostMeter(CPU, clock=iter([200.0, 201.0, 203.0, 204.0, 205.0, 205.0]).__next__)
    again.restore(meter.read())
    again.add(2)
    assert again.read() == {"seconds": 4.5, "matmul_flops": 7, "energy_joules": None}
    again.restore({})
    assert again.read() == {"seconds": 0.0, "matmul_flops": 0.0, "energy_joules": None}


def test_budgets_are_told_with_what_is_used_of_them_also_before_a_resume() -> None:
    training = TrainingConfig(budget_seconds=3.0, budget_flops=7.0)
    meter = CostMeter(CPU, clock=iter([9.0, 10.0, 10.5, 11.0]).__next__)
    assert meter.budgets(TrainingConfig()) == {}
    meter.restore({"seconds": 1.5, "matmul_flops": 5.0})
    assert meter.budgets(training) == {"seconds": (1.5, 3.0), "matmul_flops": (5.0, 7.0)}
    assert not meter.is_over(training)
    meter.add(2)
    assert meter.budgets(training) == {"seconds": (2.0, 3.0), "matmul_flops": (7.0, 7.0)}
    assert meter.is_over(training)


def test_the_energy_of_several_processes_is_unknown_as_each_sees_its_own_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_counter(tmp_path, "intel-rapl:0", "package-0", 0)
    monkeypatch.setattr(meters, "EnergyMeter", lambda device: EnergyMeter(device, tmp_path))
    assert CostMeter(CPU).read()["energy_joules"] == 0.0
    assert CostMeter(CPU, num_processes=2).read()["energy_joules"] is None


def test_counters_that_run_over_between_checkpoints_are_read_in_time(
    run: Path, config: RunConfig, corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = 0

    def use_energy(event: Event) -> None:
        nonlocal used
        if event["event"] == "train":
            used += 600_000
            write_counter(tmp_path, "intel-rapl:0", "package-0", used % 1_000_000)

    write_counter(tmp_path, "intel-rapl:0", "package-0", 0)
    monkeypatch.setattr(meters, "EnergyMeter", lambda device: EnergyMeter(device, tmp_path))
    monkeypatch.setattr("allyouneed.training.trainer._LOG_EVERY_STEPS", 1)
    rarely = config.replace(training={"num_steps": 9, "checkpoint_every_steps": 9})
    Trainer(rarely, corpus, RunDirectory(run), CPU, report=use_energy).train()
    *_, cost = (event for event in read_log(run / "log.jsonl") if event["event"] == "cost")
    assert cost["energy_joules"] == pytest.approx(9 * 0.6)


def test_a_run_killed_after_its_last_save_has_logged_its_cost(
    run: Path, config: RunConfig, corpus: Corpus
) -> None:
    class Killed(BaseException):
        pass

    def kill(event: Event) -> None:
        if event["event"] == "checkpoint" and event["step"] == config.training.num_steps:
            raise Killed

    with pytest.raises(Killed):
        Trainer(config, corpus, RunDirectory(run), CPU, report=kill).train()
    again = Trainer(config, corpus, RunDirectory(run), CPU)
    again.resume(config.training.num_steps)
    again.train()
    costs = [event["step"] for event in read_log(run / "log.jsonl") if event["event"] == "cost"]
    assert costs[-1] == config.training.num_steps


def test_the_log_has_the_flops_of_all_updates_across_a_resume(
    run: Path, config: RunConfig, corpus: Corpus
) -> None:
    first = config.replace(training={"num_steps": 5})
    Trainer(first, corpus, RunDirectory(run), CPU).train()
    resumed = Trainer(config, corpus, RunDirectory(run), CPU)
    resumed.resume(5)
    resumed.train()
    costs = {event["step"]: event for event in read_log(run / "log.jsonl") if event["event"] == "cost"}
    batches = resumed.schedule.batches_from(0)
    flops = [batch_flops(config.model, corpus.train, next(batches)) for _ in range(12)]
    assert costs[5]["matmul_flops"] == sum(flops[:5])
    assert costs[12]["matmul_flops"] == sum(flops)
    assert costs[12]["seconds"] > costs[5]["seconds"] > 0


def test_the_loss_of_an_interval_is_the_mean_over_its_tokens() -> None:
    interval = Interval(torch.device("cpu"))
    interval.add(torch.tensor(6.0), tokens=2, flops=30)
    interval.add(torch.tensor(1.0), tokens=5, flops=10)
    loss, update_speed, speed, flops_speed = interval.read()
    assert loss == 1.0
    assert flops_speed / speed == pytest.approx(40 / 7)
    assert update_speed / speed == pytest.approx(2 / 7)


def test_an_update_that_was_not_finite_is_left_out_of_the_loss() -> None:
    interval = Interval(torch.device("cpu"))
    interval.add(torch.tensor(6.0), tokens=2, flops=30)
    interval.add(torch.tensor(math.nan), tokens=5, flops=10)
    assert interval.read().loss == 3.0
    interval.add(torch.tensor(math.inf), tokens=5, flops=10)
    assert interval.read().loss is None


def test_reading_an_interval_begins_another() -> None:
    interval = Interval(torch.device("cpu"))
    interval.add(torch.tensor(6.0), tokens=2, flops=30)
    interval.read()
    interval.add(torch.tensor(8.0), tokens=4, flops=10)
    assert interval.read().loss == 2.0


def test_the_best_validation_is_that_of_the_highest_bleu_whatever_its_loss() -> None:
    best = Best()
    assert best.update(1, loss=2.0, score=10.0)
    assert not best.update(2, loss=1.0, score=10.0)
    assert not best.update(3, loss=0.5, score=9.0)
    assert (best.step, best.since) == (1, 2)
    assert best.update(4, loss=9.0, score=10.5)
    assert (best.step, best.since) == (4, 0)


def test_while_bleu_is_0_the_best_validation_is_that_of_the_lowest_loss() -> None:
    best = Best()
    assert [best.update(step, loss, 0.0) for step, loss in enumerate([3.0, 2.0, 2.5])] == [True, True, False]
    assert best.is_out_of(1)
    assert not best.is_out_of(2)
    assert not best.is_out_of(None)
    assert best.update(4, loss=9.0, score=0.1)


def test_without_bleu_the_best_validation_is_that_of_the_lowest_loss() -> None:
    best = Best()
    assert [best.update(step, loss, None) for step, loss in enumerate([3.0, 2.0, 2.5, math.nan])] == [
        True,
        True,
        False,
        False,
    ]
    assert (best.step, best.since) == (1, 2)


def test_perplexity_is_the_exponential_of_the_loss_and_never_overflows() -> None:
    assert perplexity_of(0.0) == 1.0
    assert perplexity_of(math.log(50)) == pytest.approx(50)
    assert perplexity_of(1e4) == math.inf


@pytest.fixture
def model(config: RunConfig) -> Transformer:
    torch.manual_seed(1)
    return Transformer(config.model).train()


@pytest.mark.parametrize("max_tokens", [1, 30, 4_096])
def test_the_validation_loss_is_the_mean_over_tokens_computed_sentence_by_sentence(
    model: Transformer, corpus: Corpus, monkeypatch: pytest.MonkeyPatch, max_tokens: int
) -> None:
    assert corpus.valid is not None
    exact, losses = copy.deepcopy(model).double().eval(), []
    for index in range(corpus.valid.num_pairs):
        source, target = (
            corpus.valid.source.sentence(index).tolist(),
            corpus.valid.target.sentence(index).tolist(),
        )
        hidden = exact(torch.tensor([[*source, END]]), torch.tensor([[START, *target]]))
        gold = torch.tensor([*target, END])
        losses.append(functional.cross_entropy(exact.project(hidden)[0], gold, reduction="none"))
    monkeypatch.setattr(meters, "_MAX_TOKENS", max_tokens)
    assert validation_loss(model, corpus.valid) == pytest.approx(torch.cat(losses).mean().item(), rel=1e-5)


def test_the_validation_loss_is_that_of_forced_decoding(model: Transformer, corpus: Corpus) -> None:
    assert corpus.valid is not None
    store, indices = corpus.valid, range(corpus.valid.num_pairs)
    scores = score_targets(
        TorchEngine(model),
        [store.source.sentence(i).tolist() for i in indices],
        [store.target.sentence(i).tolist() for i in indices],
    )
    log_probs = [log_prob for score in scores for log_prob in score.token_log_probs]
    assert validation_loss(model, store) == pytest.approx(-sum(log_probs) / len(log_probs), rel=1e-5)


@pytest.mark.parametrize("training", [True, False])
def test_validation_leaves_the_model_as_it_was(model: Transformer, corpus: Corpus, training: bool) -> None:
    assert corpus.valid is not None
    model.train(training)
    before = copy.deepcopy(model.state_dict())
    validation_loss(model, corpus.valid)
    assert all(module.training is training for module in model.modules())
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
