"""Errors of the data source in one line: without the traceback that Spark adds to each.

A Python worker of Spark sends the traceback of the exception that ends it. If that is an error of
Penstock, its text explains what to correct, and the traceback hides it.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Final

from penstock.configuration import ConfigurationError
from penstock.engine.verdict import PostponedError
from penstock.errors import MalformedError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

_HIDE: Final = "SPARK_HIDE_TRACEBACK"
_WORKERS: Final = ("pyspark.", "penstock.spark.daemon")
_OURS: Final = (ConfigurationError, UnavailableError, MalformedError, PostponedError)


@contextlib.contextmanager
def in_one_line() -> Iterator[None]:
    """Let Spark show no traceback of Penstock's errors that end a worker in a `with` block.

    Other errors, such as those of a policy's module, keep theirs.
    """
    try:
        yield
    except _OURS:
        if _is_worker():
            os.environ[_HIDE] = "1"
        raise


def _is_worker() -> bool:
    """Return whether this process is a Python worker of Spark."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and str(spec.name).startswith(_WORKERS)
