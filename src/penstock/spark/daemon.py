"""Spark's daemon for Python workers, without the traceback of each worker that loses its JVM.

Spark starts it with `python -m`, by the setting `spark.python.daemon.module`. The command reports
the end of its JVM. On a master such as `local[2]`, what workers print is on the same terminal.
"""

from __future__ import annotations

import sys
import traceback
from types import SimpleNamespace
from typing import Final

from pyspark import daemon

_LOST: Final = (ConnectionError, EOFError)


def is_lost_connection(error: BaseException | None) -> bool:
    """Return whether an error results from nothing but the end of a worker's connection."""
    if not isinstance(error, _LOST):
        return False
    cause = error.__cause__ or error.__context__
    return cause is None or is_lost_connection(cause)


def print_exception() -> None:
    """Print the traceback of the exception that is handled, unless its connection is lost.

    PySpark sends the exceptions of policies over the connection; only others come here.
    """
    if not is_lost_connection(sys.exc_info()[1]):
        traceback.print_exc()


def main() -> None:
    """Run PySpark's daemon, which forks a process for each worker, until its JVM ends it."""
    # No other function of the module is replaced: how workers end differs between versions.
    vars(daemon)["traceback"] = SimpleNamespace(
        print_exc=print_exception, format_exc=traceback.format_exc
    )
    daemon.manager()


if __name__ == "__main__":
    main()
