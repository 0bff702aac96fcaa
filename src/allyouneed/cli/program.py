"""The `allyouneed` program: runs one command and ends with its exit code.

A command is a module `commands/NAME.py` with one public function `NAME` (or an `App` of several, as in
`commands/bench.py`), listed in `COMMANDS`; the shortest to copy is `commands/verify.py`. It is imported only
when it is run, and imports torch inside the function, so that help and `--version` are fast. The
signature is the interface: the main argument is positional, all others are options (after `*`), and commands
that compute take `device: Device`. The docstring is the help: one line for the list of commands, examples
between ``` lines, an `Args:` section.

Output goes to stdout, messages through `errors.notice`, the progress of long work through
`progress.progress`. A command raises `UserError` for what a user can fix, and may return an exit code;
`--debug` and `--quiet` are handled here.
"""

import contextlib
import errno
import keyword
import os
import signal
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, NoReturn

from cyclopts import App, CycloptsError, Group, MissingArgumentError, Parameter, UnusedCliTokensError

from allyouneed.cli.console import (
    correct_environment,
    end_by_signals,
    open_standard_streams,
    report,
    require_working_directory,
)
from allyouneed.cli.option_sources import SERVE_SOURCES
from allyouneed.config.environment import num_processes, number_given
from allyouneed.errors import (
    DiskError,
    InternalError,
    ResourceError,
    UsageError,
    UserError,
    is_out_of_memory,
    say,
    system_fault,
    talk,
)
from allyouneed.version import __version__

COMMANDS = {
    "demo": "Train a small translator on a made-up corpus, score it, and look into it, in minutes.",
    "prepare": "Clean sentence pairs or trees, learn sub-words, and store them as token ids.",
    "inspect": "Show what prepared data looks like, before hours are spent on it.",
    "train": "Train a Transformer on prepared data.",
    "student": "Make a small fast model that learns what larger ones write.",
    "average": "Average the last checkpoints of a run into one model (paper 6.1).",
    "translate": "Translate standard input, line by line or as a document, or a file into another.",
    "parse": "Parse standard input, one sentence per line, into trees on standard output.",
    "transcribe": "Transcribe the files of frames or speech that standard input names, one path per line.",
    "serve": "Serve models over HTTP: a page, a JSON API, and the protocols of other translation servers.",
    "shortlist": "Learn from prepared data the likely target sub-words of each source sub-word.",
    "score": "Write the log-probability of each target line given its source line (forced decoding).",
    "evaluate": "Score a model, or a file of outputs, against reference translations or trees.",
    "sweep": "Try beam sizes and length penalties on a development set, and print the best pair.",
    "attend": "Show what a model attends to while it translates or parses a sentence.",
    "import": "Import a model of other software, and prove that it computes the same.",
    "export": "Export a model to a folder that other software can load, and check it there.",
    "card": "Write a model card, for a hub, from what a model and its run have recorded.",
    "plan": "Show parameters, FLOPs, memory and time of a run, before training.",
    "cost": "Show the cost of a run: time, FLOPs (counted and by the paper's formula), energy, price.",
    "reproduce": "Run an experiment of the paper, and print the paper's figures beside ours, and a verdict.",
    "bench": "Compare training and decoding speed with other software, on this machine.",
    "copy": "Copy prepared data or a model to or from another place, such as an object store.",
    "verify": "Check every file of models, runs and prepared data against its manifest.",
    "doctor": "Show versions, devices and free disk space, for bug reports.",
}
"""All commands, in the order of the help, with the first lines of theirs, so that the list imports none."""


def _shown_default(value: Any) -> str | None:
    """A default as help texts show it; None for flags that are off and for empty ones."""
    if value is None or value is False or value in ("", ()):
        return None
    return " ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


_PACKAGES_OF_TRAINING = {"torch": "PyTorch", "matplotlib": "Matplotlib"}
"""Package that a small installation lacks -> its name."""

EVERYWHERE = Group("Options of every command", sort_key=100)


def launch(
    *tokens: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
    quiet: Annotated[bool, Parameter(group=EVERYWHERE)] = False,
    debug: Annotated[bool, Parameter(group=EVERYWHERE)] = False,
) -> Any:
    """Run the command that the tokens name.

    Args:
        tokens: The command and its arguments.
        quiet: Say nothing but errors on standard error.
        debug: Show where in the code an error arose.
    """
    talk.quiet = quiet or bool(_rank())  # only the first of several processes prints messages
    require_working_directory()
    try:
        return app(list(one_setting_each(with_standard_input(tokens))))
    except Exception:
        if debug:
            traceback.print_exc()
        raise


