"""The complete system of "Attention Is All You Need": train, translate, evaluate, reproduce.

From two files, of which line i of one translates line i of the other, to translations of new text:

```python
import allyouneed
from allyouneed import CorpusFiles, DataConfig, presets

train, valid = CorpusFiles("train.en", "train.de"), CorpusFiles("valid.en", "valid.de")
allyouneed.prepare("data", train, valid, DataConfig(vocab_size=8_000))

config = presets.multi30k_tiny().replace(training={"num_steps": 4_000})
allyouneed.train("runs/first", "data", config)
allyouneed.average("runs/first", "models/first")

translator = allyouneed.load("models/first")
for translation in translator.translate(["A dog runs.", "Two dogs run."], beam_size=4):
    print(translation.score, translation.text)
```

The names below are imported when they are first used, so that `import allyouneed` does not load PyTorch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from allyouneed.version import __version__

if TYPE_CHECKING:
    from allyouneed.config import presets
    from allyouneed.config.run import DataConfig, RunConfig
    from allyouneed.data.corpus_files import CorpusFiles
    from allyouneed.errors import UserError
    from allyouneed.tasks.loading import load
    from allyouneed.tasks.parsing.parser import Parse, Parser
    from allyouneed.tasks.parsing.treebank import TreeFiles
    from allyouneed.tasks.preparing import prepare
    from allyouneed.tasks.running import average, train
    from allyouneed.tasks.translation.outputs import Translation
    from allyouneed.tasks.translation.pair_scores import PairScore
    from allyouneed.tasks.translation.scores import evaluate
    from allyouneed.tasks.translation.translator import Translator

__all__ = [
    "CorpusFiles",
    "DataConfig",
    "PairScore",
    "Parse",
    "Parser",
    "RunConfig",
    "Translation",
    "Translator",
    "TreeFiles",
    "UserError",
    "__version__",
    "average",
    "evaluate",
    "load",
    "prepare",
    "presets",
    "train",
]

_MODULES = {
    "CorpusFiles": "allyouneed.data.corpus_files",
    "DataConfig": "allyouneed.config.run",
    "PairScore": "allyouneed.tasks.translation.pair_scores",
    "Parse": "allyouneed.tasks.parsing.parser",
    "Parser": "allyouneed.tasks.parsing.parser",
    "RunConfig": "allyouneed.config.run",
    "Translation": "allyouneed.tasks.translation.outputs",
    "Translator": "allyouneed.tasks.translation.translator",
    "TreeFiles": "allyouneed.tasks.parsing.treebank",
    "UserError": "allyouneed.errors",
    "average": "allyouneed.tasks.running",
    "evaluate": "allyouneed.tasks.translation.scores",
    "load": "allyouneed.tasks.loading",
    "prepare": "allyouneed.tasks.preparing",
    "train": "allyouneed.tasks.running",
}


def __getattr__(name: str) -> Any:
    if name == "presets":
        return import_module("allyouneed.config.presets")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__
