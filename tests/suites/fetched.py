"""Fetches the sources of suites, by name, exact version and sum, through pip."""

import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Final

from penstock.kafka.artifacts import cache_folder
from tests.conformance.commands import BuildError
from tests.conformance.fetched import check

FOLDER: Final = "suites"
_FETCH_S: Final = 600


def sdist(name: str, version: str, sum_: str) -> Path:
    """Return the folder of a source distribution's files, fetching it the first time.

    Args:
        name: The package.
        version: Exactly this version.
        sum_: The SHA-256 sum of its `.tar.gz` file.

    Raises:
        BuildError: It cannot be fetched, or is not what it was when its sum was taken.
    """
    folder = cache_folder() / FOLDER
    copy = folder / f"{name}-{version}"
    if copy.is_dir():
        return copy
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{copy.name}.tar.gz"
    if not file.exists():
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"),
                *("--no-binary", name, "--dest", str(folder), f"{name}=={version}"),
            ],
            capture_output=True, text=True, check=False, timeout=_FETCH_S,
        )  # fmt: skip
        if done.returncode:
            raise BuildError(f"{name} {version} cannot be fetched: {done.stderr.strip()}")
    check(file, sum_)
    fresh = folder / f"{copy.name}.new"
    with tarfile.open(file) as archive:
        archive.extractall(fresh, filter="data")
    (fresh / copy.name).rename(copy)
    fresh.rmdir()
    return copy
