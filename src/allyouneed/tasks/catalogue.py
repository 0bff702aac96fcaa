"""All tasks. To add one, write a folder like `translation/` and name the place of its `Task` here."""

import difflib
from collections import UserDict
from importlib import import_module
from typing import Any

from allyouneed.errors import UsageError
from allyouneed.tasks.task import Task

_PLACES = {
    "translation": "allyouneed.tasks.translation.task:TRANSLATION",
    "parsing": "allyouneed.tasks.parsing.task:PARSING",
    "frames": "allyouneed.tasks.frames.task:FRAMES",
}
"""Name of a task -> its module and name there; the first is the default."""


class _Tasks(UserDict[str, Any]):
    """Name of a task -> the task, imported when it is first asked for."""

    def __getitem__(self, name: str) -> Task:
        if self.data[name] is None:
            module, _, constant = _PLACES[name].partition(":")
            self.data[name] = getattr(import_module(module), constant)
        task: Task = self.data[name]
        return task


TASKS = _Tasks(dict.fromkeys(_PLACES))
"""All tasks by name; the first is the default."""


def task_named(name: str) -> Task:
    """The task of that name; raises UsageError if there is none."""
    if name not in TASKS:
        nearest = difflib.get_close_matches(name, TASKS, n=1)
        hint = f"did you mean {nearest[0]}? There are" if nearest else "there are"
        raise UsageError(f"task {name[:50]!r}: is unknown; {hint}: {', '.join(TASKS)}")
    return TASKS[name]
