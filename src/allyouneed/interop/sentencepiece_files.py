"""Files of SentencePiece: models that other software reads, with pieces in the order of our ids."""

import struct
from collections.abc import Iterator

from allyouneed.data.sentencepiece_tokenizer import SentencePieceTokenizer
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.errors import UsageError
from allyouneed.storage.checkpoint import Checkpoint
from allyouneed.symbols import CONTROL_SYMBOLS, UNKNOWN
from allyouneed.tasks.task import SOURCE_TOKENIZER, TARGET_TOKENIZER

NORMAL, UNKNOWN_PIECE, CONTROL = 1, 2, 3
"""Types of pieces."""
_PIECE, _NAME, _LENGTH_DELIMITED = 1, 1, 2
"""Numbers of the fields of a piece and of its name, and the wire type of both."""


def sentencepiece_models(to: str, checkpoint: Checkpoint) -> list[bytes]:
    """The models of the source and the target side, whose ids are ours; `to` is the format, for messages.

    Raises UsageError if a tokeniser is no SentencePiece model, or has entries that its model lacks.
    """
    found = []
    for name in (SOURCE_TOKENIZER, TARGET_TOKENIZER):
        tokenizer = Tokenizer.load(checkpoint.directory / name)
        if not isinstance(tokenizer, SentencePieceTokenizer):
            raise UsageError(
                f"{to}: reads SentencePiece's sub-words only, and the model has "
                f"{checkpoint.config.data.tokenizer}, which no SentencePiece model splits alike; train on "
                "data of `allyouneed prepare --tokenizer sentencepiece`, or export to ctranslate2"
            )
        found.append(_in_order_of_ids(to, tokenizer))
    return found


def _in_order_of_ids(to: str, tokenizer: SentencePieceTokenizer) -> bytes:
    """The SentencePiece model of a tokeniser, with our control symbols, which no text encodes to."""
    pieces, others = _parsed(tokenizer.model)
    names = tokenizer.names[len(CONTROL_SYMBOLS) :]
    if differing := {*names} ^ {
        *SentencePieceTokenizer.from_model(tokenizer.model).names[len(CONTROL_SYMBOLS) :]
    }:
        raise UsageError(
            f"{to}: needs a vocabulary of all pieces of its SentencePiece model and no others, and "
            f"{len(differing)} differ, such as {min(differing)!r}; export to ctranslate2"
        )
    symbols = [
        piece(name, 0, UNKNOWN_PIECE if token == UNKNOWN else CONTROL)
        for token, name in enumerate(CONTROL_SYMBOLS)
    ]
    return b"".join([*symbols, *(field(_PIECE, pieces[name]) for name in names), *others])


def piece(name: str, score: float, kind: int) -> bytes:
    """An entry of a model; of a model of byte-pair encoding, better scores are merged first."""
    content = field(_NAME, name.encode(errors="surrogatepass"))
    return field(_PIECE, content + b"\x15" + struct.pack("<f", score) + bytes([0x18, kind]))


def field(number: int, content: bytes) -> bytes:
    """A field of bytes in the format of protocol buffers."""
    length, size = len(content), b""
    while length > 127:
        size, length = size + bytes([length & 127 | 128]), length >> 7
    return bytes([number << 3 | _LENGTH_DELIMITED]) + size + bytes([length]) + content


def _parsed(model: bytes) -> tuple[dict[str, bytes], list[bytes]]:
    """Name of a piece -> its content, and the other fields of a model that the library has read before."""
    pieces, others = dict[str, bytes](), list[bytes]()
    for number, content in _fields(model):
        if number == _PIECE:
            name = next(part for kind, part in _fields(content) if kind == _NAME)
            pieces[name.decode()] = content
        else:
            others.append(field(number, content))
    return pieces, others


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Number and content of each field of bytes; numbers are passed over."""
    place = 0

    def varint() -> int:
        nonlocal place
        value, shift = 0, 0
        while True:
            value |= (message[place] & 127) << shift
            place, shift = place + 1, shift + 7
            if message[place - 1] < 128:
                return value

    while place < len(message):
        number, kind = divmod(varint(), 8)
        if kind == _LENGTH_DELIMITED:
            end = varint() + place
            yield number, message[place:end]
            place = end
        elif kind == 0:
            varint()
        else:
            place += {1: 8, 5: 4}[kind]
