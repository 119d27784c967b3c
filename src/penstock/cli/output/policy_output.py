"""Keeps what policies print in the process of a command out of its results."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextlib import AbstractContextManager


def policies_run() -> AbstractContextManager[object]:
    """Have what policies print inside a `with` block on standard error."""
    return redirect_stdout(sys.stderr)
