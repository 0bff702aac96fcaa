"""Corrects environment variables that libraries would trust blindly."""

import contextlib
import os
import re
from pathlib import Path

from allyouneed.config.variables import is_home
from allyouneed.errors import DiskError

_NARROWEST, _WIDEST = 20, 500
"""Range of terminal widths, in columns, for help and progress; at width 0 a library loops for ever."""


def correct_environment() -> None:
    """Unset an invalid HOME, and unset or clamp unusable terminal sizes."""
    if not is_home(os.environ.get("HOME", "")):
        os.environ.pop("HOME", None)  # otherwise libraries would create folders there
    for name in ("COLUMNS", "LINES"):
        if not re.fullmatch("0*[1-9][0-9]{0,3}", os.environ.get(name, "")):
            os.environ.pop(name, None)
    columns = int(os.environ.get("COLUMNS", "0")) or _columns_of_terminal()
    if columns and not _NARROWEST <= columns <= _WIDEST:
        os.environ["COLUMNS"] = str(min(max(columns, _NARROWEST), _WIDEST))


def require_working_directory() -> None:
    """Refuse to run in a deleted working directory, where libraries would crash.

    Raises:
        DiskError: The working directory has been deleted.
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
