"""A model in CTranslate2, with which an import is proved."""

from collections.abc import Sequence
from pathlib import Path

from allyouneed.interop.foreign import Order, Scored
from allyouneed.interop.foreign_files import folder_with
from allyouneed.interop.parity import Ids
from allyouneed.symbols import END

FILES = (
    *("config.json", "model.bin"),
    *(f"{side}_vocabulary.{end}" for side in ("source", "target", "shared") for end in ("json", "txt")),
)
"""Files that CTranslate2 reads here; it would also read a `vmap.txt`."""


class RealCTranslate2:
    """The model in CTranslate2 on the CPU in float32; an `Original`.

    Args:
        path: The folder.
        orders: The vocabularies of both sides in our order.
        names: The entries of both sides in CTranslate2's order.
        ends: Whether the end symbol is a part of the sources that CTranslate2 gets.
    """

    def __init__(
        self,
        path: Path,
        orders: tuple[Order, Order],
        names: tuple[Sequence[str], Sequence[str]],
        *,
        ends: bool,
    ) -> None:
        from ctranslate2 import Translator

        with folder_with(path, FILES, {}) as folder:
            self._translator = Translator(str(folder), device="cpu", compute_type="float32")
        self._orders, self._names = orders, names
        self._end = self._pieces(0, [END]) if ends else []
        self._ids = {name: number for number, name in enumerate(names[1])}

    def encode(self, text: str) -> None:
        """Not available: the folder's tokenisers are not CTranslate2's own."""

    def scored(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[Scored]:
        """The targets with the log-probability of each token, the end symbol's last."""
        found = self._translator.score_batch(
            [self._pieces(0, ids) + self._end for ids in sources],
            [self._pieces(1, ids) for ids in targets],
            max_input_length=0,
        )
        return [
            Scored(source, target, result.log_probs)
            for source, target, result in zip(sources, targets, found, strict=True)
        ]

    def greedy(self, sources: Sequence[Ids], most: int) -> list[list[int]]:
        """The most probable token again and again, at most `most`, without the end symbol."""
        never = [self._names[1][number] for number in self._orders[1].foreign[:2] if number is not None]
        found = self._translator.translate_batch(
            [self._pieces(0, ids) + self._end for ids in sources],
            beam_size=1,
            max_decoding_length=most,
            max_input_length=0,
            suppress_sequences=[[name] for name in never],
        )
        written = [result.hypotheses[0] for result in found]
        return [self._orders[1].ours(self._ids[piece] for piece in pieces) for pieces in written]

    def _pieces(self, side: int, ids: Ids) -> list[str]:
        return [self._names[side][number] for number in self._orders[side].theirs(ids)]
