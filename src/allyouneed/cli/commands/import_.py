"""`allyouneed import`: a model of other software."""

import re
import shlex
from pathlib import Path
from urllib.parse import unquote

from allyouneed.cli.shared_options import language_pair
from allyouneed.errors import UsageError, notice
from allyouneed.storage.publish import disk_errors
from allyouneed.storage.publish.disk import url_of

_HUB_NAME = re.compile(r"(?!datasets/|spaces/)\w[\w.-]*/\w[\w.-]*", re.ASCII)
"""A name on the Hugging Face hub: organisation and model."""
_HUB_URL = re.compile(
    r"(?:https?://|hf://)?(?:www\.)?(?:huggingface\.co/|hf\.co/|(?<=hf://))"
    rf"(?P<name>{_HUB_NAME.pattern})"
    r"(?:/(?:tree|blob|resolve)/(?P<revision>[^/?#]+)|@(?P<other>[^/?#]+))?(?:[/?#].*)?",
    re.ASCII | re.IGNORECASE,
)
_FILES = ".npz", ".bin", ".argosmodel", ".zip"
"""Endings of files, which are no names of models."""


def import_(
    model: Path, out: Path, /, *, languages: str | None = None, shortlist: Path | None = None
) -> None:
    """Import a model of other software, and prove that it computes the same.

    ```
    allyouneed import opus-mt-en-de models/en-de
    allyouneed import exported/first-hf models/first --languages en-de
    allyouneed import firefox/ende models/ende --shortlist shortlists/ende
    ```

    The result is an ordinary model: translate, serve, attend, evaluate and train --init-from work with it.
    Its format is found by looking at it. Where the other software is installed, log-probabilities and greedy
    outputs of both are compared before the model is published; the last line says whether they were. Nothing
    is unpickled.

    Args:
        model: A folder or file of the other software, on this disk; docs/interop.md lists the formats. Of a
            folder of Hugging Face's cache (models--ORG--NAME), the snapshot that refs/main names is read.
        out: The model folder to make.
        languages: Codes of the source and target language, such as en-de; default: those that the model's
            files name.
        shortlist: Folder for the model's shortlist, which Firefox's models have, in our format.
    """
    pair = language_pair(languages)
    _require_on_disk(model)
    from allyouneed.interop.importing import import_model

    proof = import_model(model, out, pair, say=notice, shortlist=shortlist)
    for line in proof.notices:
        notice(f"{model}: {line}")
    if proof.has_shortlist and shortlist is None:
        notice(f"{model}: its shortlist is left out; --shortlist FOLDER converts it")
    if proof.difference is None:
        print(f"{out}: {model} ({proof.format}); not proved, as {proof.lacking} is not installed")
    else:
        print(f"{out}: {model} ({proof.format}); log-probabilities differ by {proof.difference:.1g} at most")


def _require_on_disk(model: Path) -> None:
    """Answer a name or URL of the hub by the command that downloads it; a local path of that name wins."""
    with disk_errors(model):
        if model.exists():
            return
    asked = url_of(model) or str(model)
    found = _HUB_URL.fullmatch(asked)
    if found is None and _HUB_NAME.fullmatch(asked) and model.suffix not in _FILES:
        found = None if model.parent.exists() else _HUB_URL.fullmatch(f"hf.co/{asked}")
    if found:
        revision = unquote(found["revision"] or found["other"] or "main")
        of_revision = "" if revision == "main" else f" --revision {shlex.quote(revision)}"
        raise UsageError(
            f"{asked}: is not on this disk, and nothing is downloaded; if it is a model of the Hugging Face "
            f"hub, download it with: hf download {found['name']}{of_revision} --local-dir "
            f"{Path(found['name']).name}"
        )
    if url_of(model):
        raise UsageError(
            f"{asked}: is not local, and nothing is downloaded; download it, then name the folder"
        )
