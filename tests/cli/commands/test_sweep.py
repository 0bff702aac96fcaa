"""`sweep` finds the pair of beam size and length penalty whose translations score best."""

import json
from pathlib import Path

import numpy as np
import pytest

from allyouneed import load_translator
from allyouneed.cli.program import main
from allyouneed.data.lines import read_lines
from allyouneed.evaluation.bleu import BleuTokens, bleu_13a, bleu_of
from allyouneed.evaluation.significance import bootstrap_p_value, paired_bootstrap
from allyouneed.lab.statistics.figure_tests import TESTS


def test_every_pair_is_tried_and_the_best_named(
    toy_model: Path, toy_text: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, reference = toy_text / "valid.en", toy_text / "valid.toy"
    command = ["sweep", str(toy_model), "--source", str(source), "--reference", str(reference)]
    command += ["--beam-sizes", "1", "3", "--length-penalties", "0", "1.0"]
    assert main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    translator, sources, references = (
        load_translator(toy_model),
        list(read_lines(source)),
        list(read_lines(reference)),
    )
    texts = []
    for tried in found["tried"]:
        search = {name: tried[name] for name in ("beam_size", "length_penalty")}
        texts.append([translation.text for translation in translator.translate(sources, **search)])
        assert tried["bleu_13a"] == bleu_13a(texts[-1], references).value
    assert [(t["beam_size"], t["length_penalty"]) for t in found["tried"]] == [(1, 0), (1, 1), (3, 0), (3, 1)]
    best = max(found["tried"], key=lambda tried: tried["bleu_13a"])
    assert found["best"] == {name: best[name] for name in ("beam_size", "length_penalty")}
    of_best = texts[found["tried"].index(best)]
    p_values = [tried["p_value"] for tried in found["tried"]]
    assert p_values == [
        None if tried is best else paired_bootstrap(lines, of_best, references).p_value
        for tried, lines in zip(found["tried"], texts, strict=True)
    ]
    assert main(command) == 0
    out = capsys.readouterr().out
    assert "best: --beam-size" in out
    table = "".join(out.split("\n")[1:3])
    assert table.count("~") == sum(p is None or p >= 0.05 for p in p_values)


@pytest.mark.parametrize(("language", "tokens"), [("zh", "zh"), ("tha", "char"), ("de", "13a")])
def test_pairs_are_compared_on_the_tokens_of_the_target_language_and_by_all_references(
    language: str,
    tokens: str,
    toy_model: Path,
    toy_text: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source, reference, others = toy_text / "valid.en", toy_text / "valid.toy", tmp_path / "others"
    references = [[*read_lines(reference)], ["nuso" if n % 2 else "" for n in range(20)]]
    others.write_bytes("".join(f"{line}\n" for line in references[1]).encode())
    command = ["sweep", str(toy_model), "--source", str(source), "--reference", str(reference), str(others)]
    command += ["--target-language", language, "--beam-sizes", "1", "--length-penalties", "0.6"]
    assert main([*command, "--json"]) == 0
    out, err = capsys.readouterr()
    texts = [t.text for t in load_translator(toy_model).translate([*read_lines(source)], beam_size=1)]
    (tried,) = json.loads(out)["tried"]
    assert tried[f"bleu_{tokens}"] == bleu_of(BleuTokens(tokens))(texts, *references).value
    assert ("is written without spaces" in err) == (tokens != "13a")
    assert main(command) == 0
    assert f", BLEU ({tokens}) {tried[f'bleu_{tokens}']:.2f}\n" in capsys.readouterr().out


def test_a_value_out_of_range_is_refused_before_anything_is_translated(
    toy_model: Path, toy_text: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["sweep", str(toy_model), "--source", str(toy_text / "valid.en")]
    command += ["--reference", str(toy_text / "valid.toy"), "--length-penalties", "0.6", "12"]
    assert main(command) == 2
    assert "done" not in capsys.readouterr().err


def test_pairs_may_stand_in_one_file(
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
        assert main(["sweep", str(toy_model), *given, "--beam-sizes", "1", "--length-penalties", "0.6"]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    assert main(["sweep", str(toy_model), *two, *one]) == 2
    assert "or --pairs, one file of both" in capsys.readouterr().err


def test_an_empty_text_is_refused_before_and_a_value_given_twice_is_tried_once(
    toy_model: Path, toy_text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").touch()
    command = ["sweep", str(toy_model), "--beam-sizes", "1", "1", "--length-penalties", "0", "0.0"]
    empty = str(tmp_path / "empty")
    assert main([*command, "--source", empty, "--reference", empty]) == 3
    told = f"allyouneed: error[E-DATA]: {empty}: is empty; give sentences with their translations\n"
    assert capsys.readouterr().err == told
    text = ["--source", str(toy_text / "valid.en"), "--reference", str(toy_text / "valid.toy")]
    assert main([*command, *text]) == 0
    assert capsys.readouterr().err.count("done\n") == 1


def test_settings_of_a_parser_are_compared_by_the_brackets_of_a_development_set(
    toy_parser: Path, toy_treebank: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trees = str(toy_treebank / "dev.mrg")
    command = ["sweep", str(toy_parser), "--trees", trees, "--beam-sizes", "1", "2"]
    command += ["--length-penalties", "0.3"]
    assert main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    for tried in found["tried"]:
        search = ["--beam-size", str(tried["beam_size"]), "--length-penalty", str(tried["length_penalty"])]
        assert main(["evaluate", str(toy_parser), "--trees", trees, *search, "--json"]) == 0
        scores = json.loads(capsys.readouterr().out)
        assert tried["bracket_f1"] == pytest.approx(scores["bracket_f1"]["score"])
    assert sorted(tried["p_value"] is None for tried in found["tried"]) == [False, True]
    assert main(command) == 0
    assert ", bracket F1 " in capsys.readouterr().out
    assert main([*command, "--pairs", "val.tsv"]) == 2
    assert "--trees: is for parsers; leave out --source" in capsys.readouterr().err


def test_equal_outputs_have_a_p_value_of_one_and_much_worse_ones_a_small_one() -> None:
    best, worse = np.full((40, 3), 4), np.full((40, 3), 4)
    worse[:, 0] = np.arange(40) % 3
    assert bootstrap_p_value(best, best, TESTS["bracket_f1"].score) == 1
    assert bootstrap_p_value(worse, best, TESTS["bracket_f1"].score) < 0.01
