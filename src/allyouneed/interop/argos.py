"""Argos Translate export: an `.argosmodel`, a zip of a CTranslate2 folder and one SentencePiece model."""

import json
import shutil
import weakref
import zipfile
from pathlib import Path
from tempfile import mkdtemp

from allyouneed.data.language_names import language_name
from allyouneed.errors import UsageError
from allyouneed.interop import ctranslate2
from allyouneed.interop.from_argos import METADATA, MODEL, SENTENCEPIECE
from allyouneed.interop.sentencepiece_files import sentencepiece_models
from allyouneed.language_codes import primary_language
from allyouneed.model.transformer import Transformer
from allyouneed.storage.checkpoint import Checkpoint

_OF_MODEL = "model.bin", "config.json", "shared_vocabulary.json"
_README = """\
# A package of Argos Translate

Made by `allyouneed export`. In this folder, after `pip install argostranslate`:

```python
from argostranslate import package, translate

package.install_from_path("{package}")
print(translate.translate("A dog runs.", "{source}", "{target}"))
```

Argos Translate divides texts into sentences by MiniSBD, whose model for a language it downloads when it
first translates from it. The probabilities equal the original's; it searches with a length penalty of 0.2.
"""


def write(
    model: Transformer, checkpoint: Checkpoint, directory: Path, *, languages: tuple[str, str] | None = None
) -> None:
    """Write the package, and a README, into `directory`.

    Raises UsageError if the languages are not known, or the model has other sub-words than those of one
    SentencePiece model.
    """
    data = checkpoint.config.data
    source, target = map(primary_language, languages or (data.source_language, data.target_language))
    if not (source and target):
        raise UsageError(
            "argos: packages name their languages, and the model tells none; name them: languages en-de",
            settings=["languages"],
        )
    pieces = sentencepiece_models("argos", checkpoint)
    if pieces[0] != pieces[1]:
        raise UsageError(
            "argos: has one vocabulary for both languages, and the model has two; export it to ctranslate2, "
            "or prepare without separate_vocabularies",
            settings=["separate_vocabularies"],
        )
    converted = directory / MODEL
    converted.mkdir()
    ctranslate2.write(model, checkpoint, converted)
    root, package = f"translate-{source}_{target}-1_0", f"translate-{source}_{target}-1_0.argosmodel"
    metadata = {
        **{"package_version": "1.0", "argos_version": "1.0", "type": "translate"},
        **{"from_code": source, "from_name": language_name(source)},
        **{"to_code": target, "to_name": language_name(target)},
    }
    readme = _README.format(package=package, source=source, target=target)
    contents = {
        METADATA: json.dumps(metadata, indent=1).encode(),
        SENTENCEPIECE: pieces[0],
        "README.md": readme.encode(),
        **{f"{MODEL}/{name}": (converted / name).read_bytes() for name in _OF_MODEL},
    }
    with zipfile.ZipFile(directory / package, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(zipfile.ZipInfo(f"{root}/{name}"), content, zipfile.ZIP_DEFLATED)
    shutil.rmtree(converted)
    (directory / "README.md").write_bytes(readme.encode())


class ArgosModel(ctranslate2.CTranslate2Model):
    """A package written by `write`, run by the libraries that Argos Translate runs it by."""

    def __init__(self, directory: Path) -> None:
        [package] = directory.glob("*.argosmodel")
        root = Path(mkdtemp(prefix="allyouneed-package-"))
        weakref.finalize(self, shutil.rmtree, root, ignore_errors=True)
        with zipfile.ZipFile(package) as archive:
            for member in archive.infolist():
                archive.extract(member, root)
        folder = root / package.stem
        names = json.loads((folder / MODEL / "shared_vocabulary.json").read_bytes())
        pieces = ctranslate2.SentencePieces(folder / SENTENCEPIECE, names)
        super().__init__(folder / MODEL, (pieces, pieces))
