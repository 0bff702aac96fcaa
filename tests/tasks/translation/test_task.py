"""Validation and evaluation of translators count the tokens of their target language."""

from pathlib import Path

import pytest

from allyouneed import CorpusFiles, DataConfig, RunConfig, evaluate, prepare, train
from allyouneed.evaluation.bleu import WORDS, BleuTokens, bleu_of
from allyouneed.preparation.prepared_data import PreparedData
from allyouneed.storage.run_log import read_log
from allyouneed.tasks.translation import task
from allyouneed.tasks.translation.task import TRANSLATION
from allyouneed.tasks.translation.translator import Translator


@pytest.mark.parametrize(
    ("language", "tokens", "convention"),
    [("zh_CN", "zh", "bleu_zh"), ("khm", "char", "bleu_char"), ("de", "13a", ""), ("", "13a", "")],
)
def test_validation_and_evaluation_score_the_tokens_of_the_recorded_language(
    language: str, tokens: str, convention: str, translator: Translator, toy_data: Path
) -> None:
    data = PreparedData(toy_data)
    sources, references = (data.lines("valid", side) for side in ("source", "target"))
    config = translator.config.replace(data={"target_language": language})
    validation = TRANSLATION.validation(sources, references, data.units, config)
    texts = [found.text for found in translator.translate(sources, beam_size=1)]
    expected = bleu_of(BleuTokens(tokens))(texts, references)
    assert validation.scores(translator.engine.models[0]) == {"bleu": expected.value}
    assert (validation.convention, bool(validation.reason)) == (convention, tokens != "13a")
    like = Translator(translator.engine.models, config, *task._tokenizers(data.units))
    assert evaluate(like, sources, references, beam_size=1)[0] == expected


@pytest.mark.parametrize("most", [1_000, 4])
def test_length_penalties_are_compared_by_beam_search_on_some_sentences(
    most: int, translator: Translator, toy_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task, "_MOST_SEARCHED", most)
    data = PreparedData(toy_data)
    sources, references = (data.lines("valid", side) for side in ("source", "target"))
    validation = TRANSLATION.validation(sources, references, data.units, translator.config)
    some = slice(None, None, max(1, len(sources) // most))
    assert validation.penalised is not None
    for penalty in 0.0, 1.4:
        texts = [found.text for found in translator.translate(sources[some], length_penalty=penalty)]
        expected = bleu_of(WORDS)(texts, references[some]).value
        assert validation.penalised(translator.engine.models[0], penalty) == expected


CHINESE = ["今天天气很好。", "我喜欢喝绿茶。", "他住在一座小城市里。"]
CONFIG = RunConfig().replace(
    model={"d_model": 16, "d_ff": 32, "num_layers": 1, "num_heads": 2},
    training={"batch_tokens": 100, "num_steps": 4, "validate_every_steps": 2, "warmup_steps": 1},
)


@pytest.fixture
def chinese(tmp_path: Path) -> Path:
    """Chinese text, prepared as bytes without a target language."""
    (tmp_path / "source").write_bytes(b"The weather is nice.\nI like green tea.\nHe lives in a town.\n")
    (tmp_path / "target").write_bytes("".join(f"{line}\n" for line in CHINESE).encode())
    files = CorpusFiles(tmp_path / "source", tmp_path / "target")
    prepare(tmp_path / "data", files, files, DataConfig(tokenizer="byte"))
    return tmp_path / "data"


def test_a_run_that_was_judged_on_other_tokens_seeks_its_best_validation_anew(
    chinese: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, said = tmp_path / "run", list[str]()
    with monkeypatch.context() as earlier:  # as versions were that counted words in every language
        earlier.setattr(task, "choose_tokens", lambda language, references: WORDS)
        train(run, chinese, CONFIG, say=said.append)
    assert said == []
    train(run, chinese, CONFIG.replace(training={"num_steps": 6}), resume=True, say=said.append)
    assert said[0] == f"{run}: resumed at step 4"
    assert said[1] == f"{run}: the bleu of validations is bleu_char: the references have hardly any spaces"
    assert said[2] == f"{run}: bleu is computed otherwise than before, so the best validation is sought anew"
    assert (run / "best").read_bytes() == b"step-00000006\n"
    assert all("bleu" in event for event in read_log(run / "log.jsonl") if event["event"] == "validate")
    said.clear()
    train(run, chinese, CONFIG.replace(training={"num_steps": 8}), resume=True, say=said.append)
    assert len(said) == 2, "the same tokens are compared"
