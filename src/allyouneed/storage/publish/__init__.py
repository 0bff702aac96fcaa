"""Writes directories and files that are complete or absent: written aside, synced, then renamed."""

from allyouneed.storage.publish.directory import (
    discard,
    is_leftover,
    publish_directory,
    put_back,
    remove_directory,
    require_free,
)
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
from allyouneed.storage.publish.lock import lock_output, require_unlocked, same_file, sign, take_lock
from allyouneed.storage.publish.manifest import (
    FORMAT_VERSION,
    MANIFEST,
    is_intact,
    read_manifest,
    require_intact,
    sha256_of,
    unlisted,
)

__all__ = [
    "FORMAT_VERSION",
    "MANIFEST",
    "MAX_WEIGHT_BYTES",
    "discard",
    "disk_errors",
    "is_intact",
    "is_leftover",
    "lock_output",
    "open_regular",
    "publish_directory",
    "put_back",
    "read_manifest",
    "read_published",
    "remove_directory",
    "replaced_file",
    "require_file",
    "require_free",
    "require_intact",
    "require_regular",
    "require_space",
    "require_unlocked",
    "same_file",
    "sha256_of",
    "sign",
    "sync",
    "take_lock",
    "unlisted",
    "write_text",
]
