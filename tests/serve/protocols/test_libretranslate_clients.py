"""Unmodified clients of LibreTranslate, and LibreTranslate's own tests, on the server."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from libretranslatepy import LibreTranslateAPI
from tests.serve.conftest import SETTINGS
from tests.serve.protocols.conftest import Offline, Serve
from tests.serve.protocols.run_libretranslate_tests import run

SPANISH = "dos perros corren por la playa con una pelota roja"


@pytest.fixture(scope="module")
def url(serve: Serve) -> Iterator[str]:
    with serve(SETTINGS) as client:
        yield str(client.base_url)


def test_the_python_client_translates_detects_and_lists_languages(url: str, offline: Offline) -> None:
    api = LibreTranslateAPI(url)
    assert api.translate("sun moon", "en", "es") == offline("sun moon")
    assert api.detect(SPANISH)[0]["language"] == "es"
    assert api.languages() == [
        {"code": "de", "name": "German", "targets": ["de"]},
        {"code": "en", "name": "English", "targets": ["de", "en", "es", "pt-BR"]},
        {"code": "es", "name": "Spanish", "targets": ["de", "en", "es", "pt-BR"]},
        {"code": "pt-BR", "name": "Portuguese (Brazil)", "targets": ["pt-BR"]},
    ]


JAVASCRIPT = """
import libre from "libretranslate";
import translate from "translate";

const url = process.argv[2];
translate.engine = "libre";
translate.url = url + "translate";
console.log(JSON.stringify([
  await libre.translate({query: "sun moon", source: "en", target: "es", apiurl: url.replace(/[/]$/, "")}),
  await translate("star", {from: "en", to: "es"}),
  await translate("star", {from: "en", to: "fr"}).catch((error) => error.message),
]));
"""


@pytest.mark.release
def test_two_clients_of_npm_translate(url: str, offline: Offline, tmp_path: Path) -> None:
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        pytest.skip("NOT RUN: needs npm and node")
    install = [npm, "install", "--ignore-scripts", "--no-audit", "libretranslate@1.0.1", "translate@3.1.0"]
    installed = subprocess.run(install, cwd=tmp_path, capture_output=True, text=True, check=False)
    if installed.returncode:
        pytest.skip(f"NOT RUN: needs npm's registry: {installed.stderr[-300:]}")
    (tmp_path / "clients.mjs").write_text(JAVASCRIPT)
    ran = subprocess.run(
        [node, "clients.mjs", f"{url.rstrip('/')}/"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == [offline("sun moon"), offline("star"), "fr is not supported"]


@pytest.mark.release
def test_libretranslates_own_tests_pass(url: str, tmp_path: Path) -> None:
    fetch = ["download", "--no-deps", "--no-binary", ":all:", "--no-build-isolation", "libretranslate==1.9.6"]
    fetched = subprocess.run(
        [sys.executable, "-m", "pip", *fetch], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    if fetched.returncode:
        pytest.skip(f"NOT RUN: needs a package index: {fetched.stderr[-300:]}")
    subprocess.run(["tar", "-xzf", "libretranslate-1.9.6.tar.gz"], cwd=tmp_path, check=True)
    result = run(tmp_path / "libretranslate-1.9.6", url)
    assert result.returncode == 0, result.stdout
    assert "14 passed" in result.stdout
