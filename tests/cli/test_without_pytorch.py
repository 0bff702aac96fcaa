"""What a small installation does without PyTorch: with it hidden, and in an environment made of the wheel."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.interop.foreign_models import argos_package, convert_to_ctranslate2, make_marian_folder
from tests.kernels import require_kernels
from tests.native.test_wheel import build
from tests.packages import require_packages
from tests.patience import PATIENCE_SECONDS

from allyouneed.cli.program import main
from allyouneed.interop.importing import import_model
from allyouneed.runs.loading import load_parser, load_translator

_HIDDEN = """
import sys
sys.modules["torch"] = sys.modules["matplotlib"] = None  # as if they were not installed
from allyouneed.cli.program import run
run()
"""
MARIAN = Path(__file__).parents[1] / "interop" / "fixtures" / "marian"
LINES = "sun sees moon\nmoon sees sun\nsun\n"

Program = list[str]
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """The program of an environment with the wheel and what serving and importing need."""
    require_packages("hatchling", "pip")
    if sys.platform != "linux" or shutil.which("gcc") is None:
        pytest.skip("NOT RUN: needs gcc on Linux")
    folder = tmp_path_factory.mktemp("small")
    wheel = build(folder / "dist", HATCH_BUILD_HOOK_ENABLE_CUSTOM="true")
    python = folder / "environment" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", folder / "environment"], check=True)
    install = [str(python), "-m", "pip", "install", "--quiet", f"{wheel}[serve,marian]"]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"NOT RUN: needs a package index: {done.stderr[-300:]}")
    imported = subprocess.run([python, "-c", "import torch"], capture_output=True, check=False)
    assert b"No module named 'torch'" in imported.stderr
    return [str(python.with_name("allyouneed"))]


@pytest.fixture(params=["hidden", pytest.param("installed", marks=pytest.mark.release)])
def program(request: pytest.FixtureRequest) -> Program:
    """The program without PyTorch and Matplotlib."""
    require_kernels()
    if request.param == "hidden":
        return [sys.executable, "-c", _HIDDEN]
    found: Program = request.getfixturevalue("installed")
    return found


def environment(program: Program) -> dict[str, str]:
    """The environment variables of a program; one that is installed does not find the code of this folder."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH" or len(program) > 1}
    return kept | {"OMP_NUM_THREADS": "1"}


@pytest.fixture
def run(program: Program) -> Run:
    """Runs the program."""

    def ran(*arguments: str | Path, text: str = LINES, code: int = 0) -> "subprocess.CompletedProcess[str]":
        command = [*program, *map(str, arguments)]
        variables = environment(program)
        ended = subprocess.run(
            command, input=text, capture_output=True, text=True, env=variables, check=False
        )
        assert ended.returncode == code, ended.stderr
        return ended

    return ran


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


def test_a_model_is_rounded_and_translates(run: Run, toy_model: Path, tmp_path: Path) -> None:
    run("copy", toy_model, tmp_path / "small", "--precision", "int8")
    translator = load_translator(tmp_path / "small")
    expected = [translation.text for translation in translator.translate(LINES.splitlines())]
    assert run("translate", tmp_path / "small").stdout.splitlines() == expected


