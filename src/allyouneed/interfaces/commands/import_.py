"""`allyouneed import`: a model of other software."""

from pathlib import Path

from allyouneed.errors import UsageError
from allyouneed.interfaces.console import notice


def import_(model: Path, out: Path, /, *, languages: str | None = None) -> None:
    """Import a model of other software, and prove that it computes the same.

    ```
    allyouneed import opus-mt-en-de models/en-de
    allyouneed import exported/first-hf models/first --languages en-de
    ```

    The result is an ordinary model: translate, serve, attend, evaluate and train --init-from work with it.
    Its format is found by looking at it. Where the other software is installed, log-probabilities and greedy
    outputs of both are compared before the model is published; the last line says whether they were. Nothing
    is unpickled.

    Args:
        model: A folder or file of the other software; docs/interop.md lists the formats.
        out: The model folder to make.
        languages: Codes of the source and target language, such as en-de; by default what the model tells.
    """
    pair = _pair(languages)
    from allyouneed.interop.importing import import_model

    proof = import_model(model, out, pair, say=notice)
    for line in proof.notices:
        notice(f"{model}: {line}")
    if proof.difference is None:
        print(f"{out}: {model} ({proof.format}); not proved, as {proof.package} is not installed")
    else:
        print(f"{out}: {model} ({proof.format}); log-probabilities differ by {proof.difference:.1g} at most")


def _pair(languages: str | None) -> tuple[str, str] | None:
    if languages is None:
        return None
    source, _, target = languages.partition("-")
    if not (source.isalpha() and target.isalpha()):
        raise UsageError(f"--languages {languages}: is not of the form SOURCE-TARGET, such as en-de")
    return source.lower(), target.lower()
