"""Marian's files of settings (`.yml`), as mappings of texts."""

from pathlib import Path
from typing import Any

from allyouneed.errors import ModelError, UsageError
from allyouneed.interop.foreign_files import MAX_SETTINGS_BYTES
from allyouneed.storage.publish import read_published
from allyouneed.symbols import MAX_ENTRIES

DECODER_SETTINGS = "decoder.yml", "{model}.decoder.yml"
"""Files beside a model that say how to translate with it."""
MAX_YAML_BYTES = 1 << 23
"""Size of a vocabulary in YAML, which takes longer to read than JSON."""
_MOST_EVENTS = 2 * MAX_ENTRIES
"""Beginnings, ends and scalars in a document; an entry of a vocabulary has two scalars."""


def read_yaml(path: Path, max_bytes: int = MAX_SETTINGS_BYTES) -> dict[str, Any]:
    """The mapping in a YAML file; see `parse_yaml`."""
    return parse_yaml(read_published(path, max_bytes), path, max_bytes)


def parse_yaml(content: bytes, path: Path, max_bytes: int = MAX_SETTINGS_BYTES) -> dict[str, Any]:
    """The mapping in a YAML document; all scalars are texts.

    Args:
        content: The document.
        path: File that it is from.
        max_bytes: Number of bytes that it may have.

    Raises:
        ModelError: The document is no mapping, too large, or has aliases.
        UsageError: PyYAML is not installed.
    """
    if len(content) > max_bytes:
        raise ModelError(f"{path}: has {len(content):,} bytes of settings, more than {max_bytes:,}")
    try:
        import yaml
    except ModuleNotFoundError:
        raise UsageError(
            "models of Marian need PyYAML and sentencepiece; install them with: "
            "pip install 'allyouneed[marian]'"
        ) from None
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        for number, event in enumerate(yaml.parse(content.decode(), loader)):
            if isinstance(event, yaml.AliasEvent):
                raise ModelError(f"{path}: has aliases, which can expand without limit; take another copy")
            if number > _MOST_EVENTS:
                raise ModelError(f"{path}: has more than {_MOST_EVENTS:,} entries; take another copy")
        found = yaml.load(content.decode(), loader)  # a loader of texts, lists and mappings only
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError):
        raise ModelError(f"{path}: is no YAML; take another copy") from None
    if not isinstance(found, dict):
        raise ModelError(f"{path}: is no YAML mapping; take another copy")
    return found
