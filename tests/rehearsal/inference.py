"""Decoding, scoring and attention on the pretended device: the CPU's results."""

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.cli import conftest as of_commands
from tests.cli.conftest import RunCommand
from tests.rehearsal.backend import Rehearsal
from tests.rehearsal.training import MODELS, model_of
from tests.tiny import TinyModel

from allyouneed.cli.program import main
from allyouneed.config.run import SearchConfig
from allyouneed.inference.attention_weights import capture_attention
from allyouneed.inference.beams import Hypothesis, SearchRequest
from allyouneed.inference.engine import Engine, batch_tokens_within
from allyouneed.inference.engine_choice import build_engine
from allyouneed.inference.ensemble import Ensemble
from allyouneed.inference.generate import generate
from allyouneed.inference.scoring import score_targets
from allyouneed.inference.search import BeamSearch
from allyouneed.inference.torch_engine import TorchEngine
from allyouneed.model.encoder_decoder import EncoderDecoder
from allyouneed.symbols import END
from allyouneed.training.averaging import average

run_command = of_commands.run_command
SOURCES = [[5, 9, 10, 6], [6], [7, 7, 8, 5], [4 + n % 6 for n in range(20)]]
SEARCHES: dict[str, dict[str, Any]] = {
    "beam": {},
    "greedy": {"beam_size": 1},
    "restricted": {"min_length": 3, "no_repeat_ngram_size": 2, "repetition_penalty": 1.2},
    "sampled": {"sampling": True},
    "sampled of the best": {"sampling": True, "top_k": 5, "top_p": 0.9, "temperature": 0.8},
    "aligned": {"alignments": True, "coverage_penalty": 0.2},
}


def engine_on(rehearsal: Rehearsal, model: EncoderDecoder) -> Engine:
    return build_engine(copy.deepcopy(model).to(rehearsal.device))


def assert_same(found: Sequence[list[Hypothesis]], expected: Sequence[list[Hypothesis]]) -> None:
    for hypotheses, others in zip(found, expected, strict=True):
        assert [h.ids for h in hypotheses] == [h.ids for h in others]
        assert [h.score for h in hypotheses] == pytest.approx([h.score for h in others], abs=1e-4)
        assert [h.alignment for h in hypotheses] == [h.alignment for h in others]


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_finds_what_the_cpu_finds(formats: Rehearsal, tiny_model: TinyModel, name: str) -> None:
    model, config = tiny_model().eval(), SearchConfig(max_extra_tokens=10, **SEARCHES[name])
    options: dict[str, Any] = {"n_best": 1 if name == "greedy" else 2, "prefixes": [[4], [], [5, 6], []]}
    expected = list(generate(TorchEngine(model), SOURCES, config, **options))
    assert_same(list(generate(engine_on(formats, model), SOURCES, config, **options)), expected)


@pytest.mark.parametrize("name", MODELS)
def test_every_model_decodes_and_scores_as_on_the_cpu(formats: Rehearsal, name: str) -> None:
    model = model_of(**MODELS[name]).eval()
    with torch.no_grad():
        for parameter in model.embeddings.parameters():
            parameter.mul_(3)  # rounding must not decide
    here, there = engine_on(formats, model), build_engine(model)
    config = SearchConfig(max_extra_tokens=6)
    assert_same(list(generate(here, SOURCES, config)), list(generate(there, SOURCES, config)))
    targets = [[4, 5], [], [6], [7, 8, 9]]
    for score, expected in zip(
        *(score_targets(engine, SOURCES, targets) for engine in (here, there)), strict=True
    ):
        assert score.token_log_probs == pytest.approx(expected.token_log_probs, abs=1e-4)


@pytest.mark.parametrize("beam_size", [1, 4])
def test_beam_search_waits_at_most_once_in_eight_steps(
    rehearsal: Rehearsal, tiny_model: TinyModel, beam_size: int
) -> None:
    """Admitting sentences waits for nothing; when the last one leaves, the host waits once more."""
    model, num_steps = tiny_model().eval().to(rehearsal.device), 0

    def count(*_: object) -> None:
        nonlocal num_steps
        num_steps += 1

    model.decoder_norm.register_forward_hook(count)
    search = BeamSearch(build_engine(model).start(beam_size), SearchConfig(beam_size=beam_size, min_length=5))
    ended, before = [], rehearsal.num_waits
    for first in (0, 32):
        sources = [SOURCES[place % 4] for place in range(first, first + 32)]
        search.admit([SearchRequest(first, [*ids, END], 8 + 8 * (len(ids) % 5)) for ids in sources])
        ended += search.step()
    while search.sentences:
        ended += search.step()
    assert len(ended) == 64
    assert num_steps >= 40
    assert rehearsal.num_waits - before <= num_steps // 8 + 1


