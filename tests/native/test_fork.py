"""A process that is forked after its parent computed with several threads computes, too."""

import os
import subprocess
import sys

import pytest
from tests.patience import PATIENCE_SECONDS

PROGRAM = """
import os, signal, sys
import torch
from allyouneed.config.model import ModelConfig
from allyouneed.config.run import SearchConfig
from allyouneed.inference.generate import generate
from allyouneed.inference.native_engine import NativeEngine
from allyouneed.model.transformer import Transformer

torch.manual_seed(1)
sizes = dict(num_layers=1, d_model=64, d_ff=80)
model = Transformer(ModelConfig(source_vocab_size=40, target_vocab_size=40, **sizes))
engine = NativeEngine(model.eval(), sys.argv[1], threads=2)

def decoded():
    found = generate(engine, [[5, 6, 7], [8, 9]], SearchConfig(max_extra_tokens=3))
    return [(hypothesis.ids, hypothesis.score.hex()) for [hypothesis] in found]

expected = decoded()
child = os.fork()
if not child:
    signal.alarm(int(sys.argv[2]))  # ends it if it hangs
    os._exit(0 if decoded() == expected else 1)
print(os.waitpid(child, 0)[1])
print(decoded() == expected)
"""


@pytest.mark.parametrize("form", ["float32", "bfloat16", "int8"])
def test_the_child_decodes_as_its_parent_does(form: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, form, str(round(PATIENCE_SECONDS))],
        env=os.environ | {"OMP_NUM_THREADS": "2"},
        capture_output=True,
        check=False,
        timeout=2 * PATIENCE_SECONDS,
    )
    assert ended.stdout == b"0\nTrue\n", ended.stderr.decode()
