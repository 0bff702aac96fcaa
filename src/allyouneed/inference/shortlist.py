"""Vocabulary shortlists: the few target tokens that translate a source (Jean et al. 2015, section 3.3)."""

from collections.abc import Callable, Iterator, Sequence
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
_READ_AT_ONCE = 4_096


@dataclass(frozen=True)
class Shortlist:
    """Which target tokens each source may be translated with."""

    translations: NDArray[np.int32]
    """(source_vocab_size, any): the likeliest translations of each source token, filled up with padding."""
    frequent: NDArray[np.int32]
    """What every sentence may contain."""
    target_vocab_size: int
    tokenizers: dict[str, str]
    """The sha256 of each tokeniser's file, by its name; a model has to have the same."""

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
        """Learn it from sentence pairs, by IBM model 1.

        Args:
            store: The pairs.
            vocab_sizes: Sizes of the source and target vocabularies.
            tokenizers: The sha256 of their files. Where all are the same, a token may also stay what it is.
            translations: How many of each source token are kept.
            frequent: How many of the most frequent target tokens every sentence may contain.
        """
        source_vocab_size, target_vocab_size = vocab_sizes
        table = learn_translation_table(store, target_vocab_size)
        kept = table.best(translations, source_vocab_size)
        if len(set(tokenizers.values())) == 1:
            kept = np.column_stack([kept, np.arange(source_vocab_size, dtype=np.int32)])
        order = np.argsort(-_target_counts(store, target_vocab_size), kind="stable")
        return cls(kept, order[:frequent].astype(np.int32), target_vocab_size, tokenizers)

    @classmethod
    def load(
        cls, directory: Path, model: Path | None = None, vocab_sizes: tuple[int, int] | None = None
    ) -> Self:
        """Read what `publish` has published.

        Args:
            directory: The shortlist.
            model: The directory of the model that it is for, to see that both have the same sub-words.
            vocab_sizes: Source and target vocabulary sizes of that model.

        Raises:
            ModelError: There is none, it is damaged, or it is of other sub-words.
        """
        manifest = read_manifest(directory, KIND, [_FILE])
        path = directory / _FILE
        try:
            tensors, facts = load(path.read_bytes()), manifest["facts"]
            size, tokenizers = facts["target_vocab_size"], facts["tokenizers"]
            found = cls(tensors["translations"], tensors["frequent"], size, tokenizers)
        except (SafetensorError, OSError, KeyError, TypeError) as error:
            raise ModelError(f"{path}: is no shortlist ({error}); make it again") from None
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
        """Whether all is of the right types and shapes, and every token is of the target vocabulary."""
        arrays = self.translations, self.frequent
        int32 = np.dtype(np.int32)
        typed = isinstance(self.target_vocab_size, int) and isinstance(self.tokenizers, dict)
        if not typed or [(array.ndim, array.dtype) for array in arrays] != [(2, int32), (1, int32)]:
            return False
        return all(
            array.min(initial=0) >= 0 and array.max(initial=-1) < self.target_vocab_size for array in arrays
        )

    def _is_of(self, model: Path) -> bool:
        """Whether the model has these tokenisers; a name that leads out of its folder is none of these."""
        return bool(self.tokenizers) and all(
            Path(name).name == name and (model / name).is_file() and sha256_of(model / name) == sha256
            for name, sha256 in self.tokenizers.items()
        )

    @classmethod
    def publish(cls, directory: Path, learn: Callable[[], Self], say: Callable[[str], None]) -> Self:
        """Publish what `learn` returns as a directory, which must not exist.

        Args:
            directory: The directory to make; no other process can make it meanwhile.
            learn: Returns the shortlist.
            say: Is told of what a killed process had left unfinished there, which is removed.
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
        """The tokens, ascending, with which a source may be translated, control symbols first."""
        always = [_CONTROL_SYMBOLS, self.frequent]
        return np.unique(np.concatenate([*always, self.translations[source].ravel()])).astype(np.int64)


def _target_counts(store: PairStore, target_vocab_size: int) -> NDArray[np.int64]:
    """How often each target token occurs."""
    return sum(_chunk_counts(store, target_vocab_size), np.zeros(target_vocab_size, np.int64))


def _chunk_counts(store: PairStore, target_vocab_size: int) -> Iterator[NDArray[np.int64]]:
    for start in range(0, store.num_pairs, _READ_AT_ONCE):
        ids = store.gather_target(range(start, min(start + _READ_AT_ONCE, store.num_pairs)))
        counts = np.bincount(ids.ravel(), minlength=target_vocab_size)
        counts[list(_CONTROL_SYMBOLS)] = 0  # padding is no token
        yield counts