def test_translations_are_written_to_files(run: Run, toy_model: Path, tmp_path: Path) -> None:
    expected = run("translate", toy_model).stdout
    run("translate", toy_model, "--resume-output", tmp_path / "whole")
    assert (tmp_path / "whole").read_text() == expected
    run("translate", toy_model, "--parts", tmp_path / "parts")
    [part] = [each for each in (tmp_path / "parts").iterdir() if each.read_text() == expected]
    assert part.name.startswith("part-")


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


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Models of other software, by format."""
    require_packages("sentencepiece", "transformers", "ctranslate2", "yaml")
    folder = tmp_path_factory.mktemp("foreign")
    (folder / "marian").mkdir()
    for file in ("swish.npz", "vocab.spm"):
        shutil.copy(MARIAN / file, folder / "marian")
    opus = make_marian_folder(folder / "opus")
    return {
        "huggingface": opus,
        "marian": folder / "marian",
        "ctranslate2": convert_to_ctranslate2(opus, folder / "bfloat16", "bfloat16"),
        "argos": argos_package(opus, folder),
    }


@pytest.mark.parametrize("form", ["huggingface", "marian", "ctranslate2", "argos"])
def test_models_of_other_software_are_imported_to_the_same_bytes(
    run: Run, foreign: dict[str, Path], form: str, tmp_path: Path
) -> None:
    said = run("import", foreign[form], tmp_path / "small").stdout
    assert f"({form})" in said
    assert form in ("ctranslate2", "argos") or "not proved" in said
    import_model(foreign[form], tmp_path / "whole")
    files = sorted(each.name for each in (tmp_path / "whole").iterdir() if each.name != "MANIFEST.json")
    small, whole = ([(tmp_path / made / name).read_bytes() for name in files] for made in ("small", "whole"))
    assert small == whole
    texts = [each.text for each in load_translator(tmp_path / "whole").translate(["sun", "moon"])]
    assert run("translate", tmp_path / "small", text="sun\nmoon\n").stdout.splitlines() == texts


def test_a_pickle_is_refused_with_the_extra_that_rewrites_it(run: Run, tmp_path: Path) -> None:
    for name in ("config.json", "pytorch_model.bin"):
        (tmp_path / name).write_bytes(b"{}")
    told = run("import", tmp_path, tmp_path / "model", code=4).stderr
    assert "pip install 'allyouneed[huggingface]'" in told
    assert len(told.splitlines()) == 1


@pytest.mark.parametrize("options", [["--all"], ["--preset", "big", "--tflops", "300", "--json"]])
def test_runs_are_planned(run: Run, options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", *options]) == 0
    assert run("plan", *options).stdout == capsys.readouterr().out


_WITHOUT_NEED = """
import sys
sys.modules["transformers"] = None
from allyouneed.cli.program import main
assert main(sys.argv[1:]) == 0
assert "torch" not in sys.modules
"""


def test_where_pytorch_is_installed_plans_and_imports_do_not_load_it(
    foreign: dict[str, Path], tmp_path: Path
) -> None:
    require_kernels()
    imports = [["import", str(foreign[form]), str(tmp_path / form)] for form in ("huggingface", "marian")]
    for arguments in (["plan", "--all"], *imports):
        command = [sys.executable, "-c", _WITHOUT_NEED, *arguments]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)


@contextlib.contextmanager
def serving(program: Program, model: Path) -> Iterator[str]:
    """The address of a server of a model from English to German."""
    command = [*program, "serve", "--direction", f"en-de={model}", "--port", "0"]
    variables = environment(program)
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=variables) as process:
        assert process.stderr is not None
        try:
            yield next(found[0] for line in process.stderr if (found := re.findall(r"http://[\d.:]+", line)))
        finally:
            process.terminate()


def test_words_are_aligned_and_documents_translated(run: Run, toy_model: Path) -> None:
    [translator] = [load_translator(toy_model)]
    document = "<p>sun <b>sees</b> moon</p>"
    for arguments, text, expected in (
        (["--markup", "html"], document, translator.translate([document], markup="html")[0].text),
        (["--alignments"], "sun sees moon\n", None),
    ):
        found = run("translate", toy_model, *arguments, text=text).stdout
        assert found == expected or (expected is None and "0-" in found.split("\t")[1])


def test_a_server_translates_and_aligns(program: Program, toy_model: Path) -> None:
    with serving(program, toy_model) as address:
        for aligned in (False, True):  # the page asks for alignments
            body = json.dumps({"text": "sun", "source": "en", "target": "de", "alignments": aligned})
            request = urllib.request.Request(f"{address}/api/translate", body.encode())
            request.add_header("Content-Type", "application/json")
            with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
                [result] = json.load(answer)["results"]
            [translation] = result["translations"]
            assert ("alignment" in translation) is aligned
            assert translation["text"]


def test_a_server_answers_unmodified_clients(program: Program, toy_model: Path) -> None:
    require_packages("deepl", "libretranslatepy", "openai")
    import deepl
    import openai
    from libretranslatepy import LibreTranslateAPI

    with serving(program, toy_model) as address:
        with contextlib.closing(deepl.DeepLClient("any-key", server_url=address)) as client:
            answer = client.translate_text("sun sees moon", source_lang="EN", target_lang="DE")
            assert isinstance(answer, deepl.TextResult)
        with openai.OpenAI(base_url=f"{address}/v1", api_key="any", timeout=PATIENCE_SECONDS) as chat:
            completion = chat.chat.completions.create(
                model="en-de", messages=[{"role": "user", "content": "sun sees moon"}]
            )
        found = {
            answer.text,
            completion.choices[0].message.content,
            LibreTranslateAPI(f"{address}/").translate("sun sees moon", "en", "de"),
        }
    assert found == {load_translator(toy_model).translate(["sun sees moon"])[0].text}


def test_what_needs_pytorch_names_the_extra(
    run: Run, toy_model: Path, toy_data: Path, tmp_path: Path
) -> None:
    for arguments in (
        ["attend", toy_model, "sun"],
        ["train", tmp_path / "run", "--data", toy_data],
    ):
        told = run(*arguments, code=2).stderr
        assert "PyTorch, which is not installed: pip install 'allyouneed[train]'" in told
        assert len(told.splitlines()) == 1
