"""Models to export: of random weights, and of every kind that the configuration knows."""

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import pytest
import torch
from torch import nn

from allyouneed.config.run import RunConfig
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.model.embedding import Embeddings
from allyouneed.model.transformer import Transformer
from allyouneed.storage.checkpoint import save_checkpoint
from allyouneed.tasks.task import SOURCE_TOKENIZER, TARGET_TOKENIZER

VARIANTS: dict[str, dict[str, Any]] = {
    "tied": {},
    "target tied": {"tied_embeddings": "target"},
    "untied": {"tied_embeddings": "none"},
    "no attention bias": {"attention_bias": False},
    "one layer": {"num_layers": 1},
    "one head": {"num_heads": 1},
    "two vocabularies": {"tied_embeddings": "target", "source_vocab_size": 261},
    "another epsilon": {"layer_norm_epsilon": 3e-6},
    "a decoder of another depth, GELU": {"num_decoder_layers": 1, "activation": "gelu"},
    "a bias of the logits, Swish": {"output_bias": True, "activation": "swish"},
    "embeddings without factor": {"scaled_embeddings": False},
}


class RunExample(Protocol):
    def __call__(self, folder: Path, text: str = "A dog runs.") -> str: ...


class RandomModel(Protocol):
    def __call__(self, *, beam_size: int = 4, **settings: Any) -> Path: ...


@pytest.fixture
def random_model(toy_data: Path, tmp_path: Path) -> RandomModel:
    """Make a model directory of random weights, also of biases; a source vocabulary of 261 is bytes."""

    def make(*, beam_size: int = 4, **settings: Any) -> Path:
        sizes = {
            "source_vocab_size": 290,
            "target_vocab_size": 290,
            "d_model": 24,
            "d_ff": 40,
            "num_heads": 3,
        }
        config = RunConfig().replace(
            model={**sizes, "num_layers": 2, **settings}, search={"beam_size": beam_size}
        )
        torch.manual_seed(1)
        model = Transformer(config.model)
        with torch.no_grad():
            for module in model.modules():
                if isinstance(module, nn.LayerNorm):
                    module.weight.uniform_(0.5, 1.5)
                if isinstance(module, nn.LayerNorm | nn.Linear | Embeddings) and module.bias is not None:
                    module.bias.uniform_(-0.5, 0.5)
        tokenizers = dict(_tokenizers(toy_data, tmp_path, config.model.source_vocab_size))
        save_checkpoint(
            path := tmp_path / "original", config, dict(model.state_dict()), tokenizers, {}, replace=True
        )
        return path

    return make


@pytest.fixture(params=VARIANTS)
def model_of_every_kind(request: pytest.FixtureRequest, random_model: RandomModel) -> Path:
    """A model directory for each of `VARIANTS`."""
    return random_model(**VARIANTS[request.param])


@pytest.fixture
def run_example() -> RunExample:
    """Run the Python code in the README.md of an exported folder, there, on a text; what it prints."""

    def run(folder: Path, text: str = "A dog runs.") -> str:
        readme = (folder / "README.md").read_bytes().decode()
        (code,) = re.findall(r"^```python\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
        assert code.count("A dog runs.") == 1
        code = code.replace("A dog runs.", text)
        done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, check=True)
        return done.stdout.decode().rstrip("\n")

    return run


def _tokenizers(toy_data: Path, folder: Path, source_vocab_size: int) -> Mapping[str, bytes]:
    target = (toy_data / TARGET_TOKENIZER).read_bytes()
    if source_vocab_size != 261:
        return {SOURCE_TOKENIZER: target, TARGET_TOKENIZER: target}
    Tokenizer.train([], "byte", 261).save(folder / "bytes.json")
    return {SOURCE_TOKENIZER: (folder / "bytes.json").read_bytes(), TARGET_TOKENIZER: target}
