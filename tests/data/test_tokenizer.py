"""Any text comes back from its ids, no text has a control id, and training is a function of its text."""

import hashlib
import itertools
import json
import os
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tests.patience import PATIENCE_SECONDS
from tokenizers import models, pre_tokenizers

from allyouneed.data.lines import read_lines
from allyouneed.data.tokenizer import SMALLEST_VOCABULARY, Tokenizer
from allyouneed.data.tokenizer_file import TokenizerKind
from allyouneed.errors import DataError, ModelError, UsageError
from allyouneed.symbols import CONTROL_SYMBOLS, END, PADDING, SENTINEL, START, UNKNOWN

KINDS: tuple[TokenizerKind, ...] = get_args(TokenizerKind)
CONTROL_IDS = {PADDING, START, END, SENTINEL, UNKNOWN}
LOOKALIKES = [*CONTROL_SYMBOLS, "Ġ", "▁", "@@", "##", "<0xC3>", "Ã", "[UNK]", "<|endoftext|>"]
PHRASES = ["der kleine Hund", "a dog runs", "l'été", "it's", "über 2,500", "(Haus)", *LOOKALIKES]
HOSTILE = [
    *LOOKALIKES,
    " ",
    "  ",
    "\0",
    "\t",
    "\x1b[0m",
    "\u200d",
    "👨‍👩‍👧",
    "e\u0301",
    "\ufeff",
    "\ufffd",
    "नि",
    "\U0010ffff",
]


def corpus(num_lines: int = 500) -> Iterator[str]:
    """Text in which control symbols, alone and glued to words, are among the most frequent strings."""
    choose = random.Random(5)
    for _ in range(num_lines):
        yield choose.choice(["", " "]).join(choose.choice(PHRASES) for _ in range(6))


@pytest.fixture(scope="module", params=KINDS)
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return Tokenizer.train(corpus(), request.param, 400)


def as_one_line(text: str) -> str:
    return text.replace("\n", " ").replace("\r", " ")


def sha256(tokenizer: Tokenizer, folder: Path) -> str:
    tokenizer.save(folder / "tokenizer.json")
    return hashlib.sha256((folder / "tokenizer.json").read_bytes()).hexdigest()


