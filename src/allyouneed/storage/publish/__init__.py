"""Writes directories and files that are complete or absent: written aside, synced, then renamed."""

from allyouneed.storage.publish.directory import discard, publish_directory, require_free
from allyouneed.storage.publish.disk import disk_errors, require_space, sync
from allyouneed.storage.publish.file import (
    MAX_WEIGHT_BYTES,
    open_regular,
    read_published,
    replaced_file,
    require_file,
    require_regular,
    write_text,
)
from allyouneed.storage.publish.lock import lock_output, sign
from allyouneed.storage.publish.manifest import MANIFEST, read_manifest, require_intact, sha256_of, unlisted

__all__ = [
    "MANIFEST",
    "MAX_WEIGHT_BYTES",
    "discard",
    "disk_errors",
    "lock_output",
    "open_regular",
    "publish_directory",
    "read_manifest",
    "read_published",
    "replaced_file",
    "require_file",
    "require_free",
    "require_intact",
    "require_regular",
    "require_space",
    "sha256_of",
    "sign",
    "sync",
    "unlisted",
    "write_text",
]
