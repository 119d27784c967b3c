"""The public interfaces to a type checker: what users write is right, and mistakes are found."""

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.system
@pytest.mark.parametrize("file", ["policies.py", "mistakes.py"])
def test_mypy_agrees(file, tmp_path):
    (tmp_path / file).write_text((HERE / file).read_text())
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir", tmp_path, file],
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
