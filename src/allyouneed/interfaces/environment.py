"""Variables of the environment that libraries take at their word, corrected before they see them."""

import contextlib
import os
import re
from pathlib import Path

from allyouneed.config.variables import is_home
from allyouneed.errors import DiskError

_NARROWEST, _WIDEST = 20, 500
"""Columns in which help and progress can be set; on none at all, a library tries for ever."""


def correct_environment() -> None:
    """Leave out a home that is none, and sizes of a terminal in which nothing can be set."""
    if not is_home(os.environ.get("HOME", "")):
        os.environ.pop("HOME", None)  # or else folders would be made for it, wherever that is
    for name in ("COLUMNS", "LINES"):
        if not re.fullmatch("0*[1-9][0-9]{0,3}", os.environ.get(name, "")):
            os.environ.pop(name, None)
    columns = int(os.environ.get("COLUMNS", "0")) or _columns_of_terminal()
    if columns and not _NARROWEST <= columns <= _WIDEST:
        os.environ["COLUMNS"] = str(min(max(columns, _NARROWEST), _WIDEST))


def require_working_directory() -> None:
    """Refuse to work in a directory that has been deleted, where libraries end the process.

    Raises:
        DiskError: It is so.
    """
    try:
        Path.cwd()
    except FileNotFoundError:
        raise DiskError("the working directory has been deleted; change to one that is there") from None


def _columns_of_terminal() -> int:
    for descriptor in range(3):
        with contextlib.suppress(OSError):
            return os.get_terminal_size(descriptor).columns
    return 0
