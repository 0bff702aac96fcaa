"""`prepare` passes on what it is told, and says what became of the pairs."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from allyouneed.config.run import DataConfig
from allyouneed.data.corpus_files import CorpusFiles
from allyouneed.preparation.prepared_data import PreparedData
from allyouneed.preparation.preparing import prepare as prepare_data

RunCommand = Callable[..., tuple[int, bytes, str]]


@pytest.fixture
def prepare(run_command: RunCommand, tmp_path: Path, toy_text: Path) -> RunCommand:
    """`allyouneed prepare` on the toy corpus."""
    files = ["--source", toy_text / "train.en", "--target", toy_text / "train.toy"]
    return lambda *options: run_command("prepare", tmp_path / "data", *files, *options)


def test_what_was_read_and_dropped_is_told_and_what_was_made(
    prepare: RunCommand, tmp_path: Path, toy_text: Path
) -> None:
    valid = ["--valid-source", toy_text / "valid.en", "--valid-target", toy_text / "valid.toy"]
    code, out, err = prepare(*valid, "--vocab-size", "290")
    assert code == 0
    assert out.decode() == (
        f"{tmp_path / 'data'}: 278 pairs to train on, 20 to validate, 290 source and 290 target sub-words\n"
    )
    assert f"allyouneed: train: {toy_text / 'train.en'}: 400 lines\n" in err
    assert "allyouneed: train: 400 pairs read, 278 kept, 122 dropped\n" in err
    assert "allyouneed: train:   122 dropped: repeat of an earlier pair (" in err
    assert "allyouneed: valid: 20 pairs read, 20 kept, 0 dropped\n" in err
    assert list(json.loads((tmp_path / "data" / "report.json").read_bytes())) == ["train", "valid"]


def test_every_option_is_recorded(prepare: RunCommand, tmp_path: Path) -> None:
    code, *_ = prepare(
        *("--tokenizer", "wordpiece", "--vocab-size", "280", "--separate-vocabularies"),
        *("--max-tokens", "30", "--max-length-ratio", "2.5", "--vocab-sample-bytes", "9000"),
        *("--source-language", "en", "--target-language", "toy"),
    )
    assert code == 0
    assert PreparedData(tmp_path / "data").config == DataConfig(
        tokenizer="wordpiece",
        vocab_size=280,
        joint_vocabulary=False,
        max_tokens=30,
        max_length_ratio=2.5,
        vocab_sample_bytes=9_000,
        source_language="en",
        target_language="toy",
    )


def test_a_vocabulary_fits_the_number_of_pairs_unless_its_size_is_given(
    prepare: RunCommand, tmp_path: Path, toy_text: Path
) -> None:
    assert prepare()[0] == 0
    data = PreparedData(tmp_path / "data")
    assert 261 < data.config.vocab_size == data.source_vocab_size < 504  # all there is; 504 would fit
    many = tmp_path / "many.tsv"
    lines = (f"{number:x} or {number * number:x}\t{number:o}\n" for number in range(5_000))
    many.write_bytes("".join(lines).encode())
    pairs = CorpusFiles(pairs=many)
    assert prepare_data(tmp_path / "more", pairs).config.vocab_size == 2_000
    told = prepare_data(tmp_path / "given", pairs, config=DataConfig(vocab_size=300))
    assert told.config.vocab_size == 300


def test_a_preset_says_what_is_not_given(prepare: RunCommand, tmp_path: Path) -> None:
    code, *_ = prepare("--preset", "big_en_fr", "--vocab-size", "280")
    assert code == 0
    assert PreparedData(tmp_path / "data").config == DataConfig(tokenizer="wordpiece", vocab_size=280)


def test_plain_bytes_need_no_vocabulary_size(prepare: RunCommand, tmp_path: Path) -> None:
    code, out, _ = prepare("--tokenizer", "byte")
    assert code == 0
    assert b"261 source and 261 target sub-words" in out


def test_without_validation_text_a_notice_says_what_will_be_missing(prepare: RunCommand) -> None:
    code, out, err = prepare("--tokenizer", "byte")
    assert code == 0
    assert b"278 pairs to train on, 0 to validate" in out
    assert "no validation data: training will not know how good the model is" in err
    assert "give --valid-source and --valid-target" in err


def test_several_files_and_pairs_are_read_one_after_the_other(
    run_command: RunCommand, tmp_path: Path
) -> None:
    for name, content in (
        ("a.en", "a\n"),
        ("b.en", "b\n"),
        ("a.de", "A\n"),
        ("b.de", "B\n"),
        ("c", "c\tC\n"),
    ):
        (tmp_path / name).write_bytes(content.encode())
    code, *_ = run_command(
        *("prepare", tmp_path / "data", "--tokenizer", "byte", "--pairs", tmp_path / "c"),
        *("--source", tmp_path / "a.en", tmp_path / "b.en", "--target", tmp_path / "a.de", tmp_path / "b.de"),
    )
    assert code == 0
    assert PreparedData(tmp_path / "data").lines("train", "target") == ["A", "B", "C"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--vocab-size", "9000"], "vocabulary size 9000: this text has only "),
        (["--vocab-size", "260"], "use --vocab-size 261 or more"),
        (
            ["--vocab-size", "1000001"],
            "--vocab-size: must be at most 1000000, not 1000001",
        ),
        (["--vocab-size", "many"], "--vocab-size"),
        (["--max-tokens=-1"], "--max-tokens: must be at least 1"),
        (["--max-length-ratio", "nan"], "--max-length-ratio: must be a finite"),
        (["--tokenizer", "words"], "--tokenizer words: is for parsing"),
        (["--exchange", "3"], "add --task parsing, or leave them out"),
        (["--repeat-trees", "2"], "add --task parsing, or leave them out"),
        (["--tags", "predicted"], "--tags and --brackets are for parsing"),
        (["--brackets", "joined"], "--tags and --brackets are for parsing"),
        (["--preset", "parsing_tiny", "--task", "translation"], "--preset parsing_tiny: is for parsing, not"),
        (["--preset", "bas"], "--preset bas: unknown; did you mean base?"),
        (["--weights", "1", "2"], "--weights: 2 for 1 corpora; give one for each source file and then"),
        (["--weights", "1001"], "train.en: weight 1001; give a number from 0 to 1,000"),
        (["--weights", "nan"], "train.en: weight nan; give a number from 0 to 1,000"),
        (["--languages", "en", "toy"], "--languages: toy is not known to the detector; it knows ace, af"),
        (["--languages", "en"], "--languages requires 2"),
        (["--score-column", "3"], "--score-column and --min-score belong together"),
        (["--score-column", "3", "--min-score", "0"], "--columns and --score-column are about --pairs"),
        (["--score-column", "3", "--min-score", "nan"], "Invalid value"),
        (["--columns", "2", "0"], "Invalid value"),
        (["--pairs", "x.tsv", "--columns", "3", "3"], "name one column twice; give different ones"),
        (["--task", "parsing", "--weights", "2"], "--weights: for sentence pairs only; leave out"),
        (
            ["--task", "parsing", "--max-length-ratio", "2", "--separate-vocabularies"],
            "--separate-vocabularies and --max-length-ratio: for sentence pairs only; leave out",
        ),
        (
            ["--preset", "parsing_tiny", "--source-language", "en", "--target-language", "en"],
            "--source-language and --target-language: for sentence pairs only; leave out",
        ),
        (
            ["--tokenizer", "byte", "--vocab-size", "300", "--vocab-sample-bytes", "0"],
            "--vocab-size and --vocab-sample-bytes: of no effect with --tokenizer byte; leave out",
        ),
        (
            ["--tokenizer", "byte", "--separate-vocabularies"],
            "--separate-vocabularies: of no effect with --tokenizer byte; leave out",
        ),
        (["--valid-source", "a"], "1 source files, but 0 target files; give as many of each"),
    ],
)
def test_wrong_options_are_named_in_one_line_and_leave_nothing(
    prepare: RunCommand, tmp_path: Path, options: list[str], message: str
) -> None:
    code, out, err = prepare(*options)
    assert (code, out) == (2, b"")
    assert message in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_the_sub_words_and_settings_of_a_model_are_taken(
    prepare: RunCommand, tmp_path: Path, toy_model: Path, toy_data: Path
) -> None:
    options = ("--tokenizer-from", toy_model, "--max-tokens", "30", "--target-language", "toy")
    code, out, _ = prepare(*options, "--vocab-size", "290")  # as it is said again
    assert code == 0
    assert b"278 pairs to train on, 0 to validate, 290 source and 290 target sub-words" in out
    model, made = PreparedData(toy_data), PreparedData(tmp_path / "data")
    assert made.config == model.config.replace(max_tokens=30, target_language="toy")
    assert made.tokenizers == model.tokenizers


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--vocab-size", "300"],
            "--vocab-size: the tokenisers of {} have 290, not 300; leave it out, or learn",
        ),
        (
            ["--tokenizer", "byte"],
            "--tokenizer: the tokenisers of {} have bpe, not byte; leave it out, or learn",
        ),
        (
            ["--separate-vocabularies"],
            "--separate-vocabularies: the tokenisers of {} have one vocabulary, not two",
        ),
        (
            ["--vocab-sample-bytes", "0"],
            "--vocab-sample-bytes: the tokenisers of {} have 4194304, not 0; leave",
        ),
        (["--preset", "demo"], "--preset demo: the settings are those of --tokenizer-from {}; leave one out"),
        (["--task", "parsing"], "--task parsing: {} is for translation; leave --task out"),
        (
            ["--tags", "predicted"],
            "--tags and --brackets are for parsing; add --task parsing, or leave them out",
        ),
        (["--max-tokens", "0"], "--max-tokens: must be at least 1"),
    ],
)
def test_options_that_contradict_the_model_are_named_in_one_line_and_leave_nothing(
    prepare: RunCommand, tmp_path: Path, toy_model: Path, options: list[str], message: str
) -> None:
    code, out, err = prepare("--tokenizer-from", toy_model, *options)
    assert (code, out, err.count("\n")) == (2, b"", 1)
    assert message.format(toy_model) in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("model", ["absent", "folder"])
def test_what_is_no_model_has_no_sub_words(prepare: RunCommand, tmp_path: Path, model: str) -> None:
    (tmp_path / "folder").mkdir()
    code, out, err = prepare("--tokenizer-from", tmp_path / model)
    assert (code, out, err.count("\n")) == (4, b"", 1)
    assert f"error[E-MODEL]: {tmp_path / model}: " in err


def test_bad_lines_are_dropped_if_that_is_asked_for(run_command: RunCommand, tmp_path: Path) -> None:
    lines = [b"word %d\tWort %d" % (number, number) for number in range(300)]
    lines[7] = b"w\xffrd\tWort"
    (tmp_path / "bad.tsv").write_bytes(b"\n".join(lines))
    data, text = tmp_path / "data", ["--pairs", tmp_path / "bad.tsv", "--tokenizer", "byte"]
    code, _, err = run_command("prepare", data, *text)
    assert code == 3
    assert f"{tmp_path / 'bad.tsv'}:8:2: invalid byte 0xFF" in err
    code, _, err = run_command("prepare", data, *text, "--on-bad-line", "drop", "--max-bad-share", "0.001")
    assert code == 3
    assert "1 of the first 300 lines cannot be used, more than --max-bad-share = 0.001 allows" in err
    assert not data.exists()
    code, out, err = run_command("prepare", data, *text, "--on-bad-line", "drop")
    assert code == 0
    assert b"299 pairs to train on" in out
    assert f"1 dropped: unusable line ({tmp_path / 'bad.tsv'}:8)" in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--max-bad-share", "0.1"], "belongs to --on-bad-line drop"),
        (["--on-bad-line", "drop", "--max-bad-share", "1.5"], "Must be >= 0 and <= 1"),
        (["--on-bad-line", "skip"], "on-bad-line"),
        (["--task", "parsing", "--on-bad-line", "drop"], "--on-bad-line: for sentence pairs only"),
        (["--task", "parsing", "--drop-copies"], "--drop-copies: for sentence pairs only"),
    ],
)
def test_wrong_uses_of_bad_lines_are_one_line(
    run_command: RunCommand, tmp_path: Path, options: list[str], message: str
) -> None:
    (tmp_path / "a.tsv").write_bytes(b"a\tb\n")
    code, _, err = run_command("prepare", tmp_path / "data", "--pairs", tmp_path / "a.tsv", *options)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1


def test_repeats_are_kept_if_that_is_asked_for(prepare: RunCommand) -> None:
    code, out, err = prepare("--tokenizer", "byte", "--keep-repeats")
    assert code == 0
    assert b"400 pairs to train on" in out
    assert "repeat of an earlier pair" not in err


def test_pairs_of_a_file_with_a_weight_come_as_often_as_that_says(
    run_command: RunCommand, tmp_path: Path
) -> None:
    for name, number in (("a", 400), ("b", 300), ("c", 200)):
        lines = [f"{name}{index}" for index in range(number)]
        (tmp_path / name).write_bytes("".join(f"{line}\t{line}'\n" for line in lines).encode())
    code, _, err = run_command(
        *("prepare", tmp_path / "data", "--tokenizer", "byte", "--pairs"),
        *(tmp_path / "a", tmp_path / "b", tmp_path / "c", "--weights", "0.5", "2.25", "3"),
    )
    assert code == 0
    counts = Counter(PreparedData(tmp_path / "data").lines("train", "source"))
    of_file = {name: [counts[line] for line in counts if line[0] == name] for name in "abc"}
    assert {*of_file["a"]} == {1}
    assert 150 < len(of_file["a"]) < 250
    assert {*of_file["b"]} == {2, 3}
    assert 600 + 45 < sum(of_file["b"]) < 600 + 105
    assert of_file["c"] == [3] * 200
    assert f"{400 - len(of_file['a'])} dropped: left out by the weight of the file" in err
    assert f"{sum(of_file['b']) - 300 + 400} further copies of pairs, by the weights of their files" in err


def test_weights_that_leave_no_pair_are_told_before_anything_is_read(
    prepare: RunCommand, tmp_path: Path
) -> None:
    code, out, err = prepare("--weights", "0")
    assert (code, out) == (3, b"")
    assert err == "allyouneed: error[E-DATA]: --weights: all are 0, so no pair is left; raise one\n"
    assert list(tmp_path.iterdir()) == []


def test_pairs_in_other_languages_are_dropped_and_short_ones_pass(
    run_command: RunCommand, tmp_path: Path
) -> None:
    pairs = {
        "Two dogs are running on the beach.": "Zwei Hunde rennen über den Strand.",
        "Ok.": "Gut.",
        "Deux chiens courent sur la plage avec un ballon.": "Zwei Hunde rennen mit einem Ball.",
        "A man is sleeping in his bed tonight.": "A man is sleeping in his bed, and he snores.",
    }
    text = "".join(f"{source}\t{target}\n" for source, target in pairs.items())
    (tmp_path / "pairs.tsv").write_bytes(text.encode())
    files = "--pairs", tmp_path / "pairs.tsv", "--valid-pairs", tmp_path / "pairs.tsv"
    code, *_ = run_command(
        "prepare", tmp_path / "data", *files, "--tokenizer", "byte", "--languages", "en", "de"
    )
    assert code == 0
    data = PreparedData(tmp_path / "data")
    assert data.lines("train", "source") == list(pairs)[:2]
    assert data.lines("valid", "source") == list(pairs)
    assert data.report("train")["dropped"]["in another language"]["num_pairs"] == 2


def test_a_translation_memory_is_read_by_the_codes_of_the_languages(
    run_command: RunCommand, tmp_path: Path
) -> None:
    unit = '<tu><tuv xml:lang="en-US"><seg>dog {0}</seg></tuv><tuv lang="DE"><seg>Hund {0}</seg></tuv></tu>\n'
    units = "".join(map(unit.format, range(20))) + '<tu><tuv xml:lang="fr"><seg>chien</seg></tuv></tu>\n'
    memory, lines = tmp_path / "memory.tmx", tmp_path / "more.tsv"
    memory.write_bytes(f'<tmx version="1.4"><body>\n{units}</body></tmx>\n'.encode())
    lines.write_bytes(b"cat\tKatze\n")
    pairs = "--pairs", memory, lines, "--valid-pairs", memory, "--tokenizer", "byte"
    code, _, err = run_command("prepare", tmp_path / "data", *pairs, "--target-language", "de")
    assert code == 2
    assert f"{memory}: is a translation memory in DE, en-US, fr; choose two by --source-language and" in err
    languages = "--source-language", "en", "--target-language", "de"
    code, _, err = run_command("prepare", tmp_path / "data", *pairs, *languages)
    assert code == 0, err
    data = PreparedData(tmp_path / "data")
    assert data.lines("train", "source") == [*(f"dog {number}" for number in range(20)), "cat"]
    assert data.lines("valid", "target") == [f"Hund {number}" for number in range(20)]
    assert f"allyouneed: train:   1 dropped: without one of the languages ({memory}:22)\n" in err
    languages = "--source-language", "en", "--target-language", "nl"
    code, _, err = run_command("prepare", tmp_path / "other", *pairs, *languages)
    assert code == 3
    assert f"{memory}: has no text of the language nl; it has DE, en-US, fr\n" in err
