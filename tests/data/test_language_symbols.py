"""The symbols of the languages that a model of several writes: one id each, which no other text has."""

from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.packages import require_packages

from allyouneed.data.sentencepiece_tokenizer import SentencePieceTokenizer
from allyouneed.data.store import Sentences
from allyouneed.data.subword_dropout import SubwordDropout
from allyouneed.data.tokenizer import Tokenizer, split_symbol
from allyouneed.data.tokenizer_file import TokenizerKind
from allyouneed.errors import UsageError

LINES = ["der kleine Hund >>fr<< rennt", ">>de<< a dog >> runs << there", ">>–<< >>é<< >>–<< >>é<<"] * 20
CODES = ["de", "fr", "pt-BR"]
KINDS = [*get_args(TokenizerKind), "sentencepiece"]


def plain(kind: str) -> Tokenizer:
    if kind == "sentencepiece":
        require_packages("sentencepiece")
        return SentencePieceTokenizer.learn(LINES, 290)
    [known] = [each for each in get_args(TokenizerKind) if each == kind]
    return Tokenizer.train(LINES, known, 290)


@pytest.fixture(scope="module", params=KINDS)
def both(request: pytest.FixtureRequest) -> tuple[Tokenizer, Tokenizer]:
    """A vocabulary, and the same one with symbols."""
    tokenizer = plain(request.param)
    return tokenizer, tokenizer.with_languages(CODES)


def test_each_language_is_one_more_entry_which_stays_in_files(
    both: tuple[Tokenizer, Tokenizer], tmp_path: Path
) -> None:
    tokenizer, told = both
    first = tokenizer.vocab_size
    assert told.languages == {">>de<<": first, ">>fr<<": first + 1, ">>pt-BR<<": first + 2}
    assert told.vocab_size == first + 3
    assert (tokenizer.languages, tokenizer.with_languages([])) == ({}, tokenizer)
    told.save(tmp_path / "tokenizer.json")
    assert Tokenizer.load(tmp_path / "tokenizer.json", first + 3) == told


def test_a_text_is_split_as_without_symbols_which_are_text_in_it(both: tuple[Tokenizer, Tokenizer]) -> None:
    tokenizer, told = both
    texts = [*LINES, ">>fr<< a dog", ">>fr<<", "", ">>pt-BR<<  a  dog"]
    expected = tokenizer.encode_batch(texts)
    assert [told.encode(text) for text in texts] == told.encode_batch(texts) == expected
    content = "".join(f"{text}\n" for text in texts).encode()
    for found in (told.encode_corpus(texts), told.encode_lines(content)):
        split = np.split(found.ids, found.lengths.cumsum()[:-1])
        assert [ids.tolist() for ids in split] == expected
    assert told.offsets(">>fr<< a dog") == tokenizer.offsets(">>fr<< a dog")
    assert told.pieces(told.languages.values()) == [*told.languages]


@given(
    st.lists(st.sampled_from([">>fr<<", ">>de<<", ">>", "<<", "fr", "a", " ", "é", "–", "\t"])).map("".join)
)
def test_no_text_has_the_id_of_a_symbol(text: str) -> None:
    for told in TOLD:
        assert not {*told.languages.values()} & {*told.encode(text)}
        symbol, rest = split_symbol(text, told.languages)
        assert bool(symbol) == text.startswith((">>fr<<", ">>de<<"))
        assert symbol + rest == text
        assert rest == (rest.lstrip() if symbol else text)


TOLD = [plain(kind).with_languages(CODES) for kind in get_args(TokenizerKind)]


def test_a_language_is_found_by_any_of_its_codes(both: tuple[Tokenizer, Tokenizer]) -> None:
    tokenizer, told = both
    found = [told.symbol_of(code) for code in ("fr", "fra", "FR", "fr-CA", "pt", "pt_BR", "deu")]
    assert found == [">>fr<<"] * 4 + [">>pt-BR<<"] * 2 + [">>de<<"]
    assert tokenizer.symbol_of("fr") == ""
    with pytest.raises(UsageError, match=r"^language 'es': the model writes de, fr, pt-BR; choose one"):
        told.symbol_of("es")


def test_dropout_leaves_symbols_whole_and_splits_the_rest_as_without_them() -> None:
    tokenizer = plain("bpe")
    told = tokenizer.with_languages(CODES)
    texts, places = ["der kleine Hund", "a dog runs"], np.arange(2, dtype=np.uint64)
    alone = SubwordDropout(tokenizer, 0.5).applied(tokenizer.encode_corpus(texts), places)
    symbols = Sentences.of([[told.languages[">>de<<"]]] * 2)
    marked = SubwordDropout(told, 1.0).applied(told.encode_corpus(texts).after(symbols), places)
    pieces = [told.pieces(ids) for ids in np.split(marked.ids, marked.lengths.cumsum()[:-1])]
    assert [each[0] for each in pieces] == [">>de<<"] * 2
    assert ["".join(each[1:]) for each in pieces] == [f"▁{text.replace(' ', '▁')}" for text in texts]
    assert {len(piece) for each in pieces for piece in each[1:]} == {1}
    assert alone.lengths.sum() < marked.lengths.sum()
