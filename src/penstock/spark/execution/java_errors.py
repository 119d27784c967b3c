"""Errors of Spark's JVM, as py4j raises them; a client that has only Spark Connect has no py4j."""

from __future__ import annotations

try:
    from py4j.protocol import Py4JError, Py4JJavaError
except ImportError:

    class Py4JError(Exception):  # type: ignore[no-redef]
        """Never raised."""

    class Py4JJavaError(Py4JError):  # type: ignore[no-redef,misc]
        """Never raised."""


__all__ = ["Py4JError", "Py4JJavaError"]
