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
    from allyouneed import presets
    from allyouneed.assessment import evaluate
    from allyouneed.config import DataConfig, RunConfig
    from allyouneed.data.treebank import TreeFiles
    from allyouneed.errors import UserError
    from allyouneed.loading import load
    from allyouneed.outputs import Translation
    from allyouneed.parsing import Parse, Parser
    from allyouneed.preparation import CorpusFiles, prepare
    from allyouneed.rescoring import PairScore
    from allyouneed.runs import average, train
    from allyouneed.translation import Translator

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
    "CorpusFiles": "allyouneed.preparation",
    "DataConfig": "allyouneed.config",
    "PairScore": "allyouneed.rescoring",
    "Parse": "allyouneed.parsing",
    "Parser": "allyouneed.parsing",
    "RunConfig": "allyouneed.config",
    "Translation": "allyouneed.outputs",
    "Translator": "allyouneed.translation",
    "TreeFiles": "allyouneed.data.treebank",
    "UserError": "allyouneed.errors",
    "average": "allyouneed.runs",
    "evaluate": "allyouneed.assessment",
    "load": "allyouneed.loading",
    "prepare": "allyouneed.preparation",
    "train": "allyouneed.runs",
}


def __getattr__(name: str) -> Any:
    if name == "presets":
        return import_module("allyouneed.presets")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__
