"""Damaged and malicious folders of Firefox: one line, exit code 4, and no wait.

Promise: Foreign models.
"""

import gzip
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.interop.foreign_models import Item, firefox_items, marian_binary
from tests.interop.test_hostile_imports import (  # noqa: F401 - one is a fixture
    Spoil,
    cut,
    delete,
    refused,
    watched,
    write,
)
from tests.packages import require_packages

from allyouneed.interop.marian_shortlist import MAGIC

require_packages("sentencepiece", "yaml")

FIXTURES = Path(__file__).parent / "fixtures" / "marian"
MODEL, VOCABULARY, LISTS = "model.ende.intgemm.alphas.bin", "vocab.ende.spm", "lex.50.50.ende.s2t.bin"
CONFIG, METADATA = "config.intgemm8bitalpha.yml", "metadata.json"
NUM_ENTRIES = 88
HEADER = struct.Struct("<6Q")


def items(**changed: Item) -> Spoil:
    """Change or add items of the weights."""
    return lambda folder: (folder / MODEL).write_bytes(marian_binary(sound_items() | changed))


def sound_items() -> dict[str, Item]:
    with np.load(FIXTURES / "ssru.npz") as arrays:
        return firefox_items(arrays)


def rounded(*shape: int, kind: int = 0x4101, data: bytes = bytes(64), factor: float = 1.0) -> Item:
    return Item(kind, shape, data + struct.pack("<f", factor))


def lists(
    offsets: list[int],
    targets: list[int],
    *,
    magic: int = MAGIC,
    sizes: tuple[int, int] | None = None,
    after: bytes = b"",
) -> Spoil:
    """Another shortlist, which may claim other `sizes` than it has."""
    num_offsets, num_targets = sizes or (len(offsets), len(targets))
    header = HEADER.pack(magic, 0, 50, 50, num_offsets, num_targets)
    arrays = np.array(offsets, "<u8").tobytes() + np.array(targets, "<u4").tobytes()
    return write(LISTS, header + arrays + after)


def ends(*last: int) -> list[int]:
    """Offsets of lists that are empty but for the last."""
    return [0] * (NUM_ENTRIES + 1 - len(last)) + [*last]


def compressed(name: str, alter: Callable[[bytearray], object] = len) -> Spoil:
    """Compress a file, and alter the result."""

    def spoil(folder: Path) -> None:
        content = bytearray(gzip.compress((folder / name).read_bytes()))
        alter(content)
        (folder / name).unlink()
        (folder / f"{name}.gz").write_bytes(content)

    return spoil


def instead(name: str, make: Callable[[Path], object], ending: str = ".gz") -> Spoil:
    """Replace a file by one of another kind, by default as if it were compressed."""

    def spoil(folder: Path) -> None:
        (folder / name).unlink()
        make(folder / f"{name}{ending}")

    return spoil


def huge(path: Path) -> None:
    path.touch()
    os.truncate(path, (1 << 34) + 1)


