"""Byte-pair encoding of Moses' words: the pieces of subword-nmt and sacremoses, and the same text again."""

import io
import json
from collections import Counter
from pathlib import Path

import pytest
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

from allyouneed.data.moses_bpe_tokenizer import Codes, MosesBpeTokenizer
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.errors import DataError, ModelError, UsageError
from allyouneed.symbols import CONTROL_SYMBOLS, UNKNOWN

sacremoses = pytest.importorskip("sacremoses")
TEXTS = [
    "The young man's dogs run, and the old man sits on a bench.",
    "It’s “fine”, isn't it? A|B [x] & <y> 3.5% of 1,000 e-mails",
    "An e-mail to the well-known dog: running, runner, runs; aaaa aaaaa.",
    "Älter als ß und 東京 naïve café",
    "a",
]


def words_of(text: str) -> list[str]:
    normalized = sacremoses.MosesPunctNormalizer("en").normalize(text)
    tokens: list[str] = sacremoses.MosesTokenizer("en").tokenize(normalized)
    return " ".join(tokens).split()


@pytest.fixture(scope="module")
def learned() -> bytes:
    out = io.StringIO()
    learn_bpe(io.StringIO("\n".join(" ".join(words_of(text)) for text in TEXTS * 3)), out, 60)
    return out.getvalue().encode()


def pieces_of(learned: bytes, text: str) -> list[str]:
    found: list[str] = BPE(io.StringIO(learned.decode())).segment_tokens(words_of(text))
    return found


@pytest.fixture(scope="module")
def tokenizer(learned: bytes) -> MosesBpeTokenizer:
    pieces = Counter(piece for text in TEXTS for piece in pieces_of(learned, text))
    return MosesBpeTokenizer(Codes.read(learned), sorted(pieces), "en")


@pytest.mark.parametrize("text", [*TEXTS, "", "  ", "unseen Xylophon words"])
@pytest.mark.parametrize("version", ["0.1", "0.2"])
def test_pieces_are_those_of_the_originals(learned: bytes, text: str, version: str) -> None:
    content = learned
    if version == "0.1":  # in which the end of a word is a symbol by itself
        content = b"#version: 0.1\nu n\nn </w>\nun </w>\ne </w>\nh e</w>\nt he</w>\na a\naa a\n, </w>\n"
    expected = pieces_of(content, text)
    own = MosesBpeTokenizer(Codes.read(content), [*dict.fromkeys([*expected, "x"])], "en")
    assert own.pieces(own.encode(text)) == expected


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_comes_back_as_moses_writes_it(tokenizer: MosesBpeTokenizer, text: str) -> None:
    expected = sacremoses.MosesDetokenizer("en").detokenize(words_of(text))
    assert tokenizer.decode(tokenizer.encode(text)) == expected


def test_pieces_have_their_places_in_both_texts(tokenizer: MosesBpeTokenizer) -> None:
    for text in TEXTS:
        ids = tokenizer.encode(text)
        letters = [
            (piece.removesuffix("@@"), text[begin:end])
            for piece, (begin, end) in zip(tokenizer.pieces(ids), tokenizer.offsets(text), strict=True)
        ]
        assert all(piece == found for piece, found in letters if piece.isalpha() and "&" not in text)
        written = tokenizer.decode(ids)
        assert all(0 <= begin <= end <= len(written) for begin, end in tokenizer.spans(ids))
        words = [word for word in tokenizer.words(ids) if word is not None]
        assert [*dict.fromkeys(words)] == sorted({*words})
        assert max(words) == len(written.split()) - 1


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ('"the cat", he said', ["the", "cat", "he", "said"]),
        ("l\u2019ami d'ami hello", ["l", "ami", "d", "ami", "hello"]),
        ("a" + 20 * " " + "hello cat", ["a", "hello", "cat"]),
        ("the - cat \u2014 e-mail", ["the", "cat", "e", "mail"]),
        ("\u201cthe\u201d \u2026 dog \U0001f600 & cat", ["the", "dog", "cat"]),
    ],
)
def test_letters_have_their_places_whatever_becomes_of_other_signs(
    learned: bytes, text: str, places: list[str]
) -> None:
    own = MosesBpeTokenizer(Codes.read(learned), ["x"], "en")
    found = [text[begin:end] for begin, end in own.offsets(text)]
    assert "".join(filter(str.isalnum, "".join(found))) == "".join(places)


