"""All tasks. To add one, write a folder like `translation/` and list its `Task` here."""

import difflib

from allyouneed.errors import UsageError
from allyouneed.tasks.parsing.task import PARSING
from allyouneed.tasks.task import Task
from allyouneed.tasks.translation.task import TRANSLATION

TASKS: dict[str, Task] = {task.name: task for task in (TRANSLATION, PARSING)}
"""Name of a task -> the task; the first is the default."""


def task_named(name: str) -> Task:
    """The task of that name; raises UsageError if there is none."""
    if name not in TASKS:
        nearest = difflib.get_close_matches(name, TASKS, n=1)
        hint = f"did you mean {nearest[0]}? There are" if nearest else "there are"
        raise UsageError(f"task {name[:50]!r}: is unknown; {hint}: {', '.join(TASKS)}")
    return TASKS[name]
