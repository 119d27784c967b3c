"""Compiles a Go program of tests/interop/go, with franz-go, and returns its command line."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from penstock.artifacts import cache_folder

_MODULE: Final = Path(__file__).parent / "interop" / "go"


def has_go() -> bool:
    """Return whether Go programs can be compiled here."""
    return shutil.which("go") is not None


def go_program(name: str, package: str = "") -> list[str]:
    """Compile a program; return its command line.

    Args:
        name: The file to compile to.
        package: The package in the module; by default the package `name`.
    """
    cache = cache_folder()
    compiled = cache / "interop-go" / name
    subprocess.run(
        ["go", "build", "-modcacherw", "-o", str(compiled), package or f"./{name}"],
        cwd=_MODULE,
        env={**os.environ, "GOMODCACHE": str(cache / "go-mod"), "GOCACHE": str(cache / "go-build")},
        check=True,
        timeout=600,
    )
    return [str(compiled)]
