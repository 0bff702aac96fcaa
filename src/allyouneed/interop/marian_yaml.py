"""Marian's files of settings (`.yml`), as mappings of texts."""

from pathlib import Path
from typing import Any

from allyouneed.errors import ModelError, UsageError

DECODER_SETTINGS = "decoder.yml", "{model}.decoder.yml"
"""Files beside a model that say how to translate with it."""


def read_yaml(content: bytes, path: Path) -> dict[str, Any]:
    """The mapping in a YAML document; all scalars are texts.

    Raises:
        ModelError: The document is no mapping, or has aliases.
        UsageError: PyYAML is not installed.
    """
    try:
        import yaml
    except ModuleNotFoundError:
        raise UsageError(
            "models of Marian need PyYAML and sentencepiece; install them with: "
            "pip install 'allyouneed[marian]'"
        ) from None
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(content.decode(), loader)):
            raise ModelError(f"{path}: has aliases, which can expand without limit; take another copy")
        found = yaml.load(content.decode(), loader)  # a loader of texts, lists and mappings only
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError):
        raise ModelError(f"{path}: is no YAML; take another copy") from None
    if not isinstance(found, dict):
        raise ModelError(f"{path}: is no YAML mapping; take another copy")
    return found
