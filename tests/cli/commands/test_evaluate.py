"""`evaluate` scores a file of translations as the metrics do, and says which score it leaves out and why."""

import json
import math
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from allyouneed import load_translator
from allyouneed.cli.program import main
from allyouneed.data.lines import read_lines
from allyouneed.evaluation.bleu import bleu_13a
from allyouneed.evaluation.metrics import translation_metrics
from allyouneed.evaluation.significance import paired_bootstrap

HYPOTHESES = ["Ein Mann läuft schnell.", "", "Zwei\u2028Hunde spielen im Schnee ."]
REFERENCES = ["Ein Mann rennt schnell.", "Eine Frau.", "Zwei Hunde spielen im Schnee."]


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    for name, lines in ("out", HYPOTHESES), ("ref", REFERENCES):
        (tmp_path / name).write_bytes("".join(f"{line}\n" for line in lines).encode())
    return ["--hypotheses", str(tmp_path / "out"), "--reference", str(tmp_path / "ref")]


def test_a_file_has_each_score_with_its_signature(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", *files, "--target-language", "de", "--json"]) == 0
    out, err = capsys.readouterr()
    expected = [metric(HYPOTHESES, REFERENCES) for metric in translation_metrics("de", REFERENCES)]
    assert json.loads(out) == {s.name: {"score": s.value, "signature": s.signature} for s in expected}
    assert err == ""


@pytest.mark.parametrize("name", ["--hypotheses", "--reference"])
def test_one_of_the_files_may_be_standard_input(
    files: list[str], name: str, run_command: Callable[..., tuple[int, bytes, str]]
) -> None:
    expected = run_command("evaluate", *files)
    place = files.index(name) + 1
    stdin, files[place] = Path(files[place]).read_bytes(), "-"
    assert run_command("evaluate", *files, stdin=stdin) == expected


def test_people_see_a_headline_and_one_line_a_score(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", *files, "--target-language", "de"]) == 0
    out, err = capsys.readouterr()
    first, *rows = out.strip().split("\n")
    assert first == f"BLEU {bleu_13a(HYPOTHESES, REFERENCES).value:.1f} (13a)"
    names = [line.split()[0] for line in rows]
    assert names == [metric.__name__ for metric in translation_metrics("de", REFERENCES)]
    for name in (name for name in names if name.startswith("bleu")):
        assert f"allyouneed: {name} (" in err, "each convention is explained"


def test_two_files_are_compared(files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "other").write_bytes("".join(f"{line}\n" for line in REFERENCES).encode())
    compared = [files[0], files[1], str(tmp_path / "other"), *files[2:]]
    assert main(["evaluate", *compared, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    expected = paired_bootstrap(HYPOTHESES, REFERENCES, REFERENCES)
    assert found["bleu_13a"]["p_value"] == expected.p_value
    assert found["bleu_13a"]["difference"] == expected.difference
    assert found["systems"][0]["bleu_13a"]["score"] == bleu_13a(HYPOTHESES, REFERENCES).value
    assert found["systems"][1]["bleu_13a"]["score"] == pytest.approx(100)
    assert found["bleu_13a"]["sentences"] == len(REFERENCES)
    assert main(["evaluate", *compared]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"BLEU {bleu_13a(HYPOTHESES, REFERENCES).value:.1f} and 100.0 (13a)\n")
    assert "bleu_13a differs by +" in out
    assert out.endswith("too few sentences to tell; give at least 30\n")


def test_a_reference_that_can_be_read_once_is_read_once(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reference = Path(files[-1])
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=[reference.read_bytes()])
    writer.start()
    assert main(["evaluate", files[0], files[1], str(reference), "--reference", str(pipe)]) == 0
    writer.join()
    assert "bleu_13a differs by +" in capsys.readouterr().out


def test_without_a_language_a_notice_says_what_is_left_out(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", *files, "--json"]) == 0
    out, err = capsys.readouterr()
    assert list(json.loads(out)) == [metric.__name__ for metric in translation_metrics("", REFERENCES)]
    assert err == "allyouneed: BLEU on Moses tokens is left out: give --target-language\n"


@pytest.mark.parametrize(
    ("language", "reason"),
    [
        ("tr", "Moses has no rules for the language 'tr'"),
        ("germn", "give another --target-language than 'germn', which is no code of ISO 639"),
    ],
)
def test_a_language_without_moses_tokens_has_the_other_scores_and_one_notice(
    language: str, reason: str, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", *files, "--target-language", language, "--json"]) == 0
    out, err = capsys.readouterr()
    assert [*json.loads(out)] == [metric.__name__ for metric in translation_metrics("", REFERENCES)]
    assert err == f"allyouneed: BLEU on Moses tokens is left out: {reason}\n"


@pytest.fixture
def chinese(tmp_path: Path) -> list[str]:
    """The options of a good and a perfect translation into Chinese, and of a reference."""
    text = {"near": "今天天气非常好。", "same": "今天天气很好。", "ref": "今天天气很好。"}
    for name, line in text.items():
        (tmp_path / name).write_bytes(f"{line}\n".encode())
    near, same, reference = (str(tmp_path / name) for name in text)
    return ["--hypotheses", near, same, "--reference", reference]


def test_chinese_is_scored_on_sacrebleus_tokens_of_it_which_are_recommended(
    chinese: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    one = [chinese[0], *chinese[2:], "--target-language", "zh-CN"]
    assert main(["evaluate", *one]) == 0
    out, err = capsys.readouterr()
    rows = [line.split()[:2] for line in out.strip().split("\n")]
    assert rows[:3] == [["BLEU", "100.0"], ["bleu_zh", "100.00"], ["chrf", "100.00"]]
    assert "bleu_zh (+0.00): " in err
    assert err.count("recommended") == 1
    assert err.count("left out") == 1


def test_two_translations_into_a_language_without_spaces_are_compared_on_its_tokens(
    chinese: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    for language, tokens in (["--target-language", "zh"], "zh"), ([], "char"):
        assert main(["evaluate", *chinese, *language, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        near, same = (system[f"bleu_{tokens}"]["score"] for system in found["systems"])
        assert found[f"bleu_{tokens}"]["difference"] == pytest.approx(same - near)
        assert 0 < near < same
        assert f"tok:{tokens}" in found[f"bleu_{tokens}"]["signature"]
    assert main(["evaluate", *chinese]) == 0
    out, err = capsys.readouterr()
    assert "bleu_char differs by +" in out
    assert "hardly any spaces; report chrF, or give --target-language\n" in err
    assert "recommended" not in err


def test_a_sentence_may_have_several_references(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    others = ["Ein Mann läuft schnell.", "", "Zwei Hunde spielen."]
    (tmp_path / "others").write_bytes("".join(f"{line}\n" for line in others).encode())
    given = [*files, str(tmp_path / "others")]
    assert main(["evaluate", *given, "--target-language", "de", "--json"]) == 0
    expected = [metric(HYPOTHESES, REFERENCES, others) for metric in translation_metrics("de", REFERENCES)]
    found = json.loads(capsys.readouterr().out)
    assert found == {s.name: {"score": s.value, "signature": s.signature} for s in expected}
    assert all(score["signature"].startswith("nrefs:var|") for score in found.values())
    assert main(["evaluate", given[0], given[1], *given[1:], "--json"]) == 0
    test = paired_bootstrap(HYPOTHESES, HYPOTHESES, REFERENCES, others)
    assert json.loads(capsys.readouterr().out)["bleu_13a"]["signature"] == test.signature
    (tmp_path / "others").write_bytes(b"one\ntwo\n")
    assert main(["evaluate", *given]) == 3
    assert f"{tmp_path}/out has 3 lines, but {tmp_path}/others has 2" in capsys.readouterr().err


def test_a_model_is_scored_by_several_references_and_its_perplexity_by_the_first(
    toy_model: Path, toy_text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, reference, others = toy_text / "valid.en", toy_text / "valid.toy", tmp_path / "others"
    others.write_bytes(
        b"".join(b" ".join(line.split()[::-1]) + b"\n" for line in source.read_bytes().split(b"\n")[:-1])
    )
    found, errors = [], []
    for references in ([reference, toy_model], [reference, others, toy_model]):  # the MODEL may stand last
        given = ["--source", str(source), "--beam-size", "1", "--reference", *map(str, references)]
        assert main(["evaluate", "--json", *given]) == 0
        out, err = capsys.readouterr()
        found.append(json.loads(out))
        errors.append(err)
    assert found[0]["perplexity"] == found[1]["perplexity"]
    texts = [t.text for t in load_translator(toy_model).translate([*read_lines(source)], beam_size=1)]
    for metric in translation_metrics("", []):
        score = metric(texts, [*read_lines(reference)], [*read_lines(others)])
        assert found[1][metric.__name__] == {"score": score.value, "signature": score.signature}
    assert "the perplexity is that of the first reference" in errors[1]
    assert "perplexity" not in errors[0]


def test_different_numbers_of_lines_are_a_data_error_with_both_files(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out").write_bytes(b"one\ntwo\n")
    assert main(["evaluate", *files]) == 3
    assert f"{tmp_path}/out has 2 lines, but {tmp_path}/ref has 3" in capsys.readouterr().err


def test_empty_files_are_a_data_error(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("out", "ref"):
        (tmp_path / name).write_bytes(b"")
    assert main(["evaluate", *files]) == 3
    assert "nothing to score" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["--reference", "r"],
        ["model", "--reference", "r"],
        ["--source", "s", "--reference", "r"],
        ["model", "--source", "s", "--hypotheses", "h", "--reference", "r"],
        ["model", "--hypotheses", "h", "--reference", "r"],
        ["--hypotheses", "h", "--reference", "r", "--to", "fr"],
    ],
)
def test_it_wants_either_a_model_and_a_source_or_hypotheses(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", *arguments]) == 2
    assert "give a MODEL and --source" in capsys.readouterr().err


def test_a_model_is_scored_by_what_it_translates_and_by_its_perplexity(
    toy_model: Path, toy_text: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, reference = toy_text / "valid.en", toy_text / "valid.toy"
    files = ["--source", str(source), "--reference", str(reference)]
    assert main(["evaluate", str(toy_model), *files, "--beam-size", "2", "--json"]) == 0
    out, _ = capsys.readouterr()
    sources, references = list(read_lines(source)), list(read_lines(reference))
    translator = load_translator(toy_model)
    texts = [translation.text for translation in translator.translate(sources, beam_size=2)]
    total, num_tokens = translator.negative_log_likelihood(sources, references)
    expected = {
        metric.__name__: metric(texts, references).value for metric in translation_metrics("", references)
    }
    scores = {name: score["score"] for name, score in json.loads(out).items()}
    assert scores.pop("perplexity") == pytest.approx(math.exp(total / num_tokens))
    assert scores == expected


def test_source_and_reference_may_stand_in_one_file(
    toy_model: Path, toy_text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = toy_text / "valid.en", toy_text / "valid.toy"
    rows = zip(*map(read_lines, files), strict=True)
    (tmp_path / "pairs.tsv").write_bytes("".join("\t".join(row) + "\n" for row in rows).encode())
    two, one = (
        ["--source", str(files[0]), "--reference", str(files[1])],
        ["--pairs", str(tmp_path / "pairs.tsv")],
    )
    printed = []
    for given in (two, one):
        assert main(["evaluate", str(toy_model), *given, "--beam-size", "1", "--json"]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    for wrong in ([str(toy_model), *two, *one], [*one], [*one, "--hypotheses", "x"]):
        assert main(["evaluate", *wrong]) == 2
        assert "give " in capsys.readouterr().err


def test_a_reference_that_is_too_long_is_told_before_anything_is_translated(
    toy_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "source").write_bytes(b"sun\nmoon\n")
    (tmp_path / "reference").write_bytes(b"nuso\n" + b"x" * 3_000 + b"\n")
    files = ["--source", str(tmp_path / "source"), "--reference", str(tmp_path / "reference")]
    assert main(["evaluate", str(toy_model), *files]) == 3
    assert "pair 2: target: the sentence has" in capsys.readouterr().err
