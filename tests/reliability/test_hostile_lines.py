"""`translate` answers every line of the most hostile input, each as if it were alone, in constant memory."""

import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import allyouneed
from allyouneed.data.lines import is_blank

Record = Callable[[str, object], None]
LONG = 50_000
PIECES = (
    *("sun", "moon", "star", "tree", "river", "stone", "bird", "fish", "wolf", "bear", "sees", "likes"),
    *(
        "</s>",
        "<pad>",
        "<s>",
        "<unk>",
        "<sentinel>",
        "▁",
        "@@",
        "\\n",
        "%s",
        "{}",
        "'",
        '"',
        ". ",
        "?! ",
        "-",
    ),
    *(
        "\U0001f600",
        "👩‍👩‍👧",
        "🇩🇪",
        "e\u0301",
        "\u0301",
        "\u0336",
        "ﬁ",
        "ß",
        "日本語。",
        "שלום",
        "नमस्ते।",
        "ไทย",
    ),
    *("\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\r", "\0", "\x1b[31m", "\x07", "\u202e", "\ufeff"),
    *("\xa0", "\u3000", "\u200b", "\u200d", "\ufffd", "\U0010ffff", "\ue000", "0", "1e999", "NaN", "..", "#"),
)
BLANKS = ("", "", " ", "\t", "\u3000\u200b", "\x85 ", "\u2028", "\r")
BROKEN = (b"\xff", b"\xc3", b"sun \xed\xa0\x80 moon", b"\xf8\x88\x80\x80\x80", b"moon\xe2\x80", b"\x80\0")


def hostile_lines(num: int, num_long: int, seed: int) -> list[bytes]:
    """Lines of input without their line feeds; the same for the same seed."""
    draw = random.Random(seed)

    def line() -> bytes:
        kind = draw.random()
        if kind < 0.1:
            return draw.choice(BLANKS).encode()
        if kind < 0.15:
            return draw.choice(BROKEN)
        space = draw.choice(["", " ", " ", " "])
        return space.join(draw.choices(PIECES, k=draw.randint(1, 8))).encode()

    lines = [line() for _ in range(num)]
    for number, place in enumerate(draw.sample(range(num), num_long)):
        unit = ("x", "sun moon ", "bird sees fish. ", "…", "日本語。")[number % 5]
        lines[place] = (unit * LONG)[:LONG].encode()
    return lines


class Translation:
    """`allyouneed translate` as a program of its own, which is fed lines and gives lines."""

    def __init__(self, model: Path, errors: Path, *options: str) -> None:
        self._errors = errors.open("wb")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "allyouneed", "translate", model, "--device", "cpu", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        assert self._process.stdin
        assert self._process.stdout
        self._stdin, self._stdout = self._process.stdin, self._process.stdout

    def feed(self, lines: list[bytes]) -> None:
        """Give it lines, in a thread; its input stays open."""

        def write() -> None:
            self._stdin.write(b"".join(line + b"\n" for line in lines))
            self._stdin.flush()

        threading.Thread(target=write, daemon=True).start()

    def line(self) -> bytes:
        """The next line that it writes."""
        line = self._stdout.readline()
        assert line.endswith(b"\n")
        return line[:-1]

    def memory(self) -> int:
        """What it has in memory now, in bytes."""
        pages = Path(f"/proc/{self._process.pid}/statm").read_bytes().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def end(self) -> tuple[bytes, int]:
        """What it still writes when its input ends, and its exit code."""
        self._stdin.close()
        with self._stdout:
            rest = self._stdout.read()
        code = self._process.wait()
        self._errors.close()
        return rest, code


@pytest.mark.parametrize(
    ("num_lines", "num_long"), [(1_000, 2), pytest.param(200_000, 20, marks=pytest.mark.release)]
)
def test_every_line_is_answered_as_if_alone_and_memory_does_not_grow(
    toy_model: Path, tmp_path: Path, num_lines: int, num_long: int, record_property: Record
) -> None:
    """Promise: Lines."""
    lines = hostile_lines(num_lines, num_long, seed=1)
    program = Translation(toy_model, tmp_path / "errors", "--beam-size", "2")
    program.feed(lines)
    early = num_lines // 10
    found = [program.line() for _ in range(early)]
    memory_early = program.memory()
    found += [program.line() for _ in range(num_lines - early)]
    memory_late = program.memory()
    assert program.end() == (b"", 9)

    texts = [text_of(line) for line in lines]
    assert [answer for answer, text in zip(found, texts, strict=True) if is_blank(text) and answer] == []
    translator = allyouneed.load_translator(toy_model)
    chosen = random.Random(2).sample(range(num_lines), min(500, num_lines // 10))
    for place in chosen:
        alone = translator.translate([texts[place]], beam_size=2)[0].text
        assert found[place].decode() == alone, lines[place]
    errors = (tmp_path / "errors").read_bytes().decode()
    assert errors.count("error[E-UTF8]: standard input:") == sum(line in BROKEN for line in lines)
    assert errors.count("tokens, more than the maximum of 1,024; translated in ") == num_long
    if num_lines > 20_000:  # before that it grows, up to the largest batch
        assert memory_late <= 1.1 * memory_early
    record_property("lines", num_lines)
    record_property("compared", len(chosen))
    record_property("MB early", memory_early >> 20)
    record_property("MB late", memory_late >> 20)


def text_of(line: bytes) -> str:
    """What is to be translated of a line: nothing if it is no UTF-8."""
    return "" if line in BROKEN else line.removesuffix(b"\r").decode()
