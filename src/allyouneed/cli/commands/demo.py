"""`allyouneed demo`: trains, scores and inspects a translator on a generated corpus."""

import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from allyouneed.cli.run_reporter import run_reporter
from allyouneed.cli.shared_options import Device, torch_device
from allyouneed.errors import notice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allyouneed.lab.demo.demo_run import DemoResult, TranslatedExample

_NUM_SHOWN = 6


def demo(*, out: Path = Path("runs/demo"), device: Device = "auto") -> None:
    """Train a small translator on a made-up corpus, score it, and look into it, in minutes.

    ```
    allyouneed demo
    allyouneed demo --out runs/demo
    ```

    A grammar makes 60,000 English-German sentence pairs. The model is tested on longer sentences and on
    combinations of nouns and verbs that it never saw, beside a word-by-word dictionary and the nearest
    training sentence. OUT/evaluate.json holds the scores, OUT/attention.png where the model looked.

    Args:
        out: The folder to work in; an interrupted demo goes on where it was.
        device: Device to compute on.
    """
    from allyouneed.lab.demo.demo_run import run_demo
    from allyouneed.runs.loading import load_translator
    from allyouneed.tasks.plots import plot_attention

    with run_reporter(out / "run") as report:
        result = run_demo(out, torch_device(device), report=report, say=notice)
    _show(result)
    found = load_translator(out / "model").attention(result.examples[0].source)
    weights, picture = found.weights.cross[-1].numpy(), out / "attention.png"
    plot_attention(weights, found.source.pieces, found.written.pieces, picture)
    print(f"\nScores: {out / 'evaluate.json'}\nAttention: {picture}\nCurves: {out / 'run' / 'loss.png'}")
    print(_suggestion(result.examples, out / "model"))


def _suggestion(examples: "Sequence[TranslatedExample]", model: Path) -> str:
    """A command that translates a test sentence; the first that the model translates rightly, if any."""
    right = (example for example in examples if example.translation == example.reference)
    tried = next(right, examples[0])
    return f'Try it: echo "{tried.source}" | {_program()} translate {shlex.quote(str(model))}'


def _program() -> str:
    """Command that runs this program: its name, or its path if it is not on the PATH."""
    if shutil.which("allyouneed"):
        return "allyouneed"
    installed, here = Path(sys.executable).with_name("allyouneed"), Path.cwd()
    if not installed.is_file():
        return f"{shlex.quote(sys.executable)} -m allyouneed"
    return shlex.quote(str(installed.relative_to(here) if installed.is_relative_to(here) else installed))


def _show(result: "DemoResult") -> None:
    step = max(1, len(result.examples) // _NUM_SHOWN)
    for example in result.examples[::step][:_NUM_SHOWN]:
        verdict = "as expected" if example.translation == example.reference else f"not: {example.reference}"
        print(f"\n  {example.source}\n  {example.translation}  ({verdict})")
    print(f"\nOn {len(result.examples):,} test sentences:")
    for name, scores in result.scores.items():
        print(f"  {name:<26}" + "".join(f"{score.name} {score.value:6.2f}   " for score in scores))
    exact = sum(example.translation == example.reference for example in result.examples)
    print(f"  {exact / len(result.examples):.1%} of its translations are exactly the one right answer")
