"""Valid files made strange: in their bytes, in their values, and in what seals them."""

import contextlib
import hashlib
import json
import random
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from allyouneed.storage.publish import MANIFEST

Mutation = Callable[[random.Random, bytes], bytes]

HOSTILE = (
    b"\0",
    b"\xff\xfe",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\r\n",
    b"\r",
    b"\n\n\n",
    b"\t",
    b"\xef\xbb\xbf",
    b"\xe2\x80\xa8",
    b"\x1b[2J",
    b"((((((((",
    b"))))",
    b"()",
    b"#",
    b"\\u0000",
    b"\\ud800",
    b"</s>",
    b"%s%n{}",
    b"e\xcc\x81" * 300,
    b"9" * 5_000,
    b"[" * 5_000,
    b" " * 5_000,
)
"""Pieces to put into texts and files."""

ODD_VALUES = (
    *("null", "true", "false", "0", "1", "-1", "2", "0.5", "-0.0", "1e308", "1e999", "-1e999", "NaN"),
    *("65535", "65536", "2147483648", "4294967296", "9223372036854775808", "1e19", "1000000000"),
    *("9" * 4_301, '""', '"x"', '"-1"', '"../../etc/passwd"', '"\\u0000"', '"\\ud800"', '"nan"'),
    *("[]", "{}", "[[]]", "[0]", '{"a": 1}', "[null]", '[["a", 1]]', "[" * 40 + "]" * 40),
    *("[" * 3_000 + "]" * 3_000, '{"a":' * 2_000 + "1" + "}" * 2_000, '"' + "x" * 100_000 + '"'),
)
"""Values in JSON, most of which are TOML too."""

_PLACE = '"\x01place\x01"'


def damaged(draw: random.Random, content: bytes) -> bytes:
    """Change one to three places of the bytes."""
    for _ in range(draw.randint(1, 3)):
        content = draw.choice(_OF_BYTES)(draw, content)
    return content


def _flipped(draw: random.Random, content: bytes) -> bytes:
    place = draw.randrange(len(content) + 1)
    return (
        content[:place]
        + bytes(b ^ 1 << draw.randrange(8) for b in content[place : place + 1])
        + content[place + 1 :]
    )


