"""The program where it cannot run."""

import subprocess
import sys

WITHOUT_FCNTL = """
import sys
sys.modules["fcntl"] = None  # as on Windows
from allyouneed.__main__ import main
main()
"""


def test_on_a_system_without_file_locks_one_line_says_where_the_program_runs() -> None:
    ended = subprocess.run([sys.executable, "-c", WITHOUT_FCNTL], check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("allyouneed: error[E-USAGE]: runs on Linux and macOS; on Windows,")
    assert ended.stderr.count("\n") == 1
