"""Makes a corpus of frames: lines of 5 to 20 handwritten digits of scikit-learn, a column of pixels a frame.

    python benchmarks/digit_lines.py OUT [NUM_LINES]

Images whose number ends in 9 are held out; half of them, drawn once, are for validation lines and the rest
for test lines. Training digits are turned, moved and blurred a little in each line that has them.
"""

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from sklearn.datasets import load_digits

Image = NDArray[np.float64]
HEIGHT, MOST_GAP = 10, 3


def disturbed(image: Image, draw: np.random.Generator) -> Image:
    """The image turned by up to 15 degrees, scaled by up to 15%, moved by up to a pixel, and sheared."""
    angle, shear = np.deg2rad(draw.uniform(-15, 15)), draw.uniform(-0.2, 0.2)
    turned = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    matrix = turned @ [[1, 0], [shear, 1]] / draw.uniform(0.85, 1.15, (2, 1))
    centre = np.array(image.shape) / 2 - 0.5
    moved = ndimage.affine_transform(
        image, matrix, centre - matrix @ centre + draw.uniform(-1, 1, 2), order=1, mode="constant"
    )
    found: Image = moved * draw.uniform(0.8, 1.1) + draw.normal(0, 0.4, image.shape)
    return found


def line_of(images: list[Image], draw: np.random.Generator) -> NDArray[np.float32]:
    """Images side by side, with gaps: a frame for each column."""
    parts = [np.zeros((HEIGHT, 1))]
    for image in images:
        parts += [np.pad(image, ((1, 1), (0, 0))), np.zeros((HEIGHT, int(draw.integers(0, MOST_GAP + 1))))]
    return np.ascontiguousarray(np.concatenate(parts, axis=1).T, np.float32)


def main(out: Path, num_lines: int) -> None:
    """Write the files of arrays and a manifest for each part."""
    images, labels = load_digits(return_X_y=True)
    images, numbers = images.reshape(-1, 8, 8), np.arange(len(images))
    draw = np.random.default_rng(1)
    held_out = draw.permutation(numbers[numbers % 10 == 9])
    parts = {
        "train": (numbers[numbers % 10 != 9], num_lines),
        "valid": (held_out[::2], 200),
        "test": (held_out[1::2], 1_000),
    }
    for part, (those, number) in parts.items():
        folder = out / part
        folder.mkdir(parents=True)
        rows = []
        for line in range(number):
            chosen = draw.choice(those, draw.integers(5, 21))
            found = [disturbed(images[i], draw) if part == "train" else images[i] for i in chosen]
            np.save(folder / f"{line:06}.npy", line_of(found, draw))
            rows.append(f"{folder / f'{line:06}.npy'}\t{''.join(str(labels[i]) for i in chosen)}\n")
        (out / f"{part}.tsv").write_text("".join(rows))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 20_000)
