"""One model of several languages: `prepare` names directions, and `--to` chooses what is written."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from allyouneed import load_translator
from allyouneed.evaluation.bleu import WORDS, bleu_of
from allyouneed.preparation.prepared_data import PreparedData
from allyouneed.tasks.translation.translator import Translator

RunCommand = Callable[..., tuple[int, bytes, str]]


@pytest.fixture(scope="module")
def translator(multilingual_model: Path) -> Translator:
    return load_translator(multilingual_model)


def one_line(err: str) -> str:
    """The only line of an error."""
    assert err.count("\n") == 1, err
    return err.strip()


def test_files_are_prepared_in_the_directions_that_they_are_named_after(
    run_command: RunCommand, toy_pairs: dict[str, Path], tmp_path: Path
) -> None:
    small = tmp_path / "small.tsv"
    small.write_bytes(b"".join(toy_pairs["train.fr"].read_bytes().splitlines(keepends=True)[:25]))
    given = "--pairs", f"en-de={toy_pairs['train.de']}", f"en-fr={small}"
    held_out = "--valid-pairs", f"en-de={toy_pairs['valid.de']}"
    code, _, err = run_command(
        *("prepare", tmp_path / "data", *given, *held_out, "--both-directions", "--vocab-size", "290"),
        *("--keep-repeats", "--temperature", "2"),
    )
    assert code == 0, err
    assert "--temperature 2 wants each pair so often: en-de 1, de-en 1, en-fr 4, fr-en 4\n" in err
    data = PreparedData(tmp_path / "data")
    assert data.config.directions == (("en", "de"), ("de", "en"), ("en", "fr"), ("fr", "en"))
    assert data.source_vocab_size == 293
    assert (data.train.num_pairs, len(data.lines("valid", "source"))) == (2 * (400 + 4 * 25), 40)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--pairs", "en-de={de}", "{fr}"],
            "{fr}: has no direction, but other files have; write SOURCE-TARGET",
        ),
        (["--pairs", "en-de={de}", "de-en={de}"], "name it once, and read it both ways by --both-directions"),
        (
            ["--pairs", "{de}", "--both-directions"],
            "--both-directions: is for named files; write SOURCE-TARGET=FILE",
        ),
        (
            ["--both-directions", "--source", "{de}", "--target", "{fr}"],
            "--both-directions: is for named files; write SOURCE-TARGET=FILE",
        ),
        (
            ["--pairs", "en-de={de}", "--temperature", "5"],
            "--temperature: is for several directions, without --weights; leave it out",
        ),
        (
            ["--pairs", "en-de={de}", "en-fr={fr}", "--temperature", "5", "--weights", "1", "2"],
            "--temperature: is for several directions, without --weights; leave it out",
        ),
        (
            ["--pairs", "en-de={de}", "en-fr={fr}", "--temperature", "0.5"],
            "--temperature 0.5: give 1, by which",
        ),
        (
            ["--pairs", "en-de={de}", "--source-language", "en"],
            "--source-language: the names of --pairs say it; leave out",
        ),
        (
            ["--pairs", "en-de={de}", "en-fr={fr}", "--source", "{de}", "--target", "{fr}"],
            "--source, --target: have no direction, but the files of pairs have; make files of pairs of them",
        ),
        (
            ["--pairs", "en-de={de}", "--valid-pairs", "{fr}"],
            "--valid-pairs: their directions are none, those of training are en-de; name both",
        ),
        (
            ["--pairs", "en-de={de}", "--valid-pairs", "en-fr={fr}"],
            "--valid-pairs: their directions are en-fr, those of training are en-de; name both",
        ),
        (["--corpus", "wmt14-en-de", "--from", "x", "--temperature", "5"], "leave out --temperature"),
        (["--pairs", "en-de=missing.tsv", "en-fr={fr}"], "missing.tsv: no such file; check the path"),
    ],
)
def test_what_is_wrong_with_directions_is_told_in_a_line(
    run_command: RunCommand, toy_pairs: dict[str, Path], tmp_path: Path, options: list[str], message: str
) -> None:
    files = {"de": str(toy_pairs["train.de"]), "fr": str(toy_pairs["train.fr"])}
    given = [option.format(**files) for option in options]
    code, _, err = run_command("prepare", tmp_path / "data", "--tokenizer", "byte", *given)
    assert code in (2, 3)
    assert message.format(**files) in one_line(err)
    assert not (tmp_path / "data").exists()


def test_weights_are_given_for_each_file_not_for_each_direction(
    run_command: RunCommand, toy_pairs: dict[str, Path], tmp_path: Path
) -> None:
    given = "--pairs", f"en-de={toy_pairs['train.de']}", f"en-fr={toy_pairs['train.fr']}"
    options = "--keep-repeats", "--both-directions", "--weights", "1", "3", "--tokenizer", "byte"
    assert run_command("prepare", tmp_path / "data", *given, *options)[0] == 0
    assert PreparedData(tmp_path / "data").train.num_pairs == 2 * 400 * (1 + 3)


def test_the_language_to_write_is_an_option_a_symbol_or_a_key(
    run_command: RunCommand, multilingual_model: Path, translator: Translator
) -> None:
    german, french = (translator.translate(["sun moon"], to=to)[0].text for to in ("de", "fr"))
    assert german != french
    for to, expected in (("de", german), ("deu", german), ("fr", french)):
        code, out, err = run_command("translate", multilingual_model, "--to", to, stdin=b"sun moon\n")
        assert (code, out.decode(), err) == (0, f"{expected}\n", "")
    code, out, _ = run_command("translate", multilingual_model, stdin=b">>fr<< sun moon\n>>de<< sun moon\n")
    assert (code, out.decode()) == (0, f"{french}\n{german}\n")
    lines = [
        {"text": "sun moon"},
        {"text": "sun moon", "to": "fr"},
        {"text": "sun", "to": "es"},
        {"text": "a", "to": 1},
    ]
    stdin = "".join(json.dumps(line) + "\n" for line in lines).encode()
    code, out, err = run_command("translate", multilingual_model, "--jsonl", "--to", "de", stdin=stdin)
    first, second, third, fourth = map(json.loads, out.split(b"\n")[:-1])
    assert [each["translations"][0]["text"] for each in (first, second)] == [german, french]
    assert third["error"]["label"] == "E-LANGUAGE"
    assert "language 'es': the model writes de, fr; choose one of these" in third["error"]["message"]
    assert '"to" is not a string' in fourth["error"]["message"]
    assert code == 9


def test_an_output_that_goes_on_has_the_language_that_it_began_with(
    run_command: RunCommand, multilingual_model: Path, tmp_path: Path
) -> None:
    begun = "translate", multilingual_model, "--resume-output", tmp_path / "out"
    assert run_command(*begun, "--to", "de", stdin=b"sun\n")[0] == 0
    assert run_command(*begun, "--to", "fr", stdin=b"sun\n")[0] != 0


def test_a_missing_or_unknown_language_is_one_line(
    run_command: RunCommand, multilingual_model: Path, toy_pairs: dict[str, Path]
) -> None:
    missing = (
        "the language to write is not given: choose one of de, fr (option `to`), or begin the text with its "
        "symbol, such as >>de<<"
    )
    code, out, err = run_command("translate", multilingual_model, stdin=b"sun\n>>de<< sun\n")
    assert (code, out.count(b"\n"), out[:1]) == (9, 2, b"\n")
    assert one_line(err) == f"allyouneed: error[E-LANGUAGE]: standard input:1: {missing}"
    code, _, err = run_command("translate", multilingual_model, "--to", "es", stdin=b"sun\n")
    unknown = "allyouneed: error[E-USAGE]: language 'es': the model writes de, fr; choose one of these"
    assert (code, one_line(err)) == (2, unknown)
    code, _, err = run_command("evaluate", multilingual_model, "--pairs", toy_pairs["valid.de"])
    assert code == 3
    assert err.endswith(f"error[E-LANGUAGE]: pair 1: source: {missing}\n")


def test_each_direction_is_evaluated_and_the_mean(
    run_command: RunCommand, multilingual_model: Path, translator: Translator, toy_pairs: dict[str, Path]
) -> None:
    files = [f"en-{to}={toy_pairs[f'valid.{to}']}" for to in ("de", "fr")]
    code, out, _ = run_command("evaluate", "--beam-size", "1", "--pairs", *files, multilingual_model)
    assert code == 0
    expected = {}
    for to in ("de", "fr"):
        lines = toy_pairs[f"valid.{to}"].read_bytes().decode().split("\n")[:-1]
        sources, targets = zip(*(line.split("\t") for line in lines), strict=True)
        texts = [found.text for found in translator.translate(sources, to=to, beam_size=1)]
        expected[f"en-{to}"] = bleu_of(WORDS)(texts, targets).value
    mean = sum(expected.values()) / 2
    printed = out.decode().split("\n")
    assert [line for line in printed if ": BLEU" in line] == [
        *(f"{name}: BLEU {value:.1f} (13a)" for name, value in expected.items()),
        f"mean of 2 directions: BLEU {mean:.2f}",
    ]
    _, out, _ = run_command("evaluate", multilingual_model, "--beam-size", "1", "--json", "--pairs", *files)
    found = json.loads(out)
    assert {name: each["bleu_13a"]["score"] for name, each in found["directions"].items()} == expected
    assert found["mean"] == mean
    alone = "--beam-size", "1", "--json", "--pairs", toy_pairs["valid.de"], "--to", "de"
    _, out, _ = run_command("evaluate", multilingual_model, *alone)
    assert json.loads(out)["bleu_13a"]["score"] == expected["en-de"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["en-de={de}", "--to", "de"], "names the languages; leave out --to, --target-language, --source"),
        (["{de}", "--both-directions"], "--both-directions: is for named files; write SOURCE-TARGET=FILE"),
        (["{de}", "{de}"], "give one file, or the direction of each: en-de=FILE en-fr=FILE"),
        (["en-es={de}"], "language 'es': the model writes de, fr; choose one of these"),
    ],
)
def test_directions_to_evaluate_that_do_not_fit_are_refused(
    run_command: RunCommand,
    multilingual_model: Path,
    toy_pairs: dict[str, Path],
    options: list[str],
    message: str,
) -> None:
    given = [option.format(de=toy_pairs["valid.de"]) for option in options]
    code, _, err = run_command("evaluate", multilingual_model, "--pairs", *given)
    assert code == 2
    assert message in one_line(err)


def test_pairs_are_scored_and_looked_at_in_a_language(
    run_command: RunCommand, multilingual_model: Path, translator: Translator, toy_pairs: dict[str, Path]
) -> None:
    pairs = "--pairs", toy_pairs["valid.fr"]
    _, out, _ = run_command("score", multilingual_model, *pairs, "--to", "fr")
    first = toy_pairs["valid.fr"].read_bytes().decode().split("\n")[0].split("\t")
    [expected] = translator.into("fr").score(*([text] for text in first))
    assert float(out.split(b"\n")[0]) == pytest.approx(expected.log_prob, rel=1e-4)
    assert run_command("attend", multilingual_model, ">>fr<< sun moon")[0] == 0
    assert run_command("attend", multilingual_model, "sun moon")[0] == 3
