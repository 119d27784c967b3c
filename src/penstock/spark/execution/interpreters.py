"""Checks the interpreter of Spark's Python workers before a job ends in their tracebacks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.configuration import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CODE: Final = (
    "import sys, penstock.spark.evaluation; print('{}.{}'.format(*sys.version_info), end='')"
)
_STARTS_WITHIN_S: Final = 120.0
_HERE: Final = "local"


def check_workers(spark: SparkSession) -> None:
    """Check that the workers of a session on this machine can run policies.

    Which interpreter executors elsewhere have is not known here.

    Raises:
        ConfigurationError: They use another interpreter, without Penstock or of another version.
    """
    context: Any = getattr(spark, "_sc", None)  # none with Spark Connect
    if context is None or not str(context.master).startswith(_HERE):
        return
    problem = _problem(str(context.pythonExec))
    if problem:
        raise ConfigurationError(
            f"Spark's Python workers use {context.pythonExec}, which {problem}: create the session "
            "with penstock.spark.SETTINGS, or set PYSPARK_PYTHON before, to "
            f"{sys.executable}"
        )


@lru_cache
def _problem(python: str) -> str:
    """Return what is wrong with an interpreter; empty if policies can run there."""
    program = shutil.which(python)
    if program is None:
        return "does not exist"
    if _is_ours(Path(program)):
        return ""
    try:
        process = subprocess.run(
            [program, "-c", _CODE],
            capture_output=True,
            text=True,
            timeout=_STARTS_WITHIN_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not start ({type(error).__name__})"
    if process.returncode:
        lines = process.stderr.strip().splitlines()
        return f"cannot import Penstock ({lines[-1] if lines else process.returncode})"
    own = "{}.{}".format(*sys.version_info)
    return "" if process.stdout == own else f"is Python {process.stdout} and not {own}"


def _is_ours(path: Path) -> bool:
    own_program = Path(sys.executable)
    return path == own_program or (
        path.parent == own_program.parent
        and os.path.realpath(path) == os.path.realpath(own_program)
    )
