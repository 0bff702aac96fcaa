"""A model in the real Marian, by `pymarian`, with which an import is proved."""

import re
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from allyouneed.errors import ModelError
from allyouneed.interop.foreign import Scored
from allyouneed.interop.marian_vocabularies import Vocabularies
from allyouneed.interop.parity import Ids

_BEAM_SIZE = 4
_LINE = re.compile(r"(\d+) \|\|\| (.*?) \|\|\| WordScores= ?(.*?) \|\|\| ")


class RealMarian:
    """The model in Marian on one thread; an `Original`.

    Marian does not score given pieces, so the hypotheses that it writes itself are compared.

    Args:
        model: The `.npz` or `.bin` file.
        vocabularies: The vocabularies of both sides.
        arrays: The arrays that Marian gets instead of the file's, if given: tensors, and others as bytes.
    """

    def __init__(
        self, model: Path, vocabularies: Vocabularies, arrays: Mapping[str, Tensor | bytes] | None = None
    ) -> None:
        self._model, self._files = model, vocabularies.files
        if arrays is not None:
            folder = tempfile.mkdtemp()
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            self._model = Path(folder, "model.npz")
            contents = {
                name: array.numpy() if isinstance(array, Tensor) else np.frombuffer(array, np.int8)
                for name, array in arrays.items()
            }
            np.savez(self._model, **contents)  # type: ignore[arg-type]
        self._source, self._target = (tokenizer.names for tokenizer in vocabularies.tokenizers)
        self._ids = {name: token for token, name in enumerate(self._target)}

    def encode(self, text: str) -> None:
        """Not available: the folder's tokenisers are not Marian's own."""

    def scored(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[Scored]:
        """Hypotheses of a beam search, with the log-probability of each token, the end symbol's last."""
        return [
            Scored(sources[number], ids, log_probs)
            for number, ids, log_probs in self._written(sources, _BEAM_SIZE)
            if len(log_probs) == len(ids) + 1  # else it was cut off
        ]

    def greedy(self, sources: Sequence[Ids], most: int) -> list[list[int]]:
        """The most probable token again and again, at most `most`, without the end symbol."""
        return [ids[:most] for _, ids, _ in self._written(sources, 1)]

    def _written(self, sources: Sequence[Ids], beam_size: int) -> list[tuple[int, list[int], list[float]]]:
        """Number of the source, ids and log-probabilities of each hypothesis."""
        from pymarian import Translator

        options: dict[str, Any] = {
            **{"n-best": True, "word-scores": True, "no-spm-encode": True, "no-spm-decode": True},
            **{"beam-size": beam_size, "cpu-threads": 1, "workspace": 256, "mini-batch": 1},
            **{"quiet": True, "quiet-translation": True, "max-length": 200, "max-length-factor": 10},
            "allow-unk": True,  # as our search does
        }
        texts = [" ".join(self._source[token] for token in ids) for ids in sources]
        found = Translator(models=[str(self._model)], vocabs=[*map(str, self._files)], **options).translate(
            texts
        )
        written = []
        for line in (part for text in found for part in text.split("\n") if part):
            match = _LINE.match(line)
            if match is None:
                raise ModelError(f"{self._model}: Marian answers in an unknown form: {line[:60]!r}")
            ids = [self._ids[piece] for piece in match[2].split()]
            written.append((int(match[1]), ids, [float(number) for number in match[3].split()]))
        return written
