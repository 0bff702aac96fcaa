import copy

import pytest
import torch
from torch.nn import functional

from allyouneed.config.run import RunConfig
from allyouneed.inference.engine import Engine
from allyouneed.inference.scoring import score_targets
from allyouneed.model import Transformer
from allyouneed.symbols import END, START
from allyouneed.training import validation
from allyouneed.training.trainer import Corpus
from allyouneed.training.validation import validation_loss


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
        source, target = corpus.valid.source(index).tolist(), corpus.valid.target(index).tolist()
        hidden = exact(torch.tensor([[*source, END]]), torch.tensor([[START, *target]]))
        gold = torch.tensor([*target, END])
        losses.append(functional.cross_entropy(exact.project(hidden)[0], gold, reduction="none"))
    monkeypatch.setattr(validation, "_MAX_TOKENS", max_tokens)
    assert validation_loss(model, corpus.valid) == pytest.approx(torch.cat(losses).mean().item(), rel=1e-5)


def test_the_validation_loss_is_that_of_forced_decoding(model: Transformer, corpus: Corpus) -> None:
    assert corpus.valid is not None
    store, indices = corpus.valid, range(corpus.valid.num_pairs)
    scores = score_targets(
        Engine(model),
        [store.source(i).tolist() for i in indices],
        [store.target(i).tolist() for i in indices],
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
