import math

import pytest
import torch

from allyouneed.training.meters import Best, Interval, perplexity_of


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
    assert Best(0.0, 4, 2).update(5, loss=3.0, score=0.0)  # from a state of an earlier version


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
