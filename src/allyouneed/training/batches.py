"""The global batches of a run, with those of other data that it replays."""

from allyouneed.config.run import TrainingConfig
from allyouneed.data.replay import ReplaySchedule
from allyouneed.data.schedule import BatchSchedule
from allyouneed.data.store import PairStore

Schedule = BatchSchedule | ReplaySchedule


def schedule_of(store: PairStore, training: TrainingConfig) -> Schedule:
    """The batches of a run.

    Args:
        store: Training pairs, the replayed ones last.
        training: Training configuration, with the size of micro-batches resolved.

    Raises:
        UsageError: A pair does not fit into a micro-batch, or these not into a batch.
        DataError: There are no pairs.
    """
    assert training.micro_batch_tokens is not None
    lengths = store.source_lengths, store.target_lengths
    budgets = {
        "batch_tokens": training.batch_tokens,
        "micro_batch_tokens": training.micro_batch_tokens,
        "block_pairs": training.block_pairs,
    }
    if not store.num_replayed:
        return BatchSchedule(*lengths, **budgets, seed=training.seed)
    return ReplaySchedule(
        *lengths,
        num_replayed=store.num_replayed,
        share=training.replay_share,
        **budgets,
        seed=training.seed,
    )
