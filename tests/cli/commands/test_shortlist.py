"""`shortlist` writes what `translate --shortlist` takes, for models of the same sub-words only."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import allyouneed
from allyouneed import CorpusFiles, DataConfig
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.inference.vocabulary_shortlist import Shortlist
from allyouneed.symbols import END
from allyouneed.tasks.task import SOURCE_TOKENIZER, TARGET_TOKENIZER

RunCommand = Callable[..., tuple[int, bytes, str]]
TEXT = b"sun moon\nbird sees fish\n\nwolf likes bear\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shortlists")


def test_translations_keep_to_the_shortlist(
    run_command: RunCommand, folder: Path, toy_data: Path, toy_model: Path
) -> None:
    out = folder / "few"
    code, told, err = run_command(
        "shortlist", toy_data, "--out", out, "--translations", "3", "--frequent", "2"
    )
    assert (code, err) == (0, "")
    assert told.decode() == f"{out}: up to 3 translations of each of 290 sub-words, learned from 400 pairs\n"
    code, found, err = run_command("translate", toy_model, "--shortlist", out, stdin=TEXT)
    assert (code, err) == (0, "")
    translator = allyouneed.load_translator(toy_model, shortlist=out)
    texts = TEXT.decode().split("\n")[:-1]
    assert found.decode().split("\n")[:-1] == [t.text for t in translator.translate(texts)]
    assert run_command("verify", out)[0] == 0


def test_a_small_shortlist_limits_translations_to_its_sub_words(
    run_command: RunCommand, folder: Path, toy_data: Path, toy_model: Path
) -> None:
    out, texts = folder / "one", TEXT.decode().split("\n")[:-1]
    options = "--translations", "1", "--frequent", "1"
    assert run_command("shortlist", toy_data, "--out", out, *options)[0] == 0
    plain, limited = (
        allyouneed.load_translator(toy_model, shortlist=each).translate(texts) for each in (None, out)
    )
    for translations, arguments in ((plain, []), (limited, ["--shortlist", out])):
        written = run_command("translate", toy_model, *arguments, stdin=TEXT)[1].decode()
        assert written.split("\n")[:-1] == [translation.text for translation in translations]
    assert [translation.text for translation in limited] != [translation.text for translation in plain]
    shortlist = Shortlist.load(out)
    source, target = (Tokenizer.load(toy_model / name) for name in (SOURCE_TOKENIZER, TARGET_TOKENIZER))
    allowed = [{*target.pieces(shortlist.candidates([*source.encode(text), END]))} for text in texts]
    within = [
        [set(translation.tokens) <= pieces for translation, pieces in zip(found, allowed, strict=True)]
        for found in (plain, limited)
    ]
    assert not all(within[0])
    assert all(within[1])


def test_a_target_prefix_is_refused_for_all_lines_and_for_one_of_them(
    run_command: RunCommand, folder: Path, toy_data: Path, toy_model: Path
) -> None:
    out = folder / "prefix"
    assert run_command("shortlist", toy_data, "--out", out)[0] == 0
    translate = "translate", toy_model, "--shortlist", out
    assert run_command(*translate, "--target-prefix", "noomo", stdin=TEXT) == (
        2,
        b"",
        "allyouneed: error[E-USAGE]: --target-prefix: cannot be used with --shortlist; leave out one\n",
    )
    lines = b'{"text": "sun", "target_prefix": "nuso"}\n{"text": "moon"}\n'
    code, found, _ = run_command(*translate, "--jsonl", stdin=lines)
    refused, translated = map(json.loads, found.splitlines())
    assert code == 9
    assert "a target prefix cannot be used with a shortlist" in refused["error"]["message"]
    assert translated["translations"][0]["text"] == "noomo"


def test_a_shortlist_of_all_sub_words_changes_nothing(
    run_command: RunCommand, folder: Path, toy_data: Path, toy_model: Path
) -> None:
    out = folder / "all"
    assert run_command("shortlist", toy_data, "--out", out, "--frequent", "290")[0] == 0
    plain = run_command("translate", toy_model, "--scores", stdin=TEXT)
    assert run_command("translate", toy_model, "--scores", "--shortlist", out, stdin=TEXT) == plain


def test_other_sub_words_and_things_that_are_no_shortlist_are_refused(
    run_command: RunCommand, folder: Path, toy_text: Path, toy_model: Path
) -> None:
    corpus = CorpusFiles(toy_text / "train.en", toy_text / "train.toy")
    allyouneed.prepare(folder / "data", corpus, config=DataConfig(vocab_size=280))
    assert run_command("shortlist", folder / "data", "--out", folder / "other")[0] == 0
    for path, message in (
        (folder / "other", "is of other sub-words than"),
        (toy_model, "a shortlist directory"),
    ):
        code, out, err = run_command("translate", toy_model, "--shortlist", path, stdin=TEXT)
        assert (code, out) == (4, b"")
        assert message in err
        assert err.count("\n") == 1


def test_a_folder_that_is_there_is_refused(run_command: RunCommand, toy_data: Path, toy_model: Path) -> None:
    code, out, err = run_command("shortlist", toy_data, "--out", toy_model)
    assert (code, out) == (2, b"")
    assert "exists and is not empty" in err
