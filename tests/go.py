"""Compiles a Go program of tests/interop, by default one with franz-go, and returns its command line."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from penstock.kafka.artifacts import cache_folder

_MODULES: Final = Path(__file__).parent / "interop"
_BUILD_S: Final = 1500
"""How long a module with many packages may take the first time."""


def has_go() -> bool:
    """Return whether Go programs can be compiled here."""
    return shutil.which("go") is not None


def go_program(name: str, package: str = "", *, module: str = "go") -> list[str]:
    """Compile a program; return its command line.

    Args:
        name: The file to compile to.
        package: The package in the module; by default the package `name`.
        module: The folder of the module.
    """
    cache = cache_folder()
    compiled = cache / "interop-go" / name
    subprocess.run(
        ["go", "build", "-modcacherw", "-o", str(compiled), package or f"./{name}"],
        cwd=_MODULES / module,
        env={**os.environ, "GOMODCACHE": str(cache / "go-mod"), "GOCACHE": str(cache / "go-build")},
        check=True,
        timeout=_BUILD_S,
    )
    return [str(compiled)]
