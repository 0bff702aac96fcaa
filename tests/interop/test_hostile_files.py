"""Any file of any format may be a pipe, a device, or huge: one line, exit code 4, and no wait.

Promise: Bounded reading.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.interop.foreign_models import convert_to_ctranslate2, make_marian_folder
from tests.packages import require_packages
from tests.patience import outputs_at_the_end

from allyouneed.data.sentencepiece_tokenizer import SentencePieceTokenizer
from allyouneed.interop.importing import import_model

require_packages("sentencepiece", "transformers", "ctranslate2", "yaml")

FIXTURES = Path(__file__).parent / "fixtures" / "marian"
PROGRAM = Path(__file__).with_name("run_in_little_memory.py")
HUGE_BYTES = (1 << 34) + 1


def link_to(target: str) -> Callable[[Path], object]:
    return lambda path: path.symlink_to(target)


def huge(path: Path) -> None:
    path.touch()
    os.truncate(path, HUGE_BYTES)


KINDS: dict[str, tuple[Callable[[Path], object], str]] = {
    "pipe": (os.mkfifo, "is a folder, a pipe or a device"),
    "link to a device": (link_to("/dev/zero"), "is a folder, a pipe or a device"),
    "huge": (huge, "has 17,179,869,185 bytes, more than the "),
}
"""What a file may be instead -> how it is made, and the reason of the refusal."""
FILES = {
    "huggingface": (
        *("config.json", "vocab.json", "source.spm", "target.spm", "model.safetensors"),
        *("tokenizer_config.json", "generation_config.json", "special_tokens_map.json", "target_vocab.json"),
    ),
    "ctranslate2": (
        "config.json",
        "model.bin",
        "shared_vocabulary.json",
        "source.spm",
        "source_vocabulary.txt",
    ),
    "marian": ("model.npz", "vocab.spm", "decoder.yml", "other.bin"),
    "marian text": ("model.npz", "v.src.vocab", "v.trg.vocab", "source.spm"),
    "argos": ("metadata.json", "sentencepiece.model", "model/model.bin", "model/config.json"),
    "hub": ("refs/main", "snapshots/1/config.json", "snapshots/1/model.safetensors"),
}
OURS = "MANIFEST.json", "config.toml", "model.safetensors", "source_tokenizer.json"


class Case(NamedTuple):
    command: str
    format: str
    file: str
    kind: str


IMPORTS = [
    *(Case("import", name, file, kind) for name, files in FILES.items() for file in files for kind in KINDS),
    *(Case("import", "package", "a.argosmodel", kind) for kind in KINDS),
    *(Case("import", "archive", "model.npz", kind) for kind in KINDS),
]
OTHERS = [
    Case(command, "ours", file, kind)
    for command in ("import", "verify", "translate")
    for file in OURS
    for kind in KINDS
]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a sound model of every format."""
    root = tmp_path_factory.mktemp("sound")
    make_marian_folder(root / "huggingface")
    convert_to_ctranslate2(root / "huggingface", root / "ctranslate2", None)
    (root / "argos").mkdir()
    (root / "argos" / "metadata.json").write_text("{}")
    shutil.copy(root / "huggingface" / "source.spm", root / "argos" / "sentencepiece.model")
    shutil.copytree(root / "ctranslate2", root / "argos" / "model")
    for name in ("marian", "marian text", "archive", "package"):
        (root / name).mkdir()
        shutil.copy(FIXTURES / "ssru.npz", root / name / "model.npz")
    shutil.copy(FIXTURES / "vocab.spm", root / "marian")
    spm = (FIXTURES / "vocab.spm").read_bytes()
    entries = "".join(f"{entry}\n" for entry in SentencePieceTokenizer.entries_of(spm)).encode()
    for file, content in (("source.spm", spm), ("v.src.vocab", entries), ("v.trg.vocab", entries)):
        (root / "marian text" / file).write_bytes(content)
    shutil.copytree(root / "huggingface", root / "hub" / "snapshots" / "1")
    (root / "hub" / "refs").mkdir()
    (root / "hub" / "refs" / "main").write_text("1")
    import_model(root / "marian", root / "ours")
    return root


@pytest.fixture(scope="module")
def said(sound: Path) -> Iterator[dict[Case, tuple[int, str]]]:
    """Exit code and messages of each case, of one process with bounded memory, whose end is waited for."""
    cases = [*IMPORTS, *OTHERS]
    commands = []
    for number, case in enumerate(cases):
        folder = sound / "cases" / str(number)
        shutil.copytree(sound / case.format, folder, copy_function=os.link)
        path = folder / case.file
        path.unlink(missing_ok=True)
        KINDS[case.kind][0](path)
        model = folder if case.format not in ("package", "archive") else path
        out = [str(sound / "out")] if case.command == "import" else []
        commands.append([case.command, str(model), *out])
    (sound / "commands.json").write_text(json.dumps(commands))
    with subprocess.Popen(
        [sys.executable, str(PROGRAM), str(sound / "commands.json")],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        written, errors = outputs_at_the_end(process)
    lines = [json.loads(line) for line in written.split(b"\n") if line]
    assert process.returncode == 0, (lines[-1:], errors)
    yield {cases[number]: (code, text) for number, code, text in lines[1::2]}
    assert not (sound / "out").exists()


@pytest.mark.parametrize("case", IMPORTS, ids=" ".join)
def test_a_file_that_is_not_regular_or_huge_is_refused_by_name(
    case: Case, said: dict[Case, tuple[int, str]]
) -> None:
    code, text = said[case]
    assert (code, text.count("\n")) == (4, 1), text
    assert KINDS[case.kind][1] in text
    assert f"/{case.file}: " in text


@pytest.mark.parametrize("case", OTHERS, ids=" ".join)
def test_a_model_of_ours_is_refused_likewise(case: Case, said: dict[Case, tuple[int, str]]) -> None:
    code, text = said[case]
    assert (code, text.count("\n")) == (4, 1), text
    assert case.file in text
