"""`allyouneed export`: a model in a format of other software."""

from pathlib import Path
from typing import Literal

from allyouneed.errors import notice


def export(model: Path, out: Path, /, *, to: Literal["ctranslate2", "huggingface"]) -> None:
    """Export a model to a folder that other software can load, and check it there.

    ```
    allyouneed export models/first --to ctranslate2 exported/first-ct2
    allyouneed export runs/first --to huggingface exported/first-hf
    ```

    The folder holds the weights, the tokenisers and a README.md that shows how to use them. It is created
    only if the other software computes the same log-probabilities as the model, on random tokens and on
    translations of sentences.

    Args:
        model: A run, a checkpoint in it, or a model folder.
        out: The folder to make.
        to: The format: `ctranslate2` is fast on CPUs and GPUs (requires `allyouneed[ctranslate2]`),
            `huggingface` is a Marian model of transformers (requires `allyouneed[huggingface]`).
    """
    from allyouneed.interop.exporting import export_model

    difference = export_model(model, to, out, say=notice)
    print(f"{out}: {model} for {to}; log-probabilities differ by {difference:.1g} at most")