@given(text=st.text() | st.lists(st.sampled_from(HOSTILE + PHRASES)).map("".join))
def test_any_text_comes_back_and_has_no_control_id(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == as_one_line(text)
    assert CONTROL_IDS.isdisjoint(ids)
    assert all(token < tokenizer.vocab_size for token in ids)
    assert tokenizer.encode_batch([text, "", text]) == [ids, [], ids]


@given(text=st.text() | st.lists(st.sampled_from(HOSTILE + PHRASES)).map("".join))
def test_spans_are_where_the_library_says_or_wider(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    spans = tokenizer.spans(ids)
    for (begin, end), (first, behind) in zip(spans, tokenizer.offsets(text), strict=True):
        assert (begin, end) == (first, behind) or (begin, end) == (0, 0)  # the space put before the text
    assert not spans or (spans[0][0], spans[-1][1]) == (0, len(text))


@given(ids=st.lists(st.integers(0, 399)))
def test_spans_of_any_ids_cover_what_they_decode_to(tokenizer: Tokenizer, ids: list[int]) -> None:
    ids = [token for token in ids if token < tokenizer.vocab_size]
    spans, text = tokenizer.spans(ids), tokenizer.decode(ids)
    assert len(spans) == len(ids)
    assert all(begin <= end <= len(text) for begin, end in spans)
    assert {place for begin, end in spans for place in range(begin, end)} == set(range(len(text)))
    for token, (begin, end) in zip(ids, spans, strict=True):
        alone = tokenizer.decode([token])
        if "\N{REPLACEMENT CHARACTER}" not in alone and end > begin:
            assert text[begin:end].endswith(alone)


@pytest.mark.parametrize("separator", "\v\f\x1c\x1d\x1e\x1f\x85\u2028\u2029\0\xa0\u200b", ids=ascii)
def test_separators_come_back(tokenizer: Tokenizer, separator: str) -> None:
    for text in (separator, f"a{separator}b", f" {separator} ", separator * 100, f"{separator}a{separator}"):
        assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize("character", ["a", " ", "7", "😀", "</s>"])
def test_a_line_of_100_000_characters_comes_back(tokenizer: Tokenizer, character: str) -> None:
    text = character * (100_000 // len(character))
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_the_first_word_has_the_pieces_of_any_other(tokenizer: Tokenizer) -> None:
    alone, inside = (
        tokenizer.pieces(tokenizer.encode("kleine")),
        tokenizer.pieces(tokenizer.encode("- kleine")),
    )
    assert inside[-len(alone) :] == alone


def test_frequent_words_are_one_piece_and_bytes_are_the_first_ids() -> None:
    learned = Tokenizer.train(corpus(), "bpe", 400)
    assert learned.pieces(learned.encode("Der Hund runs.")) == ["▁", "D", "er", "▁Hund", "▁runs", "."]
    plain = Tokenizer.train([], "byte", 400)
    assert plain.vocab_size == SMALLEST_VOCABULARY == 261
    assert plain.encode("aß\xff") == [5 + byte for byte in "aß\xff".encode()]


def count_pairs(words: dict[tuple[str, ...], int]) -> dict[tuple[str, str], int]:
    pairs: dict[tuple[str, str], int] = {}
    for word, count in words.items():
        for pair in itertools.pairwise(word):
            pairs[pair] = pairs.get(pair, 0) + count
    return pairs


def joined(word: tuple[str, ...], pair: tuple[str, str]) -> tuple[str, ...]:
    pieces = list(word)
    position = 0
    while position < len(pieces) - 1:
        if (pieces[position], pieces[position + 1]) == pair:
            pieces[position : position + 2] = ["".join(pair)]
        position += 1
    return tuple(pieces)


def test_each_merge_joins_a_most_frequent_pair(tmp_path: Path) -> None:
    choose = random.Random(9)
    lines = [
        "".join(choose.choices("abcde", weights=(9, 7, 5, 3, 1), k=choose.randint(1, 9))) for _ in range(500)
    ]
    Tokenizer.train(lines, "bpe", 350).save(tmp_path / "tokenizer.json")
    merges = json.loads((tmp_path / "tokenizer.json").read_bytes())["model"]["merges"]
    assert len(merges) == 350 - SMALLEST_VOCABULARY
    words = {tuple(f"Ġ{line}"): count for line, count in Counter(lines).items()}
    for merge in map(tuple, merges):
        pairs = count_pairs(words)
        assert pairs[merge] == max(pairs.values())
        words = {joined(word, merge): count for word, count in words.items()}


def test_word_pieces_are_the_longest_from_the_left() -> None:
    tokenizer = Tokenizer.train(corpus(), "wordpiece", 400)
    vocabulary = set(tokenizer.pieces(range(tokenizer.vocab_size)))
    for word in ("kleiner", "Hundehaus", "derder", "runsruns"):
        rest, expected = f"▁{word}", []
        while rest:
            longest = max((piece for piece in vocabulary if rest.startswith(piece)), key=len)
            expected.append(longest)
            rest = rest[len(longest) :]
        assert tokenizer.pieces(tokenizer.encode(word)) == expected


@given(data=st.data())
def test_any_ids_decode_to_one_line_and_control_ids_to_nothing(
    tokenizer: Tokenizer, data: st.DataObject
) -> None:
    ids = data.draw(st.lists(st.integers(0, tokenizer.vocab_size - 1)))
    text = tokenizer.decode(ids)
    assert not set("\n\r") & set(text)
    assert text == tokenizer.decode([token for token in ids if token not in CONTROL_IDS])
    assert len(tokenizer.pieces(ids)) == len(ids)


@given(content=st.binary())
def test_bytes_that_are_no_text_decode_as_python_replaces_them(content: bytes) -> None:
    tokenizer = Tokenizer.train([], "byte", SMALLEST_VOCABULARY)
    expected = as_one_line(content.decode(errors="replace"))
    assert tokenizer.decode([len(CONTROL_SYMBOLS) + byte for byte in content]) == expected


def test_pieces_in_print_show_control_symbols_spaces_and_bytes(tokenizer: Tokenizer) -> None:
    assert tokenizer.pieces([PADDING, START, END, SENTINEL, UNKNOWN]) == list(CONTROL_SYMBOLS)
    printed = "".join(tokenizer.pieces(tokenizer.encode("a 語\t\x1b")))
    assert printed.removeprefix("▁") == "a▁<0xE8><0xAA><0x9E><0x09><0x1B>"


@given(text=st.text())
def test_offsets_cover_the_text_in_order(tokenizer: Tokenizer, text: str) -> None:
    offsets = tokenizer.offsets(text)
    assert len(offsets) == len(tokenizer.encode(text))
    assert {place for begin, end in offsets for place in range(begin, end)} == set(range(len(text)))
    assert [begin for begin, _ in offsets] == sorted(begin for begin, _ in offsets)


def test_offsets_are_those_of_the_pieces() -> None:
    tokenizer, text = Tokenizer.train(corpus(), "bpe", 400), "über der Hund"
    places = [text[begin:end] for begin, end in tokenizer.offsets(text)]
    assert places == ["über", " der", " Hund"]


@given(text=st.text() | st.lists(st.sampled_from([*HOSTILE, *PHRASES, " ", "\u3000", ", "])).map("".join))
def test_each_piece_is_of_a_word_that_it_overlaps_and_each_word_has_pieces(
    tokenizer: Tokenizer, text: str
) -> None:
    numbers = tokenizer.words(tokenizer.encode(text))
    words = [match.span() for match in re.finditer(r"\S+", text)]
    assert [text[slice(*word)] for word in words] == text.split()
    for number, (start, end) in zip(numbers, tokenizer.offsets(text), strict=True):
        if number is not None:
            assert start < words[number][1]
            assert words[number][0] < end
    assert {number for number in numbers if number is not None} == set(range(len(words)))


def test_marks_that_touch_a_word_and_control_symbols_are_of_no_word() -> None:
    tokenizer = Tokenizer.train([], "byte", 0)
    ids = [START, *tokenizer.encode("é, ?! a"), UNKNOWN]
    numbers = tokenizer.words(ids)
    assert numbers == [None, 0, 0, None, None, 1, 1, None, 2, None]
    assert tokenizer.words([]) == []


@pytest.mark.parametrize("text", ["\ud800", "ab\udfff"])
def test_half_a_surrogate_pair_is_a_data_error(tokenizer: Tokenizer, text: str) -> None:
    for encode in (tokenizer.encode, tokenizer.offsets):
        with pytest.raises(DataError, match=f"^half a surrogate pair at character {len(text)}"):
            encode(text)
    with pytest.raises(DataError, match="text 2: half a surrogate pair"):
        tokenizer.encode_batch(["good", text])


@pytest.mark.parametrize("kind", ["bpe", "wordpiece"])
def test_vocabulary_size_is_exact_and_its_bounds_are_named(kind: TokenizerKind) -> None:
    with pytest.raises(UsageError, match=r"vocabulary size 260: .* use vocab_size 261 or more"):
        Tokenizer.train(corpus(), kind, 260)
    with pytest.raises(UsageError, match=r"use vocab_size \d+ or less") as caught:
        Tokenizer.train(corpus(), kind, 37_000)
    largest = int(str(caught.value).split()[-3])
    for size in (261, 262, largest):
        assert Tokenizer.train(corpus(), kind, size).vocab_size == size
    with pytest.raises(UsageError, match=f"this text has only {largest} sub-words"):
        Tokenizer.train(corpus(), kind, largest + 1)


def test_errors_in_the_text_end_training_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "bad").write_bytes(b"good\n\xff\n")
    with pytest.raises(DataError, match="bad:2:1: invalid byte 0xFF"):
        Tokenizer.train(read_lines(tmp_path / "bad"), "bpe", 300)


def test_saved_and_loaded_it_is_the_same(tokenizer: Tokenizer, tmp_path: Path) -> None:
    digest = sha256(tokenizer, tmp_path)
    loaded = Tokenizer.load(tmp_path / "tokenizer.json")
    texts = [*corpus(50), "".join(HOSTILE)]
    assert loaded.encode_batch(texts) == tokenizer.encode_batch(texts)
    assert CONTROL_IDS.isdisjoint(loaded.encode("".join(LOOKALIKES)))
    assert sha256(loaded, tmp_path) == digest


def test_the_file_works_with_the_library_alone(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path / "tokenizer.json")
    library = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for text in ("".join(HOSTILE), " Ein Hund. "):
        assert library.encode(text).ids == tokenizer.encode(text)
        assert library.decode(library.encode(text).ids) == text


TRAINING = """
import random, sys
from pathlib import Path
from allyouneed.data.tokenizer import Tokenizer
choose = random.Random(3)
words = ["".join(choose.choices("abcäö", k=choose.randint(1, 7))) for _ in range(7200)]
lines = [" ".join(words[start : start + 9]) for start in range(0, 7200, 9)]
Tokenizer.train(lines, sys.argv[1], 900).save(Path(sys.argv[2]))
"""


@pytest.mark.parametrize("kind", ["bpe", "wordpiece"])
def test_training_does_not_depend_on_process_hash_seed_or_threads(tmp_path: Path, kind: str) -> None:
    contents = set()
    for seed, threads in (("0", "1"), ("1", "2"), ("2", "4")):
        path = tmp_path / f"{seed}.json"
        environment = os.environ | {"PYTHONHASHSEED": seed, "RAYON_NUM_THREADS": threads}
        subprocess.run([sys.executable, "-c", TRAINING, kind, path], check=True, env=environment)
        contents.add(path.read_bytes())
    assert len(contents) == 1


FORKING = """
import os
from allyouneed.data.tokenizer import Tokenizer
tokenizer = Tokenizer.train(["der Hund", "die Katze"] * 50, "bpe", 265)
texts = ["der Hund"] * 1000
expected = tokenizer.encode_batch(texts)
child = os.fork()
if child == 0:
    os._exit(0 if tokenizer.encode_batch(texts) == expected else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_child_goes_on_without_hanging_or_warning() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TOKENIZERS_PARALLELISM"}
    done = subprocess.run(
        [sys.executable, "-c", FORKING],
        capture_output=True,
        check=True,
        timeout=PATIENCE_SECONDS,
        env=environment,
    )
    assert (done.stdout, done.stderr) == (b"0\n", b"")


def test_missing_and_unreadable_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="nothing: no such file"):
        Tokenizer.load(tmp_path / "nothing")
    with pytest.raises(ModelError, match="is a folder, a pipe or a device, not a regular file"):
        Tokenizer.load(tmp_path)


@pytest.fixture(scope="module")
def description(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("good") / "tokenizer.json"
    Tokenizer.train(corpus(), "bpe", 300).save(path)
    content: dict[str, Any] = json.loads(path.read_bytes())
    return content


CONTROL_TOKEN = {
    "id": END, "content": "</s>", "special": True,
    "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
}  # fmt: skip


@pytest.mark.parametrize(
    "changes",
    [
        {"added_tokens": [CONTROL_TOKEN]},
        {"normalizer": None},
        {"normalizer": {"type": "Lowercase"}},
        {"pre_tokenizer": None},
        {"decoder": None},
        {"truncation": {"direction": "Right", "max_length": 5, "strategy": "LongestFirst", "stride": 0}},
        {"model": {"type": "BPE", "dropout": 0.1}},
        {"model": {"type": "BPE", "byte_fallback": True}},
    ],
    ids=str,
)
def test_a_file_with_any_other_behaviour_is_refused(
    tmp_path: Path, description: dict[str, Any], changes: dict[str, Any]
) -> None:
    changed = description | changes | {"model": description["model"] | changes.get("model", {})}
    path = tmp_path / "tokenizer.json"
    path.write_bytes(json.dumps(changed).encode())
    with pytest.raises(ModelError, match=r"tokenizer.json: is not a tokeniser that allyouneed has made"):
        Tokenizer.load(path)


@pytest.mark.parametrize(
    ("old", "new"),
    [('"</s>"', '"</t>"'), ('"</s>": 2', '"</s>": 3'), ('"a"', '"\u0432"'), (": 299", ": 399")],
)
def test_a_file_without_the_reserved_ids_or_with_a_gap_is_refused(
    tmp_path: Path, description: dict[str, Any], old: str, new: str
) -> None:
    text = json.dumps(description, ensure_ascii=False)
    assert old in text
    path = tmp_path / "tokenizer.json"
    path.write_bytes(text.replace(old, new).encode())
    with pytest.raises(ModelError, match=r"tokenizer.json: "):
        Tokenizer.load(path)


def test_a_tokeniser_of_others_is_refused(tmp_path: Path) -> None:
    library = tokenizers.Tokenizer(models.BPE())
    library.pre_tokenizer = pre_tokenizers.Whitespace()
    library.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(ModelError, match="is not a tokeniser that allyouneed has made"):
        Tokenizer.load(tmp_path / "tokenizer.json")


def test_damaged_files_are_refused_or_still_lossless(tmp_path: Path, description: dict[str, Any]) -> None:
    whole = json.dumps(description).encode()
    choose, path = random.Random(11), tmp_path / "tokenizer.json"
    num_refused = 0
    for trial in range(300):
        content = bytearray(whole)
        content[choose.randrange(len(content))] ^= 1 << choose.randrange(8)
        path.write_bytes(content if trial % 2 else whole[: choose.randrange(len(whole))])
        try:
            loaded = Tokenizer.load(path)
        except ModelError:
            num_refused += 1
        else:
            assert loaded.decode(loaded.encode("".join(HOSTILE))) == "".join(HOSTILE)
    assert num_refused >= 150  # every truncation


def test_real_captions_come_back_and_take_the_tokens_that_are_documented(data_folder: Path) -> None:
    lines = {
        language: list(read_lines(data_folder / "multi30k" / f"train.{language}.gz"))
        for language in ("en", "de")
    }
    tokenizer = Tokenizer.train([*lines["en"], *lines["de"]], "bpe", 10_000)
    for language, expected in (("en", 14.0), ("de", 14.4)):
        ids = tokenizer.encode_batch(lines[language])
        assert [tokenizer.decode(sentence) for sentence in ids] == lines[language]
        assert sum(map(len, ids)) / len(ids) == pytest.approx(expected, abs=0.05)