def _truncated(draw: random.Random, content: bytes) -> bytes:
    return content[: draw.choice([0, 1, len(content) // 2, draw.randrange(len(content) + 1)])]


def _spliced(draw: random.Random, content: bytes) -> bytes:
    start, end = sorted(draw.choices(range(len(content) + 1), k=2))
    place = draw.randrange(len(content) + 1)
    return content[:place] + content[start:end][:10_000] + content[place:]


def _zeroed(draw: random.Random, content: bytes) -> bytes:
    place = draw.randrange(len(content) + 1)
    length = len(content[place : place + 4_096])
    return content[:place] + bytes(length) + content[place + length :]


def _inserted(draw: random.Random, content: bytes) -> bytes:
    place = draw.randrange(len(content) + 1)
    return content[:place] + draw.choice(HOSTILE) + content[place:]


def _cut(draw: random.Random, content: bytes) -> bytes:
    start, end = sorted(draw.choices(range(len(content) + 1), k=2))
    return content[:start] + content[end:]


_OF_BYTES: tuple[Mutation, ...] = (_flipped, _truncated, _spliced, _zeroed, _inserted, _cut)


def with_odd_json(draw: random.Random, content: bytes) -> bytes:
    """Put an odd value in the place of any other, or take one out, or name one twice."""
    try:
        document = json.loads(content)
    except ValueError:  # damaged before
        return damaged(draw, content)
    places = list(_places(document))
    if not places:
        return draw.choice(ODD_VALUES).encode()
    for _ in range(draw.choice([1, 1, 2])):
        holder, key = draw.choice(places)
        kind = draw.random()
        if kind < 0.1 and isinstance(holder, dict):
            holder.pop(key, None)
        elif kind < 0.2 and isinstance(holder, dict):
            holder[draw.choice(["x", "", "\0", "__class__"])] = _PLACE
        else:
            holder[key] = _PLACE
    written = json.dumps(document, ensure_ascii=False)
    while (quoted := json.dumps(_PLACE)) in written:
        written = written.replace(quoted, draw.choice(ODD_VALUES), 1)
    return written.encode()


def _places(document: Any) -> Iterator[tuple[Any, Any]]:
    """Every list or object in the document with each of its keys; of long lists the first and last few."""
    keys: list[Any] = []
    if isinstance(document, dict):
        keys = list(document)
    elif isinstance(document, list):
        keys = list(range(len(document)))
    for key in keys if len(keys) < 40 else keys[:8] + keys[-8:]:
        yield document, key
        yield from _places(document[key])


def with_odd_toml(draw: random.Random, content: bytes) -> bytes:
    """Put an odd value in the place of another, or change the keys and tables."""
    lines = content.decode("latin-1").split("\n")
    settings = [number for number, line in enumerate(lines) if " = " in line]
    if not settings:  # damaged before
        return damaged(draw, content)
    for _ in range(draw.choice([1, 1, 2])):
        number = draw.choice(settings)
        key, _, value = lines[number].partition(" = ")
        odd = draw.choice(ODD_VALUES).replace("null", "nan").replace("1e999", "inf")
        lines[number] = draw.choice(
            [
                *[f"{key} = {odd}"] * 6,
                f"{key} = {value}\n{key} = {value}",
                f"{key}x = {value}",
                f"[{key}]",
                f"{key}",
                f"{'a.' * draw.choice([3, 200])}{key} = {value}",
                f'{key} = """{value}',
            ]
        )
    return "\n".join(lines).encode("latin-1")


def with_odd_header(draw: random.Random, content: bytes) -> bytes:
    """Change the header of a safetensors file, its length with it or not."""
    if len(content) < 8:
        return damaged(draw, content)
    (length,) = struct.unpack("<Q", content[:8])
    header, tensors = content[8 : 8 + length], content[8 + length :]
    if draw.random() < 0.2:
        return struct.pack("<Q", draw.choice([0, 1, length - 1, length + 1, 1 << 40, (1 << 64) - 1])) + header
    change = with_odd_json if draw.random() < 0.8 else damaged
    header = change(draw, header)
    return struct.pack("<Q", len(header)) + header + tensors


MUTATIONS: dict[str, tuple[Mutation, ...]] = {
    ".json": (with_odd_json, with_odd_json, damaged),
    ".toml": (with_odd_toml, with_odd_toml, damaged),
    ".safetensors": (with_odd_header, damaged),
}
"""What is done to a file, by the ending of its name; to any other `damaged`."""


def mutate(draw: random.Random, path: Path) -> None:
    """Make the file strange."""
    mutation = draw.choice(MUTATIONS.get(path.suffix, (damaged,)))
    path.write_bytes(mutation(draw, path.read_bytes()))


def reseal(folder: Path) -> None:
    """Let the manifest of a published directory hold for the files as they are now."""
    manifest = json.loads((folder / MANIFEST).read_bytes())
    for name, entry in manifest["files"].items():
        content = (folder / name).read_bytes()
        entry |= {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    write_sealed(folder, manifest)


def seal(folder: Path) -> None:
    """Give a changed manifest the seal that it should have, if it is still an object."""
    with contextlib.suppress(ValueError, AttributeError, RecursionError):
        write_sealed(folder, json.loads((folder / MANIFEST).read_bytes()))


def write_sealed(folder: Path, manifest: dict[str, Any]) -> None:
    """Write a manifest whose last key is the sha256 of all that stands before it."""
    manifest.pop("manifest_sha256", None)
    digest = hashlib.sha256(json.dumps(manifest).encode()).hexdigest()
    sealed = json.dumps({**manifest, "manifest_sha256": digest}, indent=1)
    (folder / MANIFEST).write_bytes(sealed.encode())
