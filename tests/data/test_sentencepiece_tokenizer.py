"""SentencePiece tokenisers: the library's own pieces, by our ids."""

import base64
import io
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allyouneed.data.sentencepiece_tokenizer import SentencePieceTokenizer
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.errors import DataError, ModelError, UsageError
from allyouneed.symbols import CONTROL_SYMBOLS, UNKNOWN

sentencepiece = pytest.importorskip("sentencepiece", reason="NOT RUN: needs sentencepiece")

LINES = [
    "the old man sees a small dog in the garden",
    "der alte Mann sieht einen kleinen Hund im Garten",
    "Two dogs run; nobody's house! 12 or 345?",
] * 20
TEXTS = [
    "the old dog",
    "  two   spaces\tand a tab ",
    "</s> <s> <unk> <pad> <sentinel>",
    "日本語 and ½ and ﬁ",
    "▁ under_score",
    "e\u0301 combining",
    "",
]


@pytest.fixture(scope="module")
def tokenizer() -> SentencePieceTokenizer:
    return SentencePieceTokenizer.learn(LINES, 305)


@pytest.fixture(scope="module")
def processor(tokenizer: SentencePieceTokenizer) -> Any:
    found = sentencepiece.SentencePieceProcessor()
    found.LoadFromSerializedProto(tokenizer.model)
    return found


def test_pieces_and_text_are_those_of_the_library(tokenizer: SentencePieceTokenizer, processor: Any) -> None:
    for text in [*LINES[:3], *TEXTS]:
        ids = tokenizer.encode(text)
        assert [tokenizer.names[token] for token in ids] == processor.encode(text, out_type=str)
        assert tokenizer.decode(ids) == processor.decode(processor.encode(text))
    assert tokenizer.encode_batch(TEXTS) == [tokenizer.encode(text) for text in TEXTS]


def test_what_the_model_does_not_know_may_be_an_entry_all_the_same() -> None:
    """Of the other side in a joint vocabulary; transformers and Marian look pieces up by their text."""
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES), model_writer=written, vocab_size=60, hard_vocab_limit=False
    )
    own = SentencePieceTokenizer.from_model(written.getvalue())
    tokenizer = SentencePieceTokenizer.from_model(written.getvalue(), [*own.names[5:], "ß", "猫", ">>猫<<"])
    names = [tokenizer.names[token] for token in tokenizer.encode("ß the 猫 犬")]
    assert names[:2] == ["▁", "ß"]
    assert names[-4:] == ["▁", "猫", "▁", "<unk>"]
    assert tokenizer.encode("dog >>猫<<")[-1] == tokenizer.names.index("<unk>")  # symbols are no text
    assert tokenizer.encode("</s>") == own.encode("</s>")
    assert tokenizer.encode_batch(["ß", "the"]) == [tokenizer.encode("ß"), own.encode("the")]


@given(st.text())
def test_no_text_becomes_a_control_symbol(text: str) -> None:
    tokenizer = SentencePieceTokenizer.from_model(_learned())
    ids = tokenizer.encode(text)
    assert all(UNKNOWN < token < tokenizer.vocab_size for token in ids)  # bytes stand for all others
    assert len(tokenizer.offsets(text)) == len(tokenizer.spans(ids)) == len(tokenizer.words(ids)) == len(ids)
    decoded = tokenizer.decode(ids)
    assert all(0 <= begin <= end <= len(decoded) for begin, end in tokenizer.spans(ids))
    assert all(0 <= begin <= end <= len(text) for begin, end in tokenizer.offsets(text))


_kept: list[bytes] = []


def _learned() -> bytes:
    if not _kept:
        _kept.append(SentencePieceTokenizer.learn(LINES, 305).model)
    return _kept[0]


def test_the_same_lines_give_the_same_vocabulary(tokenizer: SentencePieceTokenizer) -> None:
    assert SentencePieceTokenizer.learn(iter(LINES), 305) == tokenizer


def test_pieces_may_have_another_order_and_number(tokenizer: SentencePieceTokenizer, processor: Any) -> None:
    pieces = [*reversed(tokenizer.names[len(CONTROL_SYMBOLS) :]), "▁unheard"]
    pieces.remove("▁dog" if "▁dog" in pieces else "d")
    other = SentencePieceTokenizer.from_model(tokenizer.model, pieces)
    assert other != tokenizer
    for text in LINES[:3]:
        names = [other.names[token] for token in other.encode(text)]
        expected = processor.encode(text, out_type=str)
        assert names == [name if name in pieces else "<unk>" for name in expected]
    assert UNKNOWN in other.encode(LINES[0])
    assert other.decode([other.names.index("▁unheard")]) == "unheard"


