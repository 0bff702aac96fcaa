"""What a small installation does: translating, scoring, parsing, serving and preparing without PyTorch."""

import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.kernels import require_kernels
from tests.patience import PATIENCE_SECONDS

from allyouneed.runs.loading import load_parser, load_translator

_PROGRAM = """
import sys
sys.modules["torch"] = sys.modules["matplotlib"] = None  # as if they were not installed
from allyouneed.cli.program import run
run()
"""
LINES = "sun sees moon\nmoon sees sun\nsun\n"

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run() -> Run:
    """The program without PyTorch and Matplotlib."""
    require_kernels()

    def program(
        *arguments: str | Path, text: str = LINES, code: int = 0
    ) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-c", _PROGRAM, *map(str, arguments)]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        ended = subprocess.run(
            command, input=text, capture_output=True, text=True, env=environment, check=False
        )
        assert ended.returncode == code, ended.stderr
        return ended

    return program


OPTIONS: dict[str, tuple[list[str], dict[str, Any]]] = {
    "beam": ([], {}),
    "n-best": (["--n-best", "3"], {"n_best": 3}),
    "samples": (["--sampling", "--seed", "4", "--top-p", "0.9"], {"sampling": True, "seed": 4, "top_p": 0.9}),
    "minimum Bayes risk": (["--sampling", "--mbr", "4"], {"sampling": True, "mbr": 4}),
    "rules": (
        ["--no-repeat-ngram-size", "1", "--repetition-penalty", "1.5", "--min-length", "4"],
        {"no_repeat_ngram_size": 1, "repetition_penalty": 1.5, "min_length": 4},
    ),
    "int8": (["--precision", "int8"], {}),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_translations_are_those_of_an_installation_with_pytorch(run: Run, toy_model: Path, name: str) -> None:
    flags, options = OPTIONS[name]
    translator = load_translator(toy_model, precision="int8" if name == "int8" else "float32")
    expected = [found.text for each in translator.stream(LINES.splitlines(), **options) for found in each]
    found = run("translate", toy_model, *flags).stdout.splitlines()
    assert [line.rpartition("\t")[2] for line in found] == expected


def test_an_ensemble_a_shortlist_prefixes_and_json_are_decoded_too(
    run: Run, toy_model: Path, toy_data: Path, tmp_path: Path
) -> None:
    assert run("translate", toy_model, toy_model).stdout == run("translate", toy_model).stdout
    run("shortlist", toy_data, "--out", tmp_path / "shortlist")
    assert len(run("translate", toy_model, "--shortlist", tmp_path / "shortlist").stdout.splitlines()) == 3
    first = run("translate", toy_model).stdout.split()[0]
    assert run("translate", toy_model, "--target-prefix", first).stdout.startswith(first)
    answer = run("translate", toy_model, "--jsonl", text='{"id": 7, "text": "sun sees moon"}\n').stdout
    assert json.loads(answer)["id"] == 7


def test_pairs_are_scored_trees_parsed_and_corpora_prepared(
    run: Run, toy_model: Path, toy_parser: Path, toy_text: Path, tmp_path: Path
) -> None:
    source, target = (toy_text / f"valid.{language}" for language in ("en", "toy"))
    assert len(run("score", toy_model, "--source", source, "--target", target).stdout.splitlines()) > 1
    assert run("evaluate", "--hypotheses", target, "--reference", target).stdout.startswith("BLEU 100")
    assert "ok" in run("verify", toy_model).stdout
    assert "gpu: none" in run("doctor").stdout
    run("prepare", tmp_path / "data", "--source", source, "--target", target, "--vocab-size", "270")
    words = "the dog sees a cat\n"
    expected = load_parser(toy_parser).parse([words.split()])[0].tree
    assert run("parse", toy_parser, "--tokenized", text=words).stdout.split() == str(expected).split()


def test_a_server_translates_and_leaves_alignments_out(toy_model: Path) -> None:
    require_kernels()
    serve = ["-c", _PROGRAM, "serve", "--direction", f"en-de={toy_model}", "--port", "0"]
    with subprocess.Popen([sys.executable, *serve], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        address = next(found[0] for line in process.stderr if (found := re.findall(r"http://[\d.:]+", line)))
        try:
            cases: list[dict[str, list[int]]] = [{}, {"alignment": []}]  # the page asks for alignments
            for aligned in cases:
                body = json.dumps(
                    {"text": "sun", "source": "en", "target": "de", "alignments": bool(aligned)}
                )
                request = urllib.request.Request(f"{address}/api/translate", body.encode())
                request.add_header("Content-Type", "application/json")
                with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
                    [result] = json.load(answer)["results"]
                [translation] = result["translations"]
                assert {name: translation[name] for name in aligned} == aligned
                assert translation["text"]
        finally:
            process.terminate()


def test_what_needs_pytorch_names_the_extra(
    run: Run, toy_model: Path, toy_data: Path, tmp_path: Path
) -> None:
    for arguments in (
        ["translate", toy_model, "--alignments"],
        ["train", tmp_path / "run", "--data", toy_data],
    ):
        told = run(*arguments, code=2).stderr
        assert "PyTorch, which is not installed: pip install 'allyouneed[train]'" in told
        assert len(told.splitlines()) == 1
