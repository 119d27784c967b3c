"""Keeps what policies print in the process of a command out of its results."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_OUTPUT: Final = 1
_ERROR: Final = 2


@contextlib.contextmanager
def policies_run() -> Iterator[None]:
    """Have what policies and their processes print inside a `with` block on standard error."""
    with contextlib.redirect_stdout(sys.stderr), _output_is_error():
        yield


@contextlib.contextmanager
def _output_is_error() -> Iterator[None]:
    """Replace the descriptor, which processes inherit and C code writes to."""
    try:
        saved_descriptor = os.dup(_OUTPUT)
    except OSError:  # it is closed
        yield
        return
    try:
        with contextlib.suppress(OSError):
            os.dup2(_ERROR, _OUTPUT)
        yield
    finally:
        os.dup2(saved_descriptor, _OUTPUT)
        os.close(saved_descriptor)