def test_places_are_found(tokenizer: SentencePieceTokenizer) -> None:
    text = "two  日 dogs."
    ids = tokenizer.encode(text)
    pieces = tokenizer.pieces(ids)
    offsets = tokenizer.offsets(text)
    assert "".join(pieces).startswith("▁two")
    of_character = [span for piece, span in zip(pieces, offsets, strict=True) if piece.startswith("<0x")]
    assert of_character == [(5, 6)] * 3
    words = tokenizer.words(ids)
    assert [word for word in dict.fromkeys(words) if word is not None] == [0, 1, 2]
    assert words[-1] is None  # the full stop belongs to no word


def test_symbols_of_languages_are_entries_that_no_text_has(tokenizer: SentencePieceTokenizer) -> None:
    names = [*tokenizer.names[len(CONTROL_SYMBOLS) :], ">>fra<<", ">>zho_Hans<<"]
    of_many = SentencePieceTokenizer.from_model(tokenizer.model, names)
    first = len(names) + len(CONTROL_SYMBOLS) - 2
    assert of_many.languages == {">>fra<<": first, ">>zho_Hans<<": first + 1}
    assert tokenizer.with_languages(["fra", "zho_Hans"]) == of_many
    for text in [*TEXTS, ">>fra<< the old dog", "dog >>fra<<", ">>deu<< dog"]:
        assert of_many.encode(text) == tokenizer.encode(text)
        assert of_many.offsets(text) == tokenizer.offsets(text)


def test_bytes_that_are_no_text_become_replacements(tokenizer: SentencePieceTokenizer) -> None:
    assert tokenizer.decode([tokenizer.names.index("<0xE6>")]) == "\ufffd"
    assert tokenizer.decode([0, 1, 2, 3, 4]) == ""
    assert tokenizer.decode([tokenizer.names.index("<0x0A>"), tokenizer.names.index("<0x0D>")]) == "  "


def test_files_keep_everything(tokenizer: SentencePieceTokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path / "t.json")
    again = Tokenizer.load(tmp_path / "t.json", tokenizer.vocab_size)
    assert again == tokenizer
    assert hash(again) == hash(tokenizer)
    assert again != Tokenizer.train([], "byte", 261)
    with pytest.raises(ModelError, match="has 305 entries, but the model was made for 9"):
        Tokenizer.load(tmp_path / "t.json", 9)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda found: found.update(kind="unigram"), "other parts|other"),
        (lambda found: found.pop("model"), "other parts"),
        (lambda found: found.update(more=1), "other parts"),
        (lambda found: found.update(model="%%%"), "base64"),
        (lambda found: found.update(model=[]), "other parts"),
        (lambda found: found.update(model=base64.b64encode(b"no model").decode()), "damaged"),
        (lambda found: found.update(model=""), "damaged|no pieces"),
        (lambda found: found.update(pieces=[]), "0 pieces"),
        (lambda found: found.update(pieces="abc"), "no strings"),
        (lambda found: found.update(pieces=["a", "a"]), "twice"),
        (lambda found: found.update(pieces=["a", ""]), "empty"),
        (lambda found: found.update(pieces=["a", "</s>"]), "control symbol"),
        (lambda found: found.update(pieces=["a", 5]), "no strings"),
        (lambda found: found.update(pieces=["\ud800"]), "Unicode"),
    ],
)
def test_damaged_files_are_refused(
    tokenizer: SentencePieceTokenizer, tmp_path: Path, change: Callable[[dict[str, Any]], Any], said: str
) -> None:
    tokenizer.save(tmp_path / "t.json")
    description = json.loads((tmp_path / "t.json").read_bytes())
    change(description)
    (tmp_path / "t.json").write_text(json.dumps(description))
    with pytest.raises(ModelError, match=said):
        Tokenizer.load(tmp_path / "t.json")


def test_sizes_that_a_text_cannot_have_are_told() -> None:
    with pytest.raises(UsageError, match=r"has only \d+ pieces; use vocab_size \d+ or less, or more text$"):
        SentencePieceTokenizer.learn(LINES, 100_000, ", or more text")
    with pytest.raises(UsageError, match=r"bytes alone are \d+; use vocab_size \d+ or more"):
        SentencePieceTokenizer.learn(LINES, 100)
    size = SentencePieceTokenizer.learn(LINES, 100, None).vocab_size
    assert 256 < size < 305
    assert size % 8 == 0


@pytest.mark.parametrize("error", [SystemExit(143), KeyboardInterrupt(), DataError("a bad line")])
def test_what_ends_the_reading_of_the_text_ends_the_learning(error: BaseException) -> None:
    def lines() -> Iterator[str]:
        yield "a dog"
        raise error

    with pytest.raises(type(error)) as raised:
        SentencePieceTokenizer.learn(lines(), 300)
    assert raised.value is error


def test_half_a_surrogate_pair_is_refused(tokenizer: SentencePieceTokenizer) -> None:
    for call in (tokenizer.encode, tokenizer.offsets):
        with pytest.raises(DataError, match="surrogate"):
            call("a\ud800")


def test_without_the_library_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(UsageError, match=r"pip install 'allyouneed\[sentencepiece\]'"):
        SentencePieceTokenizer.from_model(b"")
