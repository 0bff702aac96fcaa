"""The page of ten minutes, typed as it stands, ends as it says; the installation is that of these tests."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "ten-minutes.md"


@pytest.mark.release
def test_what_is_typed_prints_what_is_shown(tmp_path: Path) -> None:
    page = PAGE.read_bytes().decode()
    typed = re.findall(r"^```\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    script = "\n".join(part for part in typed if not re.search("pip install|allyouneed serve|curl", part))
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=tmp_path,
        env=os.environ | {"PATH": path},
        stdout=subprocess.PIPE,
        check=True,
    )
    printed = done.stdout.decode()
    shown = re.findall(r"^```text\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(shown) == 3
    assert [line for part in shown for line in part.splitlines() if line not in printed] == []
