"""Reads tokeniser files from untrusted sources, without passing them to the `tokenizers` library.

Only the vocabulary and the merges are taken from a file. Everything else must equal what this program writes,
and is built anew. So a file cannot enable other components or options of the library, make it panic, or
make it allocate memory for an id of four billion.
"""

import json
import re
from functools import cache
from itertools import chain
from typing import Any, Final, Literal

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers

from allyouneed.symbols import CONTROL_SYMBOLS, UNKNOWN

TokenizerKind = Literal["bpe", "wordpiece", "byte"]

# Deviation: the paper's BPE was learned on tokenised text; ours splits raw text into words and bytes, so that
# any text comes back as it was. Word-pieces are matched longest first. See docs/paper.md.
_MAX_WORD = 48  # characters; the time of word-pieces grows with the cube of it
_LETTER = r"[\p{L}\p{M}]"
_WORDS = "|".join(
    [
        rf" ?{_LETTER}(?:{_LETTER}|['’](?={_LETTER})){{0,{_MAX_WORD - 1}}}",  # with the "l'" of "l'eau"
        rf" ?\p{{N}}{{1,{_MAX_WORD}}}",
        rf" ?[^\s\p{{L}}\p{{M}}\p{{N}}]{{1,{_MAX_WORD}}}",
        rf"\s{{1,{_MAX_WORD}}}(?!\S)",  # all spaces but the last, which belongs to the next word
        rf"\s{{1,{_MAX_WORD}}}",
    ]
)


def _byte_names() -> str:
    """The character for each byte, as in GPT-2: the byte itself, or a character from U+0100."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return "".join(chr(byte if byte in printable else next(others)) for byte in range(256))


BYTE_NAMES: Final = _byte_names()
LANGUAGE_ENTRY: Final = re.compile(r">>[a-z]{2,8}(-[A-Za-z0-9]+)*<<", re.ASCII)
"""An entry for a language that a model writes; text has none, as it is split between letters and signs."""


def smallest_vocabulary() -> dict[str, int]:
    """The first entries of every vocabulary: control symbols and bytes."""
    return {name: token for token, name in enumerate((*CONTROL_SYMBOLS, *BYTE_NAMES))}


def word_pieces(vocabulary: dict[str, int]) -> models.WordPiece:
    """A model that splits each word into the longest entries of a vocabulary, from the left."""
    return models.WordPiece(
        vocabulary,
        unk_token=CONTROL_SYMBOLS[UNKNOWN],
        continuing_subword_prefix="",
        max_input_chars_per_word=4 * (_MAX_WORD + 1),
    )


def assemble(model: models.Model, kind: TokenizerKind) -> tokenizers.Tokenizer:
    """A complete tokeniser: a model with the steps before and after it."""
    library = tokenizers.Tokenizer(model)
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    if kind == "byte":
        library.pre_tokenizer = to_bytes
        library.decoder = decoders.ByteLevel()
    else:
        words = pre_tokenizers.Split(Regex(_WORDS), behavior="isolated")
        library.normalizer = normalizers.Prepend(" ")
        library.pre_tokenizer = pre_tokenizers.Sequence([words, to_bytes])
        library.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", left=1, right=0)])
    return library


def rebuilt(description: object) -> tokenizers.Tokenizer:
    """The tokeniser that a JSON file describes; raises ValueError, and says why, if it is not ours."""
    kind = next((kind for kind, known in _frames().items() if _is_alike(_frame(description), known)), None)
    if kind is None or not isinstance(description, dict):
        raise ValueError("it has other parts than ours")
    vocabulary, merges = description["model"].get("vocab"), description["model"].get("merges", [])
    _check_vocabulary(vocabulary, smallest_vocabulary())
    if kind == "wordpiece":
        return assemble(word_pieces(vocabulary), kind)
    pairs = _pairs(merges)
    others = vocabulary.keys() - smallest_vocabulary()
    if kind == "byte" and (pairs or not all(map(LANGUAGE_ENTRY.fullmatch, others))):
        raise ValueError("it has more entries than there are bytes")
    try:
        return assemble(models.BPE(vocabulary, pairs), kind)
    except Exception as error:  # the library raises nothing finer where a pair, or what it makes, is no entry
        raise ValueError(str(error)) from None


def _check_vocabulary(vocabulary: object, reserved: dict[str, int]) -> None:
    if not isinstance(vocabulary, dict) or not vocabulary.items() >= reserved.items():
        raise ValueError("its vocabulary does not begin with control symbols and bytes")
    ids = list(vocabulary.values())
    if set(map(type, ids)) != {int} or sorted(ids) != list(range(len(ids))):
        raise ValueError(f"the ids of its {len(ids):,} entries are not those from 0 to {len(ids) - 1:,}")
    if "" in vocabulary or not set("".join(vocabulary)) <= set(BYTE_NAMES):
        raise ValueError("an entry of its vocabulary is no name of bytes")


def _pairs(merges: Any) -> list[tuple[str, str]]:
    are_lists = isinstance(merges, list) and all(isinstance(pair, list) for pair in merges)
    if not are_lists or {*map(len, merges)} - {2} or {*map(type, chain.from_iterable(merges))} - {str}:
        raise ValueError("its merges are no pairs")
    return [(first, second) for first, second in merges]


def _frame(description: object) -> object:
    """Everything that determines a tokeniser, except the learned vocabulary."""
    if not isinstance(description, dict) or not isinstance(description.get("model"), dict):
        return None
    model = {key: value for key, value in description["model"].items() if key not in ("vocab", "merges")}
    return {**description, "model": model}


@cache
def _frames() -> dict[TokenizerKind, object]:
    """The frame of each kind, as the library writes it."""
    byte_pairs, pieces = models.BPE(smallest_vocabulary(), []), word_pieces(smallest_vocabulary())
    made: dict[TokenizerKind, tokenizers.Tokenizer] = {
        "bpe": assemble(byte_pairs, "bpe"),
        "wordpiece": assemble(pieces, "wordpiece"),
        "byte": assemble(byte_pairs, "byte"),
    }
    return {kind: _frame(json.loads(library.to_str())) for kind, library in made.items()}


def _is_alike(found: object, known: object) -> bool:
    """Whether two JSON values are equal if missing keys count as null or false.

    Other versions of the library write more or fewer such keys. `known` bounds the recursion.
    """
    if isinstance(found, dict) and isinstance(known, dict):
        return all(_is_alike(found.get(key), known.get(key)) for key in found.keys() | known.keys())
    if isinstance(found, list) and isinstance(known, list):
        return len(found) == len(known) and all(map(_is_alike, found, known))
    return found == known or (found in (None, False) and known in (None, False))