def half(content: bytearray) -> None:
    del content[len(content) // 2 :]


def flipped(content: bytearray) -> None:
    content[-6] ^= 1  # of the checksum


def bomb(path: Path) -> None:
    path.write_bytes(gzip.compress(bytes(1 << 25), 1))


CASES: dict[str, tuple[Spoil, str]] = {
    "weights cut off": (cut(MODEL, 0.7), "it ends too early"),
    "weights packed for AVX2": (
        items(Wemb=rounded(NUM_ENTRIES, 32, kind=0x5101)),
        "Wemb is of type 0x5101, and only float32 (0x404) and intgemm's integers are supported",
    ),
    "weights with less than their shape": (
        items(Wemb=rounded(NUM_ENTRIES, 32)),
        f"Wemb has less data than its shape ({NUM_ENTRIES}, 32)",
    ),
    "weights of exabytes": (
        items(Wemb=rounded(2**31 - 1, 2**31 - 1)),
        "Wemb has less data than its shape (2147483647, 2147483647)",
    ),
    "weights with a size below zero": (
        items(Wemb=rounded(-8, -8)),
        "Wemb has less data than its shape (-8, -8)",
    ),
    "rounded weights of one dimension": (items(Wemb=rounded(64)), "Wemb is no matrix with a factor"),
    "a factor of activations without a number": (
        items(Wemb_QuantMultA=Item(0x0404, (1, 1), b"")),
        "Wemb_QuantMultA has less data than its shape (1, 1)",
    ),
    "weights for another vocabulary": (
        items(Wemb=rounded(NUM_ENTRIES + 1, 32, data=bytes((NUM_ENTRIES + 1) * 32))),
        f"Wemb is ({NUM_ENTRIES + 1}, 32), ({NUM_ENTRIES}, 32) expected",
    ),
    "one vocabulary missing": (
        lambda folder: (folder / VOCABULARY).rename(folder / "srcvocab.ende.spm"),
        "its vocabularies are not found",
    ),
    "lists of nothing": (
        write(LISTS, b""),
        "is damaged or no binary shortlist of Marian (it ends too early)",
    ),
    "lists in text": (write(LISTS, b"sonne sun 0.9\n" * 9), "(it begins otherwise)"),
    "lists with another magic": (lists(ends(0), [], magic=MAGIC - 1), "(it begins otherwise)"),
    "lists cut off": (cut(LISTS, 0.9), "(it ends too early)"),
    "lists of exabytes": (lists(ends(0), [], sizes=(2**62, 0)), "(it ends too early)"),
    "tokens of exabytes": (lists(ends(0), [], sizes=(NUM_ENTRIES + 1, 2**61)), "(it ends too early)"),
    "lists with more": (lists(ends(0), [], after=b"123"), "(it has 3 bytes more than it says)"),
    "lists without an end": (lists([], []), "(its lists do not follow each other)"),
    "lists that begin late": (
        lists([1] * (NUM_ENTRIES + 1), [5]),
        "(its lists do not follow each other)",
    ),
    "lists that go back": (lists(ends(2, 1, 2), [5, 6]), "(its lists do not follow each other)"),
    "an offset of exabytes": (lists(ends(2**63, 1), [5]), "(its lists do not follow each other)"),
    "an offset beyond the tokens": (lists(ends(2), [5]), "(its lists do not follow each other)"),
    "a token beyond the vocabulary": (
        lists(ends(1), [NUM_ENTRIES]),
        "target tokens up to 88, but the vocabularies have 88 and 88; it is the shortlist of another model",
    ),
    "lists of another vocabulary": (lists([0] * 8, []), "has lists of 7 source tokens"),
    "a list of everything": (lists(ends(400_000), [5] * 400_000), "has a list of 400,000 tokens"),
    "two shortlists": (
        lambda folder: shutil.copy(folder / LISTS, folder / "lex.s2t.bin"),
        "has several shortlists (lex.50.50.ende.s2t.bin, lex.s2t.bin); keep one",
    ),
    "lists that are a pipe": (instead(LISTS, os.mkfifo, ""), "is a folder, a pipe or a device"),
    "lists of gigabytes": (instead(LISTS, huge, ""), "has 17,179,869,185 bytes, more than the "),
    "a gzip bomb": (instead(MODEL, bomb), "bytes, too many for its size; take another copy"),
    "a gzip bomb for lists": (instead(LISTS, bomb), "bytes, too many for its size; take another copy"),
    "a compressed file cut off": (compressed(MODEL, half), "is damaged or not compressed by gzip"),
    "a compressed file with another checksum": (
        compressed(VOCABULARY, flipped),
        "is damaged or not compressed by gzip",
    ),
    "a file that is not compressed": (
        instead(VOCABULARY, lambda path: path.write_bytes(b"spm")),
        "is damaged or not compressed by gzip (Not a gzipped file",
    ),
    "a compressed file that is a pipe": (instead(LISTS, os.mkfifo), "is a folder, a pipe or a device"),
    "a compressed file of gigabytes": (instead(MODEL, huge), "has 17,179,869,185 bytes, more than the "),
    "a compressed file that is a device": (
        instead(VOCABULARY, lambda path: path.symlink_to("/dev/zero")),
        "is a folder, a pipe or a device",
    ),
    "settings that are a list": (write(CONFIG, b"- beam-size\n"), "is no YAML mapping"),
    "settings with a beam in words": (write(CONFIG, b"beam-size: many\n"), "beam-size = 'many' is no number"),
    "settings that lead elsewhere": (
        write(CONFIG, b"vocabs: [/etc/passwd, ../../secret.spm]\n"),
        "names the vocabulary passwd, which is not beside it",
    ),
    "metadata that is a list": (write(METADATA, b"[]"), "metadata.json: is no JSON object"),
    "metadata nested deep": (write(METADATA, b"[" * 100_000), "nested too deep"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "model"
    made.mkdir()
    (made / MODEL).write_bytes(marian_binary(sound_items()))
    shutil.copy(FIXTURES / "vocab.spm", made / VOCABULARY)
    shutil.copy(FIXTURES / "lex.3.2.s2t.bin", made / LISTS)
    return made


@pytest.mark.usefixtures("watched")
@pytest.mark.parametrize("name", CASES)
def test_each_fault_is_one_line(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spoil, reason = CASES[name]
    spoil(folder)
    refused(folder, capsys, reason, "--shortlist", str(folder.parent / "lists"))
    assert not (folder.parent / "lists").exists()