def _program(summaries: Mapping[str, str]) -> App:
    """The program, whose commands are imported when they are run, or listed without a summary."""
    made = App(
        name="allyouneed",
        help='The complete system of "Attention Is All You Need": train, translate, evaluate.',
        version=__version__,
        default_parameter=Parameter(negative=(), show_default=_shown_default),
        result_action="return_value",
        print_error=False,
        exit_on_error=False,
        suppress_keyboard_interrupt=False,
    )
    made.meta.suppress_keyboard_interrupt = False
    made.meta.default(launch)
    for position, name in enumerate(COMMANDS):
        spelled = f"{name}_" if keyword.iskeyword(name) else name  # `import_`
        place = f"allyouneed.cli.commands.{spelled}:{spelled}"
        sources: dict[str, Any] = {"config": SERVE_SOURCES} if name == "serve" else {}
        made.command(place, name=name, help=summaries.get(name), sort_key=position, **sources)
    for flag in ("--help", "--version"):
        made[flag].group = EVERYWHERE
    return made


app = _program({})


def with_standard_input(tokens: Sequence[str]) -> Sequence[str]:
    """Rewrite tokens so that `--source -` becomes `--source=-`, since a lone `-` would pass for an option."""
    joined: list[str] = []
    for token in tokens:
        if token == "-" and joined and joined[-1].startswith("--") and "--" not in joined:
            joined[-1] += "=-"
        else:
            joined.append(token)
    return joined


def run() -> NoReturn:
    """Run the program on this process's arguments, and end the process."""
    end_by_signals()
    open_standard_streams()
    correct_environment()
    code = main(sys.argv[1:])
    try:
        print(end="", flush=True)
    except OSError:  # already reported; the interpreter must not stumble on it once more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if _rank() is not None:
        # gloo's threads may outlive their group, which PyTorch's caches hold; if one of them frees a tensor
        # while the interpreter ends, it aborts the process (pytorch/pytorch#190489)
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def main(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; each error is reported in one line."""
    try:
        arguments = arguments or ["--help"]
        chosen = _program(COMMANDS) if arguments[0] in app.help_flags else app
        code = chosen.meta(list(arguments))
        print(end="", flush=True)
    except BrokenPipeError:  # the reader closed the pipe
        return 128 + signal.SIGPIPE
    except KeyboardInterrupt:
        say("allyouneed: interrupted")
        return 128 + signal.SIGINT
    except Exception as error:
        failure = explain(error)
        report(failure)
        return failure.exit_code
    return code or 0


def explain(error: Exception) -> UserError:
    """The error to report to the user for an exception."""
    match error:
        case UserError():
            return error
        case CycloptsError():
            error.verbose = False
            command = " ".join(("allyouneed", *(error.command_chain or ())))
            message = " ".join(str(error).split())
            if isinstance(error, UnusedCliTokensError):
                message = f"Unexpected: {' '.join(error.unused_tokens or ())}; quote what has spaces"
            if isinstance(error, MissingArgumentError) and error.argument and not error.keyword:
                message = f"{error.argument.name} is missing"
            return UsageError(f"{message} (see `{command} --help`)")
        case _ if lacking := _lacking(error):
            return lacking
        case OSError(errno=errno.EBADF, filename=None):
            return DiskError("standard output: is closed; send it to a file, or to /dev/null")
        case OSError():
            return DiskError(f"{error.filename or 'standard output'}: {system_fault(error)}")
    return InternalError(
        f"{type(error).__name__}: {error}; please run it again with --debug and report what it shows"
    )


def _lacking(error: Exception) -> UserError | None:
    """The error that names the remedy if the machine lacks something; None for other errors."""
    from concurrent.futures import BrokenExecutor

    if isinstance(error, ModuleNotFoundError) and error.name in _PACKAGES_OF_TRAINING:
        package = _PACKAGES_OF_TRAINING[error.name]
        return UsageError(f"this needs {package}, which is not installed: pip install 'allyouneed[train]'")
    if is_out_of_memory(error):
        remedy = "there is not enough memory; give it less at a time (smaller batches or inputs)"
    elif isinstance(error, RuntimeError) and "can't start new thread" in str(error):
        remedy = "no more threads may be started; raise the limit (`ulimit -u`), or use fewer --workers"
    elif isinstance(error, BrokenExecutor):
        remedy = "a worker process was killed, probably for lack of memory; free some, or give it less"
    else:
        return None
    return ResourceError(remedy)


def _rank() -> int | None:
    """Number of this process, from 0, among several that `torchrun` has started; None if it is alone."""
    with contextlib.suppress(UsageError):  # training reports a malformed variable; other commands ignore it
        return number_given("RANK", 0) if num_processes() > 1 else None
    return None


def one_setting_each(tokens: Sequence[str]) -> Iterator[str]:
    """Rewrite command-line tokens so that `--set a=1 b=2 RUN` becomes `--set a=1 --set b=2 RUN`."""
    begun = goes_on = False
    for token in tokens:
        goes_on = goes_on and "=" in token and not token.startswith("-")
        if goes_on:
            yield "--set"
        yield token
        goes_on |= begun or token.startswith("--set=")
        begun = token == "--set" and not begun
