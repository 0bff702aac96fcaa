"""`prepare --task parsing`, `parse` and `evaluate --trees`, as one uses them."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from allyouneed.config.presets import parsing_tiny, parsing_wsj
from allyouneed.config.run import RunConfig
from allyouneed.preparation.prepared_data import PreparedData

if TYPE_CHECKING:
    from tests.cli.conftest import RunCommand

SENTENCES = b"the wolf sees the bear .\n\nthe sun likes the moon near C .\n"
TREES = [
    "(TOP (S (NP (DT the) (NN wolf)) (VP (VBZ sees) (NP (DT the) (NN bear))) (. .)))",
    "",
    "(TOP (S (NP (DT the) (NN sun)) (VP (VBZ likes) (NP (NP (DT the) (NN moon)) (PP (IN near) (NP (NNP C)))))"
    " (. .)))",
]


def test_a_tree_comes_out_for_each_line(run_command: "RunCommand", toy_parser: Path) -> None:
    for options in ([], ["--tokenized"], ["--unconstrained"], ["--beam-size", "2", "--workers", "1"]):
        code, out, err = run_command("parse", toy_parser, *options, stdin=SENTENCES)
        assert (code, err) == (0, "")
        assert out.decode().split("\n") == [*TREES, ""]


def test_scores_and_indented_trees(run_command: "RunCommand", toy_parser: Path) -> None:
    _, out, _ = run_command("parse", toy_parser, "--scores", stdin=SENTENCES)
    rows = [line.split("\t") for line in out.decode().split("\n")[:-1]]
    assert rows[1] == [""]
    assert [rows[0][1], rows[2][1]] == [TREES[0], TREES[2]]
    assert float(rows[0][0]) < 0
    _, out, _ = run_command("parse", toy_parser, "--pretty", stdin=SENTENCES)
    first = out.decode().split("\n\n")[0]
    assert first.split("\n")[:2] == ["(TOP", "  (S"]
    assert " ".join(first.split()) == TREES[0]


def test_lines_that_fail_stay_empty_and_are_told(run_command: "RunCommand", toy_parser: Path) -> None:
    bad = SENTENCES.replace(b"\n\n", b"\n\xff\n") + b"x " * 3_000
    code, out, err = run_command("parse", toy_parser, "--tokenized", stdin=bad)
    assert code == 9
    assert out.decode().split("\n") == [*TREES, "", ""]
    assert "error[E-UTF8]: standard input:2:1: " in err
    _, with_scores, _ = run_command("parse", toy_parser, "--tokenized", "--scores", stdin=bad)
    assert [line.partition("\t")[2] for line in with_scores.decode().split("\n")] == [*TREES, "", ""]
    _, unsure, _ = run_command("parse", toy_parser, "--scores", "--min-confidence", "1", stdin=SENTENCES)
    assert unsure == b"\n" * len(TREES)
    assert "error[E-TOO-LONG]: standard input:4: " in err


def test_outputs_that_are_no_trees_are_repaired_flagged_and_counted(
    run_command: "RunCommand", toy_parser: Path
) -> None:
    strange = b"near near near near near near the . .\n"
    code, out, err = run_command("parse", toy_parser, "--unconstrained", "--tokenized", stdin=strange * 2)
    assert code == 0
    assert out.count(b"near") == 12
    assert "standard input:1: #repaired" in err
    assert "2 outputs were repaired" in err
    code, out, err = run_command("parse", toy_parser, "--tokenized", stdin=strange)
    assert (code, err) == (0, "")
    code, out, err = run_command("parse", toy_parser, "--tokenized", "--max-extra-tokens", 0, stdin=strange)
    assert (code, out.count(b"near")) == (0, 6)
    assert "1: #repaired: no tree over these words is short enough; raise --max-extra-tokens" in err


def test_where_there_is_no_tree_nothing_is_drawn(
    run_command: "RunCommand", toy_parser: Path, tmp_path: Path
) -> None:
    code, out, err = run_command("parse", toy_parser, "--svg", tmp_path / "trees.svg", stdin=b"\n")
    assert (code, out, list(tmp_path.iterdir())) == (0, b"\n", [])
    assert "trees.svg: not written, as there is no tree to draw" in err


def test_trees_that_the_parser_is_not_sure_of_leave_their_lines_empty(
    run_command: "RunCommand", toy_parser: Path
) -> None:
    strange = SENTENCES + b"near near near near near near the . .\n"
    code, out, err = run_command("parse", toy_parser, "--tokenized", stdin=strange)
    assert (code, err) == (0, "")
    assert out.count(b"near") == 7
    arguments = ("parse", toy_parser, "--tokenized", "--min-confidence", "0.8")
    code, out, err = run_command(*arguments, stdin=strange)
    assert code == 0
    assert out.decode().split("\n") == [*TREES, "", ""]
    assert "1 of 3 trees are left out: below --min-confidence" in err
    code, out, err = run_command(*arguments[:-1], "1", stdin=strange)
    assert (code, out) == (0, b"\n" * 4)
    assert run_command(*arguments[:-1], "1.1")[0] == 2


def test_trees_are_drawn_into_one_file_those_that_are_written(
    run_command: "RunCommand", toy_parser: Path, tmp_path: Path
) -> None:
    picture = tmp_path / "trees.svg"
    code, out, _ = run_command("parse", toy_parser, "--svg", picture, stdin=SENTENCES)
    assert (code, out.decode().split("\n")) == (0, [*TREES, ""])
    titles = [title.text for title in ET.parse(picture).iter("{http://www.w3.org/2000/svg}title")]
    assert titles == ["the wolf sees the bear .", "the sun likes the moon near C ."]
    many = b"the sun likes C .\n" * 103
    _, _, err = run_command("parse", toy_parser, "--svg", picture, "--beam-size", "1", stdin=many)
    assert "the first 100 of 103 trees are drawn" in err
    assert picture.read_bytes().count(b"<title>") == 100
    code, _, err = run_command("parse", toy_parser, "--svg", tmp_path / "no" / "x.svg", stdin=SENTENCES)
    assert code == 6
    assert "x.svg" in err


def test_a_parser_and_a_file_of_trees_are_scored(
    run_command: "RunCommand", toy_parser: Path, toy_treebank: Path, tmp_path: Path
) -> None:
    gold = toy_treebank / "dev.mrg"
    code, out, _ = run_command("evaluate", toy_parser, "--trees", gold, "--json", "--labels")
    scores = json.loads(out)
    assert code == 0
    assert scores["bracket_f1"]["score"] > 95
    assert scores["well_formed"]["score"] == 100
    assert scores["labels"]["VP"]["gold"] == 20
    code, out, err = run_command("evaluate", "--hypotheses", gold, "--trees", gold, "--labels")
    assert (code, err.count("20 function tags removed")) == (0, 2)
    assert out.decode().startswith(
        "F1 100.0 (labelled brackets)\nbracket_f1           100.00  evalb:COLLINS.prm"
    )
    assert "\nVP              20      20       20   100.00" in out.decode()
    picture = tmp_path / "lengths.png"
    arguments = ("evaluate", "--hypotheses", gold, "--trees", gold, "--lengths", "--length-plot", picture)
    code, out, _ = run_command(*arguments)
    numbers = [int(line.split()[-1]) for line in out.decode().split("words ")[1].split("\n")[1:-1]]
    assert (code, sum(numbers)) == (0, 20)
    assert picture.read_bytes().startswith(b"\x89PNG")
    run_command(*arguments[:-1], picture.with_suffix(".pdf"))
    assert picture.with_suffix(".pdf").read_bytes().startswith(b"%PDF")
    _, out, _ = run_command(*arguments[:-2], "--json")
    assert sum(row["sentences"] for row in json.loads(out)["lengths"].values()) == 20
    (tmp_path / "fewer.mrg").write_bytes(b"(S (NN a))\n")
    code, _, err = run_command("evaluate", "--hypotheses", tmp_path / "fewer.mrg", "--trees", gold)
    assert code == 3
    assert "20 gold trees but 1" in err


@pytest.mark.parametrize(
    ("arguments", "code", "fault"),
    [
        (["evaluate", "--trees", "TREES"], 2, "give a MODEL"),
        (["evaluate", "--hypotheses", "TREES", "TREES", "--trees", "TREES"], 2, "give a MODEL"),
        (["evaluate", "NONE", "--hypotheses", "TREES", "--trees", "TREES"], 2, "give a MODEL"),
        (["evaluate", "NONE", "--trees", "TREES", "--reference", "TREES"], 2, "have no effect here"),
        (["evaluate", "NONE", "--trees", "TREES", "--mbr", "4"], 2, "for translations only"),
        (["evaluate", "--hypotheses", "TREES"], 2, "give --reference"),
        (
            ["evaluate", "--hypotheses", "TREES", "--trees", "TREES", "--beam-size", "7"],
            2,
            "have no effect on them",
        ),
        (
            ["evaluate", "--hypotheses", "TREES", "--trees", "TREES", "--unconstrained"],
            2,
            "have no effect on them",
        ),
        (["evaluate", "--hypotheses", "TREES", "--reference", "TREES", "--labels"], 2, "add --trees"),
        (
            ["evaluate", "PARSER", "--trees", "TREES", "--length-plot", "NONE/l.png"],
            6,
            "there is no folder NONE",
        ),
        (["parse", "PARSER", "--svg", "NONE/trees.svg"], 6, "no folder NONE"),
        (["evaluate", "--hypotheses", "BROKEN", "--trees", "TWO"], 3, "2 gold trees but 1"),
        (["evaluate", "--hypotheses", "NONE", "--trees", "TREES"], 3, "no such file"),
        (["evaluate", "--hypotheses", "EMPTY", "--trees", "TREES"], 3, "holds no tree"),
        (["evaluate", "--hypotheses", "OPEN", "--trees", "TREES"], 3, "2:1: the tree that begins here lacks"),
        (["prepare", "OUT", "--trees", "TREES"], 2, "add --task parsing"),
        (["prepare", "OUT", "--task", "parsing"], 2, "no training text: give --trees"),
        (["prepare", "OUT", "--task", "parsing", "--preset", "base"], 2, "--preset base: is for translation"),
        (
            ["prepare", "OUT", "--preset", "parsing_tiny", "--trees", "TREES", "--tags", "endings"],
            2,
            "--tokenizer words: does not spell",
        ),
        (
            ["prepare", "OUT", "--preset", "parsing_tiny", "--trees", "TREES", "--silver-trees", "UNTAGGED"],
            3,
            "2 silver trees have XX for every part of speech",
        ),
        (
            [
                *("prepare", "OUT", "--preset", "parsing_tiny", "--tags", "words"),
                *("--trees", "TREES", "--silver-trees", "UNTAGGED"),
            ],
            3,
            "2 silver trees have XX for every part of speech",
        ),
        (
            ["prepare", "OUT", "--task", "parsing", "--trees", "TREES", "--tags", "words"],
            2,
            "take --tokenizer words and --brackets joined as well",
        ),
        (
            ["prepare", "OUT", "--task", "parsing", "--trees", "TREES", "--pairs", "TREES"],
            2,
            "not sentence pairs",
        ),
        (["prepare", "OUT", "--task", "parsing", "--trees", "EMPTY"], 3, "holds no tree; give"),
        (
            ["prepare", "OUT", "--task", "parsing", "--trees", "TREES", "UNPARSED"],
            3,
            "UNPARSED: holds no tree",
        ),
        (["evaluate", "PARSER", "--trees", "UNPARSED"], 3, "UNPARSED: holds no tree; give"),
        (
            ["prepare", "OUT", "--task", "parsing", "--trees", "TREES", "TRACES"],
            3,
            "TRACES: holds only trees of traces (2); give a file of trees in brackets, with words",
        ),
        (
            ["prepare", "OUT", "--task", "parsing", "--trees", "OPEN"],
            3,
            "2:1: the tree that begins here lacks",
        ),
        (["prepare", "OUT", "--task", "parsing", "--trees", "TREES"], 2, "use --vocab-size"),
        (["parse", "NONE"], 4, "no such model"),
        (["translate", "PARSER"], 4, "use it with `allyouneed parse`"),
        (
            ["evaluate", "PARSER", "--source", "TREES", "--reference", "TREES"],
            4,
            "is a parser; score it with --trees",
        ),
    ],
)
def test_wrong_inputs_are_told(
    run_command: "RunCommand",
    toy_treebank: Path,
    toy_parser: Path,
    tmp_path: Path,
    arguments: list[str],
    code: int,
    fault: str,
) -> None:
    (tmp_path / "EMPTY").write_bytes(b"\n")
    (tmp_path / "UNPARSED").write_bytes(b"(())\n(CODE <P_1>)\n")
    (tmp_path / "OPEN").write_bytes(b"(S (NN a))\n(S (NN b)\n")
    (tmp_path / "TWO").write_bytes(b"(S (NN a))\n(S (NN b))\n")
    (tmp_path / "BROKEN").write_bytes(b"(S\n(NN a))\n")
    (tmp_path / "TRACES").write_bytes(b"(S (-NONE- *))\n(S (NP (-NONE- 0)))\n")
    (tmp_path / "UNTAGGED").write_bytes(b"(S (XX a))\n(S (XX a) (NN b))\n(S (XX a) (XX b))\n")
    files = {
        "TREES": toy_treebank / "dev.mrg",
        "PARSER": toy_parser,
        **{
            name: tmp_path / name
            for name in ("EMPTY", "OPEN", "NONE", "OUT", "UNTAGGED", "TWO", "BROKEN", "TRACES", "UNPARSED")
        },
    }
    found, _, err = run_command(*(files.get(argument, argument) for argument in arguments))
    assert found == code
    assert fault in err
    assert not (tmp_path / "OUT").exists()


def test_trees_are_prepared_with_an_account_of_what_was_cleaned(
    run_command: "RunCommand", toy_treebank: Path, tmp_path: Path
) -> None:
    code, out, err = run_command(
        *("prepare", tmp_path / "data", "--task", "parsing", "--vocab-size", "290"),
        *("--trees", toy_treebank / "train.mrg", toy_treebank / "dev.mrg"),
        *("--valid-trees", toy_treebank / "dev.mrg", "--brackets", "plain"),
    )
    assert code == 0
    # 5 control symbols, XX, the closing bracket, and S NP VP PP
    assert b"420 trees to train on, 20 to validate, 290 source and 11 target symbols" in out
    assert "train: 420 function tags removed" in err
    assert "train: 420 trees read, 420 kept, 0 dropped" in err
    report = json.loads((tmp_path / "data" / "report.json").read_bytes())
    cleaned = {"function tags removed": 20, "traces removed": 0}
    assert report["valid"]["notes"] == {**cleaned, "labels twice over the same words, learned once": 0}


def test_a_preset_says_how_trees_are_prepared_and_long_sentences_stay(
    run_command: "RunCommand", toy_treebank: Path, tmp_path: Path
) -> None:
    long = tmp_path / "long.mrg"
    long.write_bytes(b"(S " + b"(NP (NN wolf)) " * 340 + b")\n")  # over 1,000 words in its brackets
    trees = ["--trees", toy_treebank / "train.mrg", long]
    code, out, _ = run_command("prepare", tmp_path / "data", "--preset", "parsing_tiny", *trees)
    assert (code, out.split(b": ")[1].split(b" trees")[0]) == (0, b"401")
    data = PreparedData(tmp_path / "data")
    assert data.config == parsing_tiny().data
    assert data.train.source_lengths.tolist() == data.train.target_lengths.tolist()


def test_trees_are_learned_by_the_paper_s_recipe_for_parsers_where_no_preset_is_named(
    run_command: "RunCommand", toy_treebank: Path, toy_parser: Path, tmp_path: Path
) -> None:
    assert toy_parser.parent == toy_treebank  # which has prepared the data
    small = ["model.d_model=8", "model.d_ff=8", "model.num_heads=2", "model.num_layers=1"]
    arguments = ("train", tmp_path / "run", "--data", toy_treebank / "data", "--steps", "1", "--set", *small)
    assert run_command(*arguments)[0] == 0
    config = RunConfig.from_toml(tmp_path / "run" / "config.toml")
    assert config.search == parsing_wsj().search
    assert config.model.dropout == parsing_wsj().model.dropout


def test_an_empty_line_is_scored_as_a_tree_without_constituents(
    run_command: "RunCommand", toy_treebank: Path, tmp_path: Path
) -> None:
    gold = tmp_path / "gold.mrg"
    gold.write_bytes("\n".join([TREES[0], TREES[2], TREES[0], ""]).encode())
    (tmp_path / "found.mrg").write_bytes("\n".join([TREES[0], "", TREES[0], ""]).encode())
    code, out, _ = run_command("evaluate", "--hypotheses", tmp_path / "found.mrg", "--trees", gold, "--json")
    scores = {name: score["score"] for name, score in json.loads(out).items()}
    assert code == 0
    # Brackets: S NP VP NP, then S NP VP NP NP PP NP; words without full stops: 5, 7 and 5.
    assert scores["bracket_precision"] == 100
    assert scores["bracket_recall"] == pytest.approx(100 * 8 / 15)
    assert [scores["exact_match"], scores["well_formed"]] == pytest.approx([200 / 3, 200 / 3])
    assert scores["tag_accuracy"] == pytest.approx(100 * 10 / 17)
    (tmp_path / "found.mrg").write_bytes(f"{TREES[0]}\n{TREES[0]}\n".encode())
    code, _, err = run_command("evaluate", "--hypotheses", tmp_path / "found.mrg", "--trees", gold)
    assert (code, "3 gold trees but 2" in err) == (3, True)


def test_silver_trees_repetitions_and_exchanges_are_mixed_in(
    run_command: "RunCommand", toy_treebank: Path, tmp_path: Path
) -> None:
    silver = tmp_path / "silver.mrg"
    coded = "( (CODE <P_1>))(TOP (META (CODE <b>) (NN wolf)) (ID X,1))"
    silver.write_bytes(f"{TREES[0]}\n\n(())\n{TREES[2]}\n(TOP)\n{coded}\n".encode())
    arguments = ["--task", "parsing", "--trees", toy_treebank / "dev.mrg", "--vocab-size", "280"]
    arguments += ["--silver-trees", silver, "--repeat-trees", "3", "--exchange", "7"]
    code, out, err = run_command("prepare", tmp_path / "data", *arguments)
    assert (code, out.split(b": ")[1].split(b" trees")[0]) == (0, b"70")
    for line in (
        *("40 repetitions of trees", "3 silver trees", "7 trees made by exchange of constituents"),
        "2 sentences without a tree, left out",
        "1 trees of nothing but IDs, codes or metadata, left out",
        "2 IDs, codes, metadata, comments and marks of disfluencies removed",
    ):
        assert f"train: {line}" in err
    data = PreparedData(tmp_path / "data")
    trees = data.lines("train", "target")
    assert trees[:20] == trees[20:40] == trees[40:60]
    assert trees[60:63] == [TREES[0], TREES[2], "(TOP (META (NN wolf)))"]
    assert not set(trees[63:]) & set(trees[:20])
    # Words are as frequent as in the trees that are given.
    run_command("prepare", tmp_path / "plain", *arguments[:-4])
    assert PreparedData(tmp_path / "plain").tokenizers == data.tokenizers
    code, _, err = run_command("prepare", tmp_path / "no", "--silver-trees", silver)
    assert (code, "add --task parsing" in err) == (2, True)
