"""A run's configuration is fitted to its data: which matrices may be one."""

import shutil
from pathlib import Path

import pytest
import torch

from allyouneed import RunConfig
from allyouneed.config.run import DataConfig
from allyouneed.data.corpus_files import CorpusFiles
from allyouneed.errors import UsageError
from allyouneed.preparation.prepared_data import PreparedData
from allyouneed.preparation.preparing import prepare
from allyouneed.runs.run_configuration import completed, run_config, training_pairs
from allyouneed.storage.run_directory import RunDirectory
from allyouneed.tasks.parsing.treebank import TreeFiles


@pytest.mark.parametrize(
    ("tokenizer", "init_from", "tied"),
    [("byte", "a model", "all"), ("byte", None, "target"), ("bpe", "a model", "target")],
)
def test_sides_that_were_not_learned_as_one_are_tied_if_a_model_with_the_same_entries_goes_on(
    tokenizer: str, init_from: str | None, tied: str, toy_text: Path, tmp_path: Path
) -> None:
    """Bytes are the same entries on both sides; pairs of bytes of two languages are not."""
    files = CorpusFiles(toy_text / "train.en", toy_text / "train.toy")
    data = DataConfig.checked(tokenizer=tokenizer, vocab_size=280, joint_vocabulary=False)
    prepare(tmp_path / "data", files, config=data)
    given = RunConfig().replace(training={"init_from": init_from})
    complete = completed(given, PreparedData(tmp_path / "data"), torch.device("cpu"))
    assert complete.model.tied_embeddings == tied


def test_pairs_that_a_run_made_itself_are_found_where_it_is(toy_data: Path, tmp_path: Path) -> None:
    run, own = tmp_path / "moved", tmp_path / "moved" / "monolingual" / "data"
    shutil.copytree(toy_data, own)
    replayed = {"replay": str(tmp_path / "gone" / "monolingual" / "data"), "replay_share": 0.5}
    prepared, cpu = PreparedData(toy_data), torch.device("cpu")
    begun = completed(RunConfig(), prepared, cpu).replace(training=replayed)
    (run / "config.toml").write_bytes(begun.to_toml().encode())
    found = run_config(RunDirectory(run), None, prepared, cpu)
    assert training_pairs(prepared, found).store.num_pairs == 2 * prepared.train.num_pairs


def test_packing_is_refused_for_a_model_that_needs_padding(toy_data: Path) -> None:
    given = RunConfig().replace(model={"attention": "additive"}, training={"packed_tokens": 1_000})
    with pytest.raises(UsageError) as refused:
        completed(given, PreparedData(toy_data), torch.device("cpu"))
    assert refused.value.messages[0] == (
        "training.packed_tokens: this model needs padded sentences; leave it out"
    )


def test_packing_is_refused_for_a_sharded_model() -> None:
    with pytest.raises(UsageError) as refused:
        RunConfig().replace(training={"packed_tokens": 1_000, "sharded": True})
    assert "the micro-batches of a sharded model are not packed; leave out packed_tokens" in str(
        refused.value
    )


def test_the_pairs_of_a_run_with_a_guided_head_tell_where_tokens_come_from(toy_data: Path) -> None:
    prepared, given = PreparedData(toy_data), RunConfig().replace(model={"guided_alignment": 0.2})
    complete = completed(given, prepared, torch.device("cpu"))
    assert training_pairs(prepared, complete).store.guide is prepared.guide
    assert training_pairs(prepared, RunConfig()).store.guide is None
    assert prepared.train.guide is None


def test_a_guided_head_is_refused_for_trees_without_as_many_ids_for_every_word(
    toy_treebank: Path, tmp_path: Path
) -> None:
    config = DataConfig(task="parsing", vocab_size=311, joint_vocabulary=False)
    prepared = prepare(tmp_path / "trees", TreeFiles(toy_treebank / "dev.mrg"), config=config)
    given = RunConfig().replace(model={"guided_alignment": 0.2})
    with pytest.raises(UsageError, match=r"model\.guided_alignment: wants as many ids for every word"):
        completed(given, prepared, torch.device("cpu"))
