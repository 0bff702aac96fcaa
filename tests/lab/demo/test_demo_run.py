"""The demo in small: what it leaves behind, that it goes on where it was, and that it can be stopped."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from allyouneed.config.presets import demo
from allyouneed.config.run import RunConfig
from allyouneed.data.lines import read_lines
from allyouneed.lab.demo.demo_run import DICTIONARY, MODEL, NEAREST, DemoResult, run_demo
from allyouneed.lab.demo.grammar import DemoCorpus, generate_demo_corpus
from allyouneed.storage.publish import read_manifest

Demo = Callable[..., DemoResult]


@pytest.fixture(scope="module")
def corpus() -> DemoCorpus:
    return generate_demo_corpus(num_train=200, num_valid=5, num_test=8)


@pytest.fixture
def small_demo(tmp_path: Path, corpus: DemoCorpus) -> Demo:
    config: RunConfig = demo().replace(
        model={"num_layers": 1, "d_model": 16, "d_ff": 16, "num_heads": 2},
        data={"vocab_size": 300},
        training={"num_steps": 3, "batch_tokens": 1_024, "checkpoint_every_steps": 1, "average_last": 2},
        search={"beam_size": 1, "max_extra_tokens": 2},
    )
    return lambda **told: run_demo(tmp_path, torch.device("cpu"), corpus=corpus, config=config, **told)


def test_everything_is_left_behind_and_done_once(
    small_demo: Demo, tmp_path: Path, corpus: DemoCorpus
) -> None:
    result = small_demo()
    assert set(result.scores) == {MODEL, DICTIONARY, NEAREST}
    assert [example.source for example in result.examples] == [pair.source for pair in corpus.test]
    assert len(list(read_lines(tmp_path / "test.de"))) == 8
    written = json.loads((tmp_path / "evaluate.json").read_bytes())
    assert written[MODEL]["bleu_13a"]["score"] == result.scores[MODEL][0].value
    assert list(read_lines(tmp_path / "corpus" / "train.de")) == [pair.target for pair in corpus.train]
    assert len(read_manifest(tmp_path / "model", "model")["parents"]) == 2
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "model").iterdir()}
    assert small_demo() == result
    assert times == {path: path.stat().st_mtime_ns for path in (tmp_path / "model").iterdir()}


@pytest.fixture
def sigint_handler() -> Iterator[Callable[[Any], Any]]:
    """Sets what SIGINT does: a shell's background jobs are started with it ignored."""
    before = signal.getsignal(signal.SIGINT)
    yield lambda handler: signal.signal(signal.SIGINT, handler)
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    ("handler", "end"), [(signal.default_int_handler, KeyboardInterrupt), (signal.SIG_IGN, SystemExit)]
)
def test_a_signal_during_training_ends_the_demo_before_it_uses_the_model(
    small_demo: Demo,
    tmp_path: Path,
    sigint_handler: Callable[[Any], Any],
    handler: Any,
    end: type[BaseException],
) -> None:
    sigint_handler(handler)

    def interrupt(event: dict[str, object]) -> None:
        if event["event"] == "checkpoint" and event["step"] == 1:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(end):
        small_demo(report=interrupt)
    assert not (tmp_path / "model").exists()
    assert json.loads((tmp_path / "run" / "exit.json").read_bytes())["code"] == 130
    small_demo()
    assert json.loads((tmp_path / "run" / "exit.json").read_bytes()) == {
        "code": 0,
        "step": 3,
        "reason": "finished",
    }
