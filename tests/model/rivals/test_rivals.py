"""The rivals of Table 2 in the ordinary ways: trained, resumed, averaged, translating, never exported."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from allyouneed import RunConfig, average, load_translator, train
from allyouneed.config.run import SearchConfig
from allyouneed.data.batch_plans import make_batch
from allyouneed.errors import ModelError, UsageError
from allyouneed.inference.engine_choice import build_engine
from allyouneed.inference.generate import generate
from allyouneed.interop.exporting import export_model
from allyouneed.model.architectures import build_model
from allyouneed.preparation.prepared_data import PreparedData
from allyouneed.storage.run_directory import RunDirectory
from allyouneed.storage.run_log import read_log
from allyouneed.symbols import END, START
from allyouneed.training.loss import projected_loss
from allyouneed.training.update import accumulate_gradient

RIVALS: dict[str, dict[str, Any]] = {
    "recurrent": {"architecture": "recurrent"},
    "experts": {"architecture": "recurrent", "feed_forward": "experts", "num_experts": 4, "d_ff": 32},
    "transformer with experts": {"feed_forward": "experts", "num_experts": 4, "d_ff": 32, "num_heads": 2},
    "convolutional": {"architecture": "convolutional", "positions": "learned"},
    "bytenet": {"architecture": "bytenet", "num_layers": 3},
}


def config_of(rival: str, **training: Any) -> RunConfig:
    return RunConfig().replace(
        model={"d_model": 16, "num_layers": 2, **RIVALS[rival]},
        training={
            "batch_tokens": 400,
            "micro_batch_tokens": 200,
            "num_steps": 6,
            "warmup_steps": 3,
            "checkpoint_every_steps": 2,
            "average_last": 2,
            "precision": "float32",
            **training,
        },
    )


@pytest.mark.parametrize("rival", RIVALS)
def test_a_rival_is_trained_resumed_averaged_and_translates(
    rival: str, toy_data: Path, toy_model: Path, tmp_path: Path
) -> None:
    whole, parts, model = tmp_path / "whole", tmp_path / "parts", tmp_path / "model"
    train(whole, toy_data, config_of(rival))
    train(parts, toy_data, config_of(rival, num_steps=2))
    train(parts, toy_data, config_of(rival), resume=True)
    first, second = (
        (run / "checkpoints" / "step-00000006" / "model.safetensors").read_bytes() for run in (whole, parts)
    )
    assert first == second, "a resumed run has the same bits"
    states = [(run / "state" / "step-00000006" / "state.safetensors").read_bytes() for run in (whole, parts)]
    assert states[0] == states[1]

    average(parts, model)
    translator = load_translator(model)
    [found] = translator.translate(["sun moon"], beam_size=2)
    log_prob, num_tokens = translator.negative_log_likelihood(["sun moon"], [found.text])
    assert log_prob > 0
    assert num_tokens > 0
    [together] = load_translator(toy_model, model).translate(["sun moon"])
    assert isinstance(together.text, str)
    named = "model.feed_forward = experts" if rival == "transformer with experts" else "model.architecture = "
    with pytest.raises(ModelError, match=f"does not have this variant .*\\({re.escape(named)}"):
        export_model(model, "ctranslate2", tmp_path / "out")


@pytest.mark.parametrize("rival", RIVALS)
def test_a_rival_learns_a_handful_of_pairs_by_heart(rival: str) -> None:
    torch.manual_seed(1)
    vocabularies = {"source_vocab_size": 20, "target_vocab_size": 20}
    settings = {"d_model": 32, "num_layers": 2, "dropout": 0.0, **RIVALS[rival], **vocabularies}
    model = build_model(RunConfig().model.replace(**settings)).train()
    sources = torch.randint(5, 20, (6, 5))
    targets = torch.cat([sources.flip(1), torch.full((6, 1), END)], dim=1)
    sources = torch.cat([sources, torch.full((6, 1), END)], dim=1)
    read = torch.cat([torch.full((6, 1), START), targets[:, :-1]], dim=1)
    adam = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(600):
        adam.zero_grad()
        hidden = model(sources, read).flatten(0, 1)
        sums = projected_loss(hidden, model.embeddings.matrix("output"), targets.flatten(), 0.0)
        auxiliary = model.auxiliary_loss()
        (sums.smoothed / targets.numel() + (0 if auxiliary is None else auxiliary)).backward()
        adam.step()
        if sums.negative_log_likelihood.item() / targets.numel() < 0.01:  # nats a token
            break
    texts = [row[:-1].tolist() for row in sources]
    found = generate(build_engine(model.eval()), texts, SearchConfig(beam_size=2))
    assert [best.ids for best, *_ in found] == [text[::-1] for text in texts]


def test_the_losses_of_experts_weigh_as_much_as_the_tokens_of_their_batch(toy_data: Path) -> None:

    store = PreparedData(toy_data).train
    settings = {**RIVALS["experts"], "d_model": 16, "num_layers": 2, "dropout": 0.0, "expert_balance": 0.5}
    vocabularies = {"source_vocab_size": 290, "target_vocab_size": 290}
    model = build_model(RunConfig().model.replace(**settings, **vocabularies)).train()
    batch = make_batch(store, np.arange(5))
    gradients = []
    for num_target_tokens in (batch.num_target_tokens, 4 * batch.num_target_tokens):
        model.zero_grad()
        torch.manual_seed(0)
        accumulate_gradient(model, batch, num_target_tokens, 0.1, "float32")
        gradients.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
    for alone, of_a_quarter in zip(*gradients, strict=True):
        torch.testing.assert_close(alone, 4 * of_a_quarter)
    gate = model.get_parameter("encoder_experts.noise").grad
    assert gate is not None
    assert gate.any(), "the noise has a gradient by the losses"


@pytest.mark.parametrize("budget", ["flops", "seconds"])
def test_a_run_ends_when_its_budget_is_used_and_is_not_begun_again(
    budget: str, toy_data: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    train(run, toy_data, config_of("recurrent", num_steps=3))
    cost = [event for event in read_log(run / "log.jsonl") if event["event"] == "cost"][-1]
    amount = 1.5 * cost["matmul_flops"] if budget == "flops" else 1.5 * cost["seconds"]
    limited = config_of("recurrent", num_steps=5_000, **{f"budget_{budget}": amount})
    train(run, toy_data, limited, resume=True)
    directory = RunDirectory(run)
    last = max(directory.checkpoint_steps())
    assert 3 < last < 5_000
    begun = [event for event in read_log(run / "log.jsonl") if event["event"] == "start"]
    name = "matmul_flops" if budget == "flops" else "seconds"
    assert [start["budgets"] for start in begun] == [
        {},
        {name: [cost[name], amount]},
    ]
    cost = [event for event in read_log(run / "log.jsonl") if event["event"] == "cost"][-1]
    if budget == "flops":
        assert last == 5
        assert amount <= cost["matmul_flops"] < amount * (1 + 1 / 3)
    assert b"out of budget" in (run / "exit.json").read_bytes()
    train(run, toy_data, limited, resume=True)
    assert max(directory.checkpoint_steps()) == last


def test_a_rival_is_not_sharded(toy_data: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"training\.sharded: is for the transformer, not for"):
        train(tmp_path / "run", toy_data, config_of("bytenet", sharded=True))
