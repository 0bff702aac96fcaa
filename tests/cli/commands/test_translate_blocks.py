"""Heads are trained on top of a model that stays what it was; `--blockwise` writes its greedy outputs."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests.kernels import require_kernels

from allyouneed.runs.initial_model import continue_from
from allyouneed.runs.starting import train
from allyouneed.storage.checkpoint import load_checkpoint
from allyouneed.storage.run_directory import resolve_model

RunCommand = Callable[..., tuple[int, bytes, str]]
LINES = ["sun moon bird", "", "bird sees fish", "wolf sun", "moon moon sees bear wolf", "fish"]
TEXT = "".join(f"{line}\n" for line in LINES).encode()


@pytest.fixture(scope="module")
def heads(tmp_path_factory: pytest.TempPathFactory, toy_model: Path, toy_data: Path) -> Path:
    """The toy model with heads that learned for a moment."""
    run = tmp_path_factory.mktemp("heads") / "run"
    settings = {"num_steps": 30, "warmup_steps": 10, "frozen": ("[!b]*",), "checkpoint_every_steps": 30}
    config = continue_from(toy_model).replace(model={"block": 3, "dropout": 0.0}, training=settings)
    train(run, toy_data, config)
    return run


def test_only_heads_are_trained_where_the_rest_is_frozen(heads: Path, toy_model: Path) -> None:
    own, given = (load_checkpoint(resolve_model(path)).weights for path in (heads, toy_model))
    assert all(torch.equal(tensor, own[name]) for name, tensor in given.items())
    assert {name.partition(".")[0] for name in own.keys() - given.keys()} == {"block_heads"}
    assert all(tensor.any() for name, tensor in own.items() if name.startswith("block_heads"))


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_blockwise_decoding_writes_what_greedy_search_writes_and_tells_its_blocks(
    run_command: RunCommand, heads: Path, toy_model: Path, precision: str
) -> None:
    require_kernels()
    options = "--precision", precision, "--workers", "1"
    greedy = run_command("translate", toy_model, "--beam-size", "1", *options, stdin=TEXT)
    assert greedy[0] == 0
    code, out, told = run_command(
        "translate", heads, "--blockwise", "--batch-size", "1", *options, stdin=TEXT
    )
    assert (code, out) == greedy[:2]
    assert "tokens a block" in told
    assert "one by one" not in told
    code, out, told = run_command("translate", heads, "--blockwise", *options, stdin=TEXT)
    assert (code, out) == greedy[:2]
    assert "one by one, which is faster for several sentences at once" in told
    code, out, told = run_command(
        "translate",
        toy_model,
        "--draft",
        toy_model,
        "--block-size",
        "3",
        "--beam-size",
        "1",
        *options,
        stdin=TEXT,
    )
    assert (code, out) == greedy[:2]


def test_blocks_go_with_terms_which_are_required_one_by_one(
    run_command: RunCommand, toy_model: Path, tmp_path: Path
) -> None:
    (tmp_path / "terms.tsv").write_bytes(b"sun\tyak\n")
    blocks = "--draft", toy_model, "--block-size", "3", "--beam-size", "1"
    options = *blocks, "--glossary", tmp_path / "terms.tsv"
    code, out, told = run_command("translate", toy_model, *options, stdin=b"sun moon\nmoon\n")
    assert code == 0, told
    assert b"yak" in out
    assert out.count(b"\n") == 2


def test_what_cannot_be_read_in_blocks_is_refused_in_a_line(
    run_command: RunCommand, heads: Path, toy_model: Path, multilingual_model: Path
) -> None:
    for options, message, expected in (
        (["--blockwise"], "has no heads that propose tokens; name a student", 2),
        (["--draft", multilingual_model], "has other vocabularies than", 4),
        (["--draft", toy_model, "--beam-size", "2"], "blockwise decoding is greedy search", 2),
        (["--block-size", "3"], "add --blockwise", 2),
        (["--draft", toy_model, "--engine", "ray"], "is for this machine", 2),
        (["--draft", toy_model, "--n-best", "2"], "finds one output", 2),
    ):
        code, _, told = run_command("translate", toy_model, *options, stdin=TEXT)
        assert (code, told.count("\n")) == (expected, 1), told
        assert message in told
    code, _, told = run_command("translate", heads, "--blockwise", "--block-size", "4", stdin=TEXT)
    assert (code, "heads for blocks of 3" in told) == (2, True)
