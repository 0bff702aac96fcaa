"""An export agrees if it gives the model's own log-probabilities and sub-words, and in no other case."""

import math
from collections.abc import Sequence

import pytest
import torch

from allyouneed.config.model import ModelConfig
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.errors import ModelError
from allyouneed.inference.engine_choice import build_engine
from allyouneed.inference.scoring import score_targets
from allyouneed.interop.parity import SENTENCES, TOLERANCE, Ids, require_agreement
from allyouneed.model.transformer import Transformer

TOKENIZER = Tokenizer.train([], "byte", 261)


class Copy:
    """What an export ought to be: the model itself, but that its log-probabilities may be off by a share."""

    def __init__(self, model: Transformer, relative: float = 0.0) -> None:
        self._model, self._relative = model, relative

    def encode(self, text: str) -> list[int]:
        return TOKENIZER.encode(text)

    def decode(self, ids: Ids) -> str:
        return TOKENIZER.decode(ids)

    def score(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[list[float]]:
        found = score_targets(build_engine(self._model), sources, targets)
        return [[(1 + self._relative) * value for value in score.token_log_probs] for score in found]


def build(**settings: object) -> Transformer:
    torch.manual_seed(0)
    sizes = {"d_model": 12, "d_ff": 20, "num_layers": 1, "num_heads": 2}
    return Transformer(ModelConfig(source_vocab_size=261, target_vocab_size=261, **sizes, **settings))  # type: ignore[arg-type]


def agreement(exported: Copy, model: Transformer) -> float:
    return require_agreement(exported, model, TOKENIZER, TOKENIZER)


def test_a_copy_of_the_model_agrees_exactly() -> None:
    model = build()
    assert agreement(Copy(model), model) == 0.0


def test_differences_are_measured_against_log_probabilities_below_minus_one() -> None:
    model = build()
    assert agreement(Copy(model, relative=TOLERANCE / 2), model) == pytest.approx(TOLERANCE / 2, rel=1e-6)
    with pytest.raises(ModelError, match=r"other log-probabilities than the model: 0\.0002 apart"):
        agreement(Copy(model, relative=2 * TOLERANCE), model)


def test_what_is_no_number_does_not_agree() -> None:
    model = build()
    with pytest.raises(ModelError, match="nan apart"):
        agreement(Copy(model, relative=math.nan), model)


def test_a_change_of_any_one_weight_between_the_embeddings_is_noticed() -> None:
    model = build()
    names = [name for name, _ in model.named_parameters() if not name.startswith("embeddings.")]
    unnoticed = []
    for name in names:
        changed = build()
        with torch.no_grad():
            changed.get_parameter(name).view(-1)[0] += 0.1
        try:
            agreement(Copy(changed), model)
        except ModelError:
            continue
        unnoticed.append(name)
    # Its first entry belongs to a key: it adds the same to all scores of a query, which the softmax cancels.
    assert unnoticed == ["decoder.0.cross_attention.key_value.bias"]


def test_learned_positions_are_compared_as_far_as_they_go() -> None:
    model = build(positions="learned", max_positions=7)
    assert agreement(Copy(model), model) == 0.0


def test_an_export_that_leaves_tokens_out_is_refused() -> None:
    class Shorter(Copy):
        def score(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[list[float]]:
            return [score[:-1] for score in super().score(sources, targets)]

    with pytest.raises(ModelError, match="does not score every token"):
        agreement(Shorter(build()), build())


def test_an_export_that_splits_or_joins_text_otherwise_is_refused() -> None:
    class Splits(Copy):
        def encode(self, text: str) -> list[int]:
            return super().encode(text.lower())

    class Joins(Copy):
        def decode(self, ids: Ids) -> str:
            return super().decode(ids).replace("  ", " ")

    with pytest.raises(ModelError, match="splits text into other sub-words"):
        agreement(Splits(build()), build())
    with pytest.raises(ModelError, match="joins sub-words to other text"):
        agreement(Joins(build()), build())


def test_the_sentences_hold_what_tokenisers_stumble_over() -> None:
    text = " ".join(SENTENCES)
    assert "</s>" in text
    assert "  " in text
    assert any(ord(character) > 0x2FFF for character in text)
