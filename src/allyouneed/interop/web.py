"""Web export: a folder of files that translates in any browser, without a server of ours or a network.

The page is that of `serve`. Where it asks the server, `serve/offline/api.js` answers by Bergamot's engine,
which runs in a worker of the browser; `keeper.js` keeps all files there.
"""

import contextlib
import json
import shutil
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from allyouneed.data.tokenizer import Tokenizer
from allyouneed.errors import UsageError
from allyouneed.interop import bergamot, to_marian
from allyouneed.interop.marian_files import read_yaml
from allyouneed.interop.parity import Agreement
from allyouneed.model.transformer import Transformer
from allyouneed.storage.checkpoint import Checkpoint

PACKAGE: Final = "@browsermt/bergamot-translator"
"""The npm package of the engine."""
_ENGINE: Final = (
    "translator-worker.js",
    "bergamot-translator-worker.js",
    "bergamot-translator-worker.wasm",
)
_MODEL: Final = "model"
_DESCRIPTION: Final = f"{_MODEL}/model.json"
_KEEPER: Final = "keeper.js"
_MOST_CHARACTERS: Final = 5_000
_PARTS: Final = {"model": "models", "vocabularies": "vocabs", "shortlist": "shortlist"}
"""Part of a model -> its key in `config.yml`."""
_README: Final = """\
# A translator from {source} to {target} for browsers

Made by `allyouneed export`. Put this folder on any web server, whole. Over HTTPS, a browser that has opened
the page once opens it without a network, too. To try it here:

    python3 -m http.server 8000

and open http://127.0.0.1:8000. `engine/` is from the npm package {package} {version} (MPL 2.0).
"""


def write(
    model: Transformer,
    checkpoint: Checkpoint,
    directory: Path,
    *,
    engine: Path | None = None,
    languages: tuple[str, str] | None = None,
    **options: Any,
) -> None:
    """Write the page, the engine and the model into `directory`.

    Args:
        model: The model.
        checkpoint: The checkpoint that it was loaded from.
        directory: Folder to write into.
        engine: Folder of the engine's npm package, or of its worker; default: the one that is installed in
            `node_modules` of the current folder.
        languages: Codes of both languages; default: the model's own.
        **options: Other options of `bergamot.write`.

    Raises:
        UsageError: There is no engine, the languages are not known, or the model does not suit Bergamot.
        ModelError: The shortlist is of another model.
    """
    worker, data = _worker(engine), checkpoint.config.data
    source, target = languages or (data.source_language, data.target_language)
    if not (source and target):
        raise UsageError(
            "web: the page names its languages, and the model tells none; name them: languages en-de",
            settings=["languages"],
        )
    (into := directory / _MODEL).mkdir()
    bergamot.write(model, checkpoint, into, languages=(source, target), **options)
    (directory / "engine").mkdir()
    for name in _ENGINE:
        shutil.copyfile(worker / name, directory / "engine" / name)
    _write_page(directory)
    settings = read_yaml(into / "config.yml")
    parts = {
        part: [name for name in dict.fromkeys(settings.get(key, ())) if isinstance(name, str)]
        for part, key in _PARTS.items()
    }
    described = {
        "source": source,
        "target": target,
        "characters": _MOST_CHARACTERS,
        "files": {part: names for part, names in parts.items() if names},
        "config": {"gemm-precision": settings["gemm-precision"]},
        "page": ["./", *sorted(_paths(directory)), _DESCRIPTION],
    }
    (directory / _DESCRIPTION).write_bytes(json.dumps(described, indent=1).encode())
    version = _version(worker)
    readme = _README.format(source=source, target=target, package=PACKAGE, version=version)
    (directory / "README.md").write_bytes(readme.encode())


def prove(folder: Path, model: Transformer, tokenizers: tuple[Tokenizer, Tokenizer]) -> Agreement:
    """Compare the model of a folder; see `to_marian.prove`."""
    return to_marian.prove(folder / _MODEL, model, tokenizers)


def _worker(engine: Path | None) -> Path:
    """The folder of the engine's files."""
    installed = Path("node_modules", PACKAGE)
    places = [installed] if engine is None else [engine, engine / installed]
    for place in (each for folder in places for each in (folder, folder / "worker")):
        if all((place / name).is_file() for name in _ENGINE):
            return place
    wrong = "engine: is not installed here" if engine is None else f"engine {engine}: is no folder of it"
    raise UsageError(f"{wrong}; npm install {PACKAGE}, or name its folder", settings=["engine"])


def _version(worker: Path) -> str:
    for folder in (worker, worker.parent):
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            return str(json.loads((folder / "package.json").read_bytes())["version"])
    return "of unknown version"


def _write_page(directory: Path) -> None:
    serve = files("allyouneed.serve")
    places = {"": serve.joinpath("web"), "explorer": files("allyouneed.explorer").joinpath("web")}
    for place, folder in [*places.items(), ("", serve.joinpath("offline"))]:
        (directory / place).mkdir(exist_ok=True)
        for file in folder.iterdir():
            content = file.read_bytes()
            if file.name == "index.html":
                content = content.replace(b'"/web/', b'"')
            (directory / place / file.name).write_bytes(content)


def _paths(directory: Path) -> Iterator[str]:
    for file in directory.rglob("*"):
        path = file.relative_to(directory).as_posix()
        if file.is_file() and path != _KEEPER:
            yield path
