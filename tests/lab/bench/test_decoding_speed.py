"""What is measured of translation: everyone's turns on the same sentences, counted and compared in rounds."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from allyouneed import DataConfig, TreeFiles, load_translator, prepare, presets, train
from allyouneed.config.model import ModelConfig
from allyouneed.config.run import SearchConfig
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.errors import DataError, ModelError
from allyouneed.evaluation.bleu import BleuTokens, bleu_13a, bleu_of
from allyouneed.lab.bench.contenders import OURS, Entry, missing_package
from allyouneed.lab.bench.decoding_contenders import (
    CONTENDERS,
    ONE_BY_ONE,
    Layout,
    longest_output,
    other_batches,
    precisions,
    sorted_batches,
    ways_to_share,
)
from allyouneed.lab.bench.decoding_speed import (
    LENGTHS,
    DecodingTeam,
    DecodingTurn,
    Measured,
    bench_lengths,
    bench_task,
    evenly,
    fastest_first,
    num_turns,
    num_turns_of_lengths,
    summarise,
)
from allyouneed.lab.bench.decoding_workloads import DecodingTask, task_of_model, task_of_shape
from allyouneed.lab.bench.training_workloads import multi30k_lengths
from allyouneed.tasks.task import TARGET_TOKENIZER

PEERS = ("ctranslate2", "huggingface")
GREEDY = {"beam_size": 1}
SMALL = ModelConfig(
    source_vocab_size=300, target_vocab_size=300, d_model=16, d_ff=24, num_layers=1, num_heads=2
)


@pytest.fixture(scope="module")
def toy_task(toy_model: Path, toy_text: Path, tmp_path_factory: pytest.TempPathFactory) -> DecodingTask:
    """The toy model with the peers that are installed, on the validation part."""
    peers = [peer for peer in PEERS if not missing_package(peer)]
    folder = tmp_path_factory.mktemp("exports")
    return task_of_model(toy_model, toy_text / "valid.en", toy_text / "valid.toy", peers, GREEDY, folder)


@pytest.fixture(scope="module")
def random_task(tmp_path_factory: pytest.TempPathFactory) -> DecodingTask:
    """Random weights, outputs of 7 tokens, with the peers that are installed."""
    peers = [peer for peer in PEERS if not missing_package(peer)]
    return task_of_shape(SMALL, 9, 7, peers, {"beam_size": 2}, tmp_path_factory.mktemp("random"))


@pytest.mark.parametrize("name", CONTENDERS)
def test_everyone_finds_the_translations_of_the_toy_model(
    name: str, toy_task: DecodingTask, toy_model: Path
) -> None:
    """Greedy search is the same everywhere, whatever the layout."""
    if missing_package(name):
        pytest.skip(f"NOT RUN: needs {name}")
    translator = load_translator(toy_model)
    expected = [
        translator.translate([text], beam_size=GREEDY["beam_size"])[0].text
        for text in [translator._source_tokenizer.decode(ids) for ids in toy_task.sources]
    ]
    contender = CONTENDERS[name](toy_task.folders[name], "float32", toy_task.search)
    for layout in (ONE_BY_ONE, *other_batches(name, ONE_BY_ONE)):
        contender.arrange(layout)
        written = contender.translate(toy_task.sources)
        assert [translator._target_tokenizer.decode(ids) for ids in written] == expected


def test_bleu_compares_outputs_with_the_references(toy_task: DecodingTask, toy_data: Path) -> None:
    tokenizer = Tokenizer.load(toy_data / TARGET_TOKENIZER)
    references = list(toy_task.references or ())
    ids = tokenizer.encode_batch(references)
    assert toy_task.bleu(ids) == pytest.approx(100)
    swapped = [*ids[1:], ids[0]]
    assert toy_task.bleu(swapped) == bleu_13a([*references[1:], references[0]], references).value < 50
    unspaced = replace(toy_task, target_language="th")
    expected = bleu_of(BleuTokens("char"))([*references[1:], references[0]], references).value
    assert unspaced.bleu(swapped) == expected != toy_task.bleu(swapped)


@pytest.mark.parametrize("name", CONTENDERS)
def test_everyone_writes_outputs_of_the_length_that_is_wanted(name: str, random_task: DecodingTask) -> None:
    if missing_package(name):
        pytest.skip(f"NOT RUN: needs {name}")
    contender = CONTENDERS[name](random_task.folders[name], "float32", random_task.search)
    written = contender.translate(random_task.sources)
    assert {len(ids) for ids in written} <= {6, 7}  # without the end symbol, if it came last
    assert random_task.num_tokens(written) == 9 * 7


@pytest.mark.parametrize("name", CONTENDERS)
def test_every_precision_that_is_offered_translates(name: str, random_task: DecodingTask) -> None:
    if missing_package(name):
        pytest.skip(f"NOT RUN: needs {name}")
    assert "float32" in precisions(name)
    for precision in precisions(name):
        contender = CONTENDERS[name](random_task.folders[name], precision, random_task.search)
        assert random_task.num_tokens(contender.translate(random_task.sources[:2])) == 2 * 7


def test_sources_of_a_shape_are_as_long_as_those_of_multi30k(random_task: DecodingTask) -> None:
    assert [len(ids) for ids in random_task.sources] == multi30k_lengths()[:9, 0].tolist()


def test_a_shape_may_have_more_sentences_than_multi30k(tmp_path: Path) -> None:
    assert len(task_of_shape(SMALL, 30_000, 7, (), {}, tmp_path).sources) == 30_000


@pytest.mark.parametrize("threads", [1, 2])
def test_without_kernels_the_threads_are_pytorchs(
    threads: int, random_task: DecodingTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALLYOUNEED_NATIVE", "0")
    before = torch.get_num_threads()
    try:
        decoder = CONTENDERS[OURS](random_task.folders[OURS], "float32", random_task.search)
        decoder.arrange(Layout(processes=1, workers=1, threads=threads, batch=2))
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


def test_several_processes_translate_as_one_does_and_in_order(random_task: DecodingTask) -> None:
    with DecodingTeam(random_task, Entry(OURS, "float32"), 2) as team:
        alone = team.take_turn(random_task.sources)
        team.arrange(Layout(processes=2, workers=1, threads=1, batch=2))
        shared = team.take_turn(random_task.sources)
        assert list(shared.outputs) == list(alone.outputs)
        assert len(team.latencies(random_task.sources)) == 9
        assert team.latencies([]) == []
        peak, grown = team.memory()
        assert 0 < grown < peak


@pytest.mark.release
def test_the_record_tells_who_was_measured_on_what(toy_task: DecodingTask) -> None:
    entries = [
        Entry(OURS, "float32"),
        *(Entry("ctranslate2", "float32") for _ in [0] if not missing_package("ctranslate2")),
    ]
    advanced: list[int] = []
    record = bench_task(toy_task, entries, 1, 1, lambda: advanced.append(1))
    assert len(advanced) == num_turns(entries, 1, 1)
    assert record["sentences"] == 20
    assert record["search"]["beam_size"] == 1
    for row, (name, precision) in zip(record["rows"], entries, strict=True):
        assert (row["contender"], row["precision"]) == (name, precision)
        assert row["same_as_first"] == 1
        assert row["bleu"] == record["rows"][0]["bleu"] is not None
        assert row["target_tokens"] == record["rows"][0]["target_tokens"]
        assert 0 < row["latency_seconds"]["median"] <= row["latency_seconds"]["p99"]
        assert row["layout"] == {key: row["tried"][0][key] for key in row["layout"]}


def test_rates_and_ratios_are_those_of_the_turns() -> None:
    """Two sentences of 4 tokens with the end symbols; the machine is ten times slower in the second round."""
    task = DecodingTask(SMALL, {}, SearchConfig(), [[5], [6, 7]])
    outputs = [[8, 8, 8], [9, 9, 9]]

    def measured(seconds: Sequence[float], outputs: list[list[int]], tried: float) -> Measured:
        turns = [DecodingTurn(each, outputs) for each in seconds]
        return Measured(ONE_BY_ONE, [(ONE_BY_ONE, tried)], turns, [0.1, 0.2, 0.6], 300, 100)

    ours, peer = summarise(
        task,
        {
            Entry(OURS, "int8"): measured([0.5, 5.0], outputs, 3.0),
            Entry("ctranslate2", "int8"): measured([1.0, 10.0], [outputs[0], [9]], 1.0),
        },
    )
    assert ours["sentences_per_second"]["median"] == pytest.approx((4 + 0.4) / 2)
    assert ours["target_tokens_per_second"]["median"] == pytest.approx((16 + 1.6) / 2)
    assert (ours["target_tokens"], peer["target_tokens"]) == (8, 6)
    assert ours["times_as_fast_as"]["ctranslate2 int8"] == pytest.approx(
        {"median": 2, "lower_quartile": 2, "upper_quartile": 2}
    )
    assert peer["times_as_fast_as"]["allyouneed int8"]["median"] == pytest.approx(0.5)
    assert ours["latency_seconds"]["median"] == 0.2
    assert (ours["same_as_first"], peer["same_as_first"]) == (1, 0.5)
    assert (ours["peak_memory_bytes"], ours["grown_memory_bytes"], ours["bleu"]) == (300, 100, None)


def test_a_sample_has_short_and_long_sentences() -> None:
    sources = [[1] * length for length in (3, 9, 1, 7, 5)]
    assert [len(ids) for ids in evenly(sources, 3)] == [1, 5, 9]
    assert [len(ids) for ids in evenly(sources, 99)] == [1, 3, 5, 7, 9]


def test_batches_hold_every_sentence_once_longest_first() -> None:
    sources = [[1] * length for length in (3, 9, 1, 7, 5)]
    assert sorted_batches(sources, 2) == [[1, 3], [4, 0], [2]]


def test_the_better_of_two_turns_of_a_layout_counts() -> None:
    slow_at_first, steady = (replace(ONE_BY_ONE, batch=batch) for batch in (8, 16))
    speeds = {slow_at_first: iter([1.0, 5.0]), steady: iter([3.0, 2.0])}
    found = fastest_first([steady, slow_at_first], lambda layout: next(speeds[layout]))
    assert found == [(slow_at_first, 5.0), (steady, 3.0)]


def test_layouts_share_out_all_threads_and_differ() -> None:
    for name in CONTENDERS:
        shared = ways_to_share(name, 6)
        assert [each.processes * each.workers * each.threads for each in shared] == [6] * 4
        assert {each.threads for each in shared} == {1, 2, 3, 6}
        batches = [shared[1], *other_batches(name, shared[1])]
        assert len(set(batches)) == len(batches)
        assert {each.threads for each in batches} == {shared[1].threads}


def test_the_longest_output_suffices_for_the_longest_source() -> None:
    assert longest_output([[1, 2], [1, 2, 3]], SearchConfig(max_extra_tokens=10)) == 14
    assert longest_output([[1, 2], [1, 2, 3]], SearchConfig(max_extra_tokens=10, max_length=5)) == 5


def test_the_time_of_a_token_is_compared_with_that_at_the_shortest_length(random_task: DecodingTask) -> None:
    advanced: list[int] = []
    record = bench_lengths(random_task, ["float32"], 1, lambda: advanced.append(1))
    assert len(advanced) == num_turns_of_lengths(["float32"], 1) == 2 * len(LENGTHS)
    assert [row["length"] for row in record["rows"]] == list(LENGTHS)
    shortest = record["rows"][0]["seconds_per_token"]["median"]
    for row in record["rows"]:
        ratio = row["seconds_per_token"]["median"] / shortest
        assert row["times_the_shortest"]["median"] == pytest.approx(ratio)


def test_blank_lines_are_left_out_with_their_references(toy_model: Path, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"sun\n \nmoon star\n")
    (tmp_path / "b").write_bytes(b"one\ntwo\nthree\n")
    task = task_of_model(toy_model, tmp_path / "a", tmp_path / "b", (), {}, tmp_path)
    assert len(task.sources) == 2
    assert task.references == ["one", "three"]
    assert task.search.beam_size == 4


@pytest.mark.parametrize(
    ("source", "reference", "message"),
    [(b"sun\nmoon\n", b"one\n", "has 2 lines, .* has 1"), (b"\n", b"\n", "holds no sentences")],
)
def test_text_that_cannot_be_measured_is_refused(
    toy_model: Path, tmp_path: Path, source: bytes, reference: bytes, message: str
) -> None:
    (tmp_path / "a").write_bytes(source)
    (tmp_path / "b").write_bytes(reference)
    with pytest.raises(DataError, match=message):
        task_of_model(toy_model, tmp_path / "a", tmp_path / "b", (), {}, tmp_path)


def test_a_parser_is_no_task(toy_treebank: Path, tmp_path: Path) -> None:
    trees, data, run = TreeFiles(toy_treebank / "dev.mrg"), tmp_path / "data", tmp_path / "run"
    settings = DataConfig(task="parsing", vocab_size=290, joint_vocabulary=False, tags="predicted")
    prepare(data, trees, trees, settings)
    sizes = {"d_model": 16, "d_ff": 24, "num_layers": 1, "num_heads": 2}
    train(run, data, presets.parsing_tiny().replace(model=sizes, training={"num_steps": 1}))
    with pytest.raises(ModelError, match="is a model for parsing; use it with `allyouneed parse`"):
        task_of_model(run, None, None, [], {}, tmp_path)
