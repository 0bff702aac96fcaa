"""`allyouneed export`: a model for other software."""

from pathlib import Path
from typing import Literal

from allyouneed.interfaces.console import notice


def export(model: Path, out: Path, /, *, to: Literal["ctranslate2", "huggingface"]) -> None:
    """Write a model as a folder that other software loads, checked by that software.

    ```
    allyouneed export models/first --to ctranslate2 exported/first-ct2
    allyouneed export runs/first --to huggingface exported/first-hf
    ```

    The folder has the weights, the tokenisers and a README.md that shows how to use them. It appears only if
    the other software, run on it, finds the same log-probabilities as the model, on random tokens and on
    translations of sentences.

    Args:
        model: A run, a checkpoint in it, or a model folder.
        out: The folder to make.
        to: The format: `ctranslate2` runs fast on CPUs and GPUs (wants `allyouneed[ctranslate2]`),
            `huggingface` is a Marian model of transformers (wants `allyouneed[huggingface]`).
    """
    from allyouneed.interop.export import export_model

    difference = export_model(model, to, out, say=notice)
    print(f"{out}: {model} for {to}; log-probabilities differ by {difference:.1g} at most")
