"""The pairs that a run is trained on: those of its data, and those that it replays from other data."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from allyouneed.config.run import TrainingConfig
from allyouneed.data.store import PairStore
from allyouneed.errors import DataError
from allyouneed.preparation.prepared_data import PreparedData


class TrainingPairs(NamedTuple):
    """Pairs, the replayed ones last."""

    store: PairStore
    facts: Mapping[str, Any]
    """Identity of the data: SHA-256 of corpora and tokenisers."""


def training_pairs(prepared: PreparedData, training: TrainingConfig) -> TrainingPairs:
    """The pairs that a run is trained on.

    Raises:
        DataError: The data to replay have other tokenisers.
        ModelError: The data to replay are damaged.
    """
    if training.replay is None:
        return TrainingPairs(prepared.train, prepared.facts)
    other = PreparedData(training.replay)
    if other.units != prepared.units:
        raise DataError(
            f"{other.directory}: has other tokenisers than {prepared.directory}, and cannot be replayed; "
            "prepare both with tokenizer_from one model",
            settings=["tokenizer_from"],
        )
    return TrainingPairs(
        prepared.train.with_replayed(other.train), prepared.facts | {"replayed": other.facts}
    )
