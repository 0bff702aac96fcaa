"""Vocabulary shortlists: a small set of target tokens for each source (Jean et al. 2015, section 3.3)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save_file

from allyouneed.data.store import PairStore
from allyouneed.data.translation_table import learn_translation_table
from allyouneed.errors import ModelError
from allyouneed.storage.publish import publish_directory, read_manifest, sha256_of
from allyouneed.symbols import UNKNOWN

KIND = "shortlist"
DEFAULT_TRANSLATIONS = 50
DEFAULT_FREQUENT = 100
_FILE = "shortlist.safetensors"
_CONTROL_SYMBOLS = range(UNKNOWN + 1)


@dataclass(frozen=True)
class Shortlist:
    """The target tokens allowed in the translations of each source."""

    translations: NDArray[np.int32]
    """(source_vocab_size, any): likeliest translations of each source token, padded at the end."""
    frequent: NDArray[np.int32]
    """Ids of the frequent target tokens that every translation may contain."""
    target_vocab_size: int
    tokenizers: dict[str, str]
    """SHA-256 of each tokeniser's file, by file name; the model's tokenisers must match."""

    @classmethod
    def learn(
        cls,
        store: PairStore,
        vocab_sizes: tuple[int, int],
        tokenizers: dict[str, str],
        *,
        translations: int = DEFAULT_TRANSLATIONS,
        frequent: int = DEFAULT_FREQUENT,
    ) -> Self:
        """Learn a shortlist from sentence pairs with IBM model 1.

        If the SHA-256 of all `tokenizers` are equal, every token may also be copied.
        """
        source_vocab_size, target_vocab_size = vocab_sizes
        table = learn_translation_table(store, target_vocab_size)
        kept = table.best(translations, source_vocab_size)
        if len(set(tokenizers.values())) == 1:
            kept = np.column_stack([kept, np.arange(source_vocab_size, dtype=np.int32)])
        counts = store.target.counts(target_vocab_size)
        counts[list(_CONTROL_SYMBOLS)] = 0
        order = np.argsort(-counts, kind="stable")
        return cls(kept, order[:frequent].astype(np.int32), target_vocab_size, tokenizers)

    @classmethod
    def load(
        cls, directory: Path, model: Path | None = None, vocab_sizes: tuple[int, int] | None = None
    ) -> Self:
        """Read a published shortlist.

        If a model is given, or its vocabulary sizes, it must have the same sub-words.

        Raises:
            ModelError: The shortlist is missing, damaged, or has other sub-words than the model.
        """
        manifest = read_manifest(directory, KIND, [_FILE])
        path = directory / _FILE
        try:
            tensors, facts = load(path.read_bytes()), manifest["facts"]
            size, tokenizers = facts["target_vocab_size"], facts["tokenizers"]
            found = cls(tensors["translations"], tensors["frequent"], size, tokenizers)
        except (SafetensorError, OSError, KeyError, TypeError) as error:
            raise ModelError(f"{path}: is not a shortlist ({error}); make it again") from None
        if not found._is_sound():
            raise ModelError(f"{path}: has tokens that are in no vocabulary; make it again")
        sizes = len(found.translations), found.target_vocab_size
        if vocab_sizes not in (None, sizes) or (model and not found._is_of(model)):
            raise ModelError(
                f"{directory}: is of other sub-words than {model or 'the model'};"
                " make it from the data that the model was trained on (allyouneed shortlist)"
            )
        return found

    def _is_sound(self) -> bool:
        """Whether all types and shapes are right and every token is in the target vocabulary."""
        arrays = self.translations, self.frequent
        int32 = np.dtype(np.int32)
        typed = isinstance(self.target_vocab_size, int) and isinstance(self.tokenizers, dict)
        if not typed or [(array.ndim, array.dtype) for array in arrays] != [(2, int32), (1, int32)]:
            return False
        return all(
            array.min(initial=0) >= 0 and array.max(initial=-1) < self.target_vocab_size for array in arrays
        )

    def _is_of(self, model: Path) -> bool:
        """Whether the model has these tokenisers; names that lead out of its directory do not count."""
        return bool(self.tokenizers) and all(
            Path(name).name == name and (model / name).is_file() and sha256_of(model / name) == sha256
            for name, sha256 in self.tokenizers.items()
        )

    @classmethod
    def publish(cls, directory: Path, learn: Callable[[], Self], say: Callable[[str], None]) -> Self:
        """Learn a shortlist and publish it as a new directory.

        `directory` must not exist; it is locked against other processes.
        """
        facts: dict[str, Any] = {}
        with publish_directory(directory, KIND, facts, say=say) as aside:
            learned = learn()
            facts["facts"] = {
                "target_vocab_size": learned.target_vocab_size,
                "tokenizers": learned.tokenizers,
            }
            save_file({"translations": learned.translations, "frequent": learned.frequent}, aside / _FILE)
        return learned

    def candidates(self, source: Sequence[int]) -> NDArray[np.int64]:
        """Target tokens allowed for a source, ascending, control symbols first."""
        always = [_CONTROL_SYMBOLS, self.frequent]
        return np.unique(np.concatenate([*always, self.translations[source].ravel()])).astype(np.int64)