def test_a_long_text_with_entities_can_be_divided(learned: bytes) -> None:
    own = MosesBpeTokenizer(Codes.read(learned), ["x"], "en")
    for text in ('it\'s "ok" ' * 150, "& " * 400, '"' * 300):
        offsets = own.offsets(text)
        assert offsets == sorted(offsets)
        assert offsets[-1][1] >= len(text.rstrip()) - 1


def test_words_that_sacremoses_cannot_join_are_joined_by_the_rules_of_english() -> None:
    own = MosesBpeTokenizer(Codes.read(b"#version: 0.2\na b\n"), ["e@@", "&apos;", "-", "mail"], "cs")
    ids = [*range(own.vocab_size - 4, own.vocab_size)]
    assert own.decode(ids).replace(" ", "") == "e'-mail"


def test_a_word_of_any_length_is_encoded(learned: bytes) -> None:
    own = MosesBpeTokenizer(Codes.read(learned), ["a@@", "a"], "en")
    assert 1_000 < len(own.encode("run" * 3_000)) <= 9_000
    assert len(own.encode("." * 3_000)) >= 1


def test_a_file_is_read_again_as_any_tokeniser(tokenizer: MosesBpeTokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path / "tokenizer.json")
    assert Tokenizer.load(tmp_path / "tokenizer.json") == tokenizer
    more = tokenizer.with_languages(["fra"])
    assert more.languages == {">>fra<<": tokenizer.vocab_size}


def test_hyphens_can_be_words(learned: bytes) -> None:
    pieces = ["e", "@@@", "-@@", "@", "x"]
    whole, split = (MosesBpeTokenizer(Codes.read(learned), pieces, "en", each) for each in ((), ["hyphens"]))
    assert "@" not in whole.pieces(whole.encode("e-x"))
    assert split.pieces(split.encode("e-x")) == pieces
    assert split.decode(split.encode("e-x")) == "e-x"


def test_merges_of_fastbpe_have_numbers() -> None:
    codes = Codes.read(b"t h 12\nth e</w> 7\n")
    assert codes == Codes((("t", "h"), ("th", "e</w>")))


def test_what_is_no_piece_is_unknown(tokenizer: MosesBpeTokenizer) -> None:
    assert tokenizer.encode("☃") == [UNKNOWN]
    with pytest.raises(DataError, match="text 2: half a surrogate"):
        tokenizer.encode_batch(["a", "\ud800"])
    with pytest.raises(UsageError, match="bpe_dropout"):
        tokenizer.merges()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff", "UTF-8"),
        (b"a b c\nd e\n", "line 1"),
        (b"#version: 0.2\na b\nc\n", "line 3"),
        (b"#version: 0.3\na b\n", "0.3"),
    ],
)
def test_wrong_merges_are_refused(content: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Codes.read(content)


@pytest.mark.parametrize("content", [b"#version:\n", b"#version: 0.2\n"])
def test_there_may_be_no_merges(content: bytes) -> None:
    assert Codes.read(content).merges == ()


@pytest.mark.parametrize(
    "change",
    [
        {"merges": ["a"]},
        {"merges": 5},
        {"pieces": ["a", "a"]},
        {"pieces": [CONTROL_SYMBOLS[0]]},
        {"language": "../en"},
        {"merges": ["\ud800 a"]},
        {"steps": ["unknown"]},
        {"ends_apart": 1},
        {"more": 1},
    ],
)
def test_damaged_files_are_refused(
    tokenizer: MosesBpeTokenizer, tmp_path: Path, change: dict[str, object]
) -> None:
    file = tmp_path / "tokenizer.json"
    tokenizer.save(file)
    file.write_bytes(json.dumps(json.loads(file.read_bytes()) | change).encode())
    with pytest.raises(ModelError, match="is not a tokeniser that allyouneed has made"):
        Tokenizer.load(file)
