"""A separate environment for Confluent's client with its rules: `requirements/suites.txt`."""

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Final

from penstock.kafka.artifacts import cache_folder

_REQUIREMENTS: Final = Path(__file__).parents[2] / "requirements" / "suites.txt"


def python() -> Path:
    """Return the Python of the environment, which is made the first time."""
    digest = hashlib.sha256(_REQUIREMENTS.read_bytes()).hexdigest()[:16]
    folder = cache_folder() / "suites" / f"environment-{digest}"
    found = folder / "bin" / "python"
    made = folder / ".made"
    if not made.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        subprocess.run(
            [found, "-m", "pip", "install", "--quiet", "--require-hashes", "--no-deps",
             "--requirement", _REQUIREMENTS],
            check=True,
        )  # fmt: skip
        made.touch()
    return found
