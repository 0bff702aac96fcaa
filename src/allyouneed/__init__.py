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

translator = allyouneed.load_translator("models/first")
for translation in translator.translate(["A dog runs.", "Two dogs run."], beam_size=4):
    print(translation.score, translation.text)
```

The names below are imported when they are first used, so that `import allyouneed` does not load PyTorch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from allyouneed.version import __version__

if TYPE_CHECKING:
    from allyouneed.config import presets
    from allyouneed.config.model import ModelConfig
    from allyouneed.config.run import DataConfig, RunConfig, SearchConfig, SearchSettings, TrainingConfig
    from allyouneed.data.corpus_files import CorpusFiles
    from allyouneed.data.tab_separated import Columns
    from allyouneed.errors import DataError, ModelError, UsageError, UserError
    from allyouneed.evaluation.scores import Score
    from allyouneed.files.translation import translate_file
    from allyouneed.hardware.cluster import Cluster
    from allyouneed.preparation.prepared_data import PreparedData
    from allyouneed.preparation.preparing import prepare
    from allyouneed.runs.budgeting import Budget
    from allyouneed.runs.distillation import Student, make_student
    from allyouneed.runs.initial_model import continue_from
    from allyouneed.runs.loading import load, load_parser, load_transcriber, load_translator
    from allyouneed.runs.starting import average, train
    from allyouneed.storage.remote import copy_published
    from allyouneed.tasks.attention_maps import Attention
    from allyouneed.tasks.frames.transcriber import Transcriber
    from allyouneed.tasks.parsing.parser import Parse, ParseOptions, Parser
    from allyouneed.tasks.parsing.task import evaluate_parser
    from allyouneed.tasks.parsing.treebank import TreeFiles
    from allyouneed.tasks.requests import (
        Answer,
        Failure,
        ParseRequest,
        ScoreRequest,
        TranslateOptions,
        TranslationRequest,
    )
    from allyouneed.tasks.translation.outputs import Translation
    from allyouneed.tasks.translation.pair_scores import PairScore
    from allyouneed.tasks.translation.task import evaluate
    from allyouneed.tasks.translation.translator import Translator
    from allyouneed.terms.keeping import KeepingTranslator

__all__ = [
    "Answer",
    "Attention",
    "Budget",
    "Cluster",
    "Columns",
    "CorpusFiles",
    "DataConfig",
    "DataError",
    "Failure",
    "KeepingTranslator",
    "ModelConfig",
    "ModelError",
    "PairScore",
    "Parse",
    "ParseOptions",
    "ParseRequest",
    "Parser",
    "PreparedData",
    "RunConfig",
    "Score",
    "ScoreRequest",
    "SearchConfig",
    "SearchSettings",
    "Student",
    "TrainingConfig",
    "Transcriber",
    "TranslateOptions",
    "Translation",
    "TranslationRequest",
    "Translator",
    "TreeFiles",
    "UsageError",
    "UserError",
    "__version__",
    "average",
    "continue_from",
    "copy_published",
    "evaluate",
    "evaluate_parser",
    "load",
    "load_parser",
    "load_transcriber",
    "load_translator",
    "make_student",
    "prepare",
    "presets",
    "train",
    "translate_file",
]

_MODULES = {
    "Answer": "allyouneed.tasks.requests",
    "Attention": "allyouneed.tasks.attention_maps",
    "Budget": "allyouneed.runs.budgeting",
    "Cluster": "allyouneed.hardware.cluster",
    "Columns": "allyouneed.data.tab_separated",
    "CorpusFiles": "allyouneed.data.corpus_files",
    "DataConfig": "allyouneed.config.run",
    "DataError": "allyouneed.errors",
    "Failure": "allyouneed.tasks.requests",
    "KeepingTranslator": "allyouneed.terms.keeping",
    "ModelConfig": "allyouneed.config.model",
    "ModelError": "allyouneed.errors",
    "PairScore": "allyouneed.tasks.translation.pair_scores",
    "Parse": "allyouneed.tasks.parsing.parser",
    "ParseOptions": "allyouneed.tasks.parsing.parser",
    "ParseRequest": "allyouneed.tasks.requests",
    "Parser": "allyouneed.tasks.parsing.parser",
    "PreparedData": "allyouneed.preparation.prepared_data",
    "RunConfig": "allyouneed.config.run",
    "Score": "allyouneed.evaluation.scores",
    "ScoreRequest": "allyouneed.tasks.requests",
    "SearchConfig": "allyouneed.config.run",
    "SearchSettings": "allyouneed.config.run",
    "Student": "allyouneed.runs.distillation",
    "TrainingConfig": "allyouneed.config.run",
    "Transcriber": "allyouneed.tasks.frames.transcriber",
    "TranslateOptions": "allyouneed.tasks.requests",
    "Translation": "allyouneed.tasks.translation.outputs",
    "TranslationRequest": "allyouneed.tasks.requests",
    "Translator": "allyouneed.tasks.translation.translator",
    "TreeFiles": "allyouneed.tasks.parsing.treebank",
    "UsageError": "allyouneed.errors",
    "UserError": "allyouneed.errors",
    "average": "allyouneed.runs.starting",
    "continue_from": "allyouneed.runs.initial_model",
    "copy_published": "allyouneed.storage.remote",
    "evaluate": "allyouneed.tasks.translation.task",
    "evaluate_parser": "allyouneed.tasks.parsing.task",
    "load": "allyouneed.runs.loading",
    "load_parser": "allyouneed.runs.loading",
    "load_transcriber": "allyouneed.runs.loading",
    "load_translator": "allyouneed.runs.loading",
    "make_student": "allyouneed.runs.distillation",
    "prepare": "allyouneed.preparation.preparing",
    "train": "allyouneed.runs.starting",
    "translate_file": "allyouneed.files.translation",
}


if not TYPE_CHECKING:  # to a type checker, a name that is not above is an error

    def __getattr__(name: str) -> object:
        if name == "presets":
            return import_module("allyouneed.config.presets")
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__
