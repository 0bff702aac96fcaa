"""Runs LibreTranslate's own tests of its API against a server.

    python run_libretranslate_tests.py SOURCE URL [PYTEST OPTION ...]

SOURCE is LibreTranslate's source directory (`pip download --no-deps --no-binary :all: libretranslate`, and
unpack it). The server must translate from "en" to "es", as the tests demand. The tests are copied to a
temporary directory and run as they are; only their `client`, which calls LibreTranslate's application in the
process, is one that sends requests to URL. `test_init.py` is left out: it tests the download of models.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

_CLIENT = """
import os
from types import SimpleNamespace

import httpx
import pytest


@pytest.fixture()
def client():
    with httpx.Client(base_url=os.environ["SERVER_URL"], timeout=60) as http:

        def send(method, path, **body):
            response = http.request(method, path, **body)
            is_json = response.headers["Content-Type"].startswith("application/json")
            return SimpleNamespace(
                status_code=response.status_code,
                data=response.content,
                json=response.json() if is_json else None,
            )

        yield SimpleNamespace(
            get=lambda path, **body: send("GET", path, **body),
            post=lambda path, **body: send("POST", path, **body),
        )
"""


def run(source: Path, url: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the tests and return pytest's result."""
    with tempfile.TemporaryDirectory() as folder:
        copied = Path(folder) / "tests"
        shutil.copytree(source / "libretranslate" / "tests" / "test_api", copied)
        (copied / "conftest.py").write_text(_CLIENT)
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", *options, str(copied)],
            env={**os.environ, "SERVER_URL": url},
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )


if __name__ == "__main__":
    result = run(Path(sys.argv[1]), *sys.argv[2:])
    print(result.stdout, result.stderr)
    sys.exit(result.returncode)