@pytest.mark.parametrize("name", ["transformer", "bytenet"])
def test_a_step_with_the_host_waits_for_scores_and_tokens_only(rehearsal: Rehearsal, name: str) -> None:
    """A step that a search on the device does not know: of a prefix, or of another architecture."""
    model = model_of(**MODELS[name]) if name in MODELS else model_of()
    search = BeamSearch(engine_on(rehearsal, model.eval()).start(4), SearchConfig())
    with torch.inference_mode():
        search.admit([SearchRequest(0, [*SOURCES[0], END], 30, [] if name in MODELS else [5, 6, 7])])
        search.step()
        before = rehearsal.num_waits
        assert search.step() == []
    assert rehearsal.num_waits - before <= (2 if name in MODELS else 5)


def test_batches_are_chosen_from_the_devices_memory(rehearsal: Rehearsal, tiny_model: TinyModel) -> None:
    engine = engine_on(rehearsal, tiny_model(vocab_size=20_000))
    rehearsal.limit_bytes(2 << 30)
    expected = batch_tokens_within(2 << 30, engine.config, item_bytes=4)
    assert (engine.batch_tokens, engine.shortest_source) == (expected, 8)
    assert 8_192 < expected < 262_144


def test_an_ensemble_finds_what_the_cpu_finds(rehearsal: Rehearsal, tiny_model: TinyModel) -> None:
    models, config = [tiny_model(seed).eval() for seed in (0, 1)], SearchConfig(max_extra_tokens=6)
    expected = list(generate(Ensemble([TorchEngine(model) for model in models]), SOURCES, config))
    here = Ensemble([engine_on(rehearsal, model) for model in models])
    assert_same(list(generate(here, SOURCES, config)), expected)


def test_captured_attention_is_the_cpus(formats: Rehearsal, tiny_model: TinyModel) -> None:
    model = tiny_model().eval()
    expected = capture_attention(model, SOURCES[0], [5, 6])
    found = capture_attention(model.to(formats.device), SOURCES[0], [5, 6])
    for kind in ("encoder", "decoder", "cross"):
        assert getattr(found, kind).device.type == "cpu"
        torch.testing.assert_close(getattr(found, kind), getattr(expected, kind), atol=1e-5, rtol=1e-5)


def test_the_commands_take_the_accelerator_by_default(
    rehearsal: Rehearsal, toy_run: Path, toy_text: Path, tmp_path: Path, run_command: RunCommand
) -> None:
    """A model that was averaged on the host does on the device what it does on the CPU."""
    average([toy_run / "checkpoints" / f"step-00000{step}" for step in (100, 120)], tmp_path / "model")
    model, source, target = tmp_path / "model", toy_text / "valid.en", toy_text / "valid.toy"
    out: dict[str, list[bytes]] = {"auto": [], "cpu": []}
    for device, written in out.items():
        before = rehearsal.num_waits
        for command in (
            ["translate", model],
            ["evaluate", model, "--source", source, "--reference", target],
            ["score", model, "--source", source, "--target", target],
        ):
            code, output, _ = run_command(*command, "--device", device, stdin=source.read_bytes())
            assert code == 0
            written.append(output)
        assert (rehearsal.num_waits > before) == (device == "auto")
    assert out["auto"][:2] == out["cpu"][:2]
    here, there = ([float(line) for line in out[device][2].split()] for device in ("auto", "cpu"))
    assert here == pytest.approx(there, abs=1e-3)


def test_doctor_lists_it(rehearsal: Rehearsal, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    assert "gpu: device rehearsal:0, model a pretended device" in capsys.readouterr().out


def test_another_accelerator_is_refused_with_the_one_that_is_there(
    rehearsal: Rehearsal, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["translate", "model", "--device", "cuda"]) == 2
    assert "finds none on this machine, only rehearsal, cpu" in capsys.readouterr().err
