"""Makes a corpus of speech: espeak-ng reads sentences, in several voices and speeds, as 16 kHz WAV files.

    python benchmarks/spoken_sentences.py SENTENCES OUT [NUM]

SENTENCES has an English sentence per line, or is a file of pairs whose first column has one. Of those that
are short, 500 are read by a voice that no other sentence has, 300 by the training voices for
validation, and NUM (20,000) more for training. Texts are lower case letters, apostrophes and spaces.
"""

import random
import re
import subprocess
import sys
import wave
from collections.abc import Iterator, Sequence
from itertools import islice
from math import gcd
from pathlib import Path

import numpy as np
from scipy.signal import resample_poly

VOICES = "en-us", "en-gb", "en-us+f2", "en-gb+m3", "en-gb-scotland", "en-us+m7", "en-gb-x-gbclan+f4"
HELD_OUT = ("en-gb-x-rp+f3",)
SPEEDS = 140, 160, 180, 200
"""Words per minute."""
SAMPLE_RATE, MOST_CHARACTERS = 16_000, 60


def sentences_of(path: Path) -> Iterator[str]:
    """The texts of the sentences that are short, each once."""
    seen = set[str]()
    for line in path.read_text(encoding="utf-8").split("\n"):
        text = line.partition("\t")[0].lower().replace("’", "'").strip()
        spoken = " ".join(re.sub(r"[.,!?;:\"-]", " ", text).split())
        if re.fullmatch(r"[a-z' ]+", spoken) and len(spoken) <= MOST_CHARACTERS and spoken not in seen:
            seen.add(spoken)
            yield spoken


def speak(text: str, voice: str, speed: int, path: Path) -> None:
    """Write the speech of a text as 16-bit samples at 16 kHz."""
    command = "espeak-ng", "-v", voice, "-s", str(speed), "-w", str(path), text
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    with wave.open(str(path), "rb") as file:
        rate, samples = file.getframerate(), np.frombuffer(file.readframes(file.getnframes()), "<i2")
    common = gcd(rate, SAMPLE_RATE)
    resampled = resample_poly(samples.astype(np.float64), SAMPLE_RATE // common, rate // common)
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, SAMPLE_RATE, 0, "NONE", "not compressed"))
        file.writeframes(np.clip(resampled, -32768, 32767).astype("<i2").tobytes())


def write_part(out: Path, part: str, texts: Sequence[str], voices: Sequence[str]) -> None:
    """Write the speech of texts, and the file of pairs that names it."""
    (out / part).mkdir(parents=True)
    draw, rows = random.Random(1), []
    for number, text in enumerate(texts):
        path = out / part / f"{number:06}.wav"
        speak(text, draw.choice(voices), draw.choice(SPEEDS), path)
        rows.append(f"{path}\t{text}\n")
    (out / f"{part}.tsv").write_text("".join(rows))


def main(sentences: Path, out: Path, num: int) -> None:
    """Write the three parts."""
    texts = [*islice(sentences_of(sentences), 800 + num)]
    random.Random(1).shuffle(texts)
    write_part(out, "test", texts[:500], HELD_OUT)
    write_part(out, "valid", texts[500:800], VOICES)
    write_part(out, "train", texts[800:], VOICES)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 20_000)
