"""The steps of a command that takes a while to start, and how long each of them took."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from penstock.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Iterator


class StepLines:
    """Prints a line when a step begins and another line when it has ended.

    A step that takes long shows its seconds on standard error; see `Progress`.
    """

    def __init__(self) -> None:
        self._progress = Progress()

    @contextlib.contextmanager
    def step(self, what: str) -> Iterator[None]:
        """Show a step inside a `with` block. A step that raises has no second line.

        Args:
            what: The work, such as `starting Kafka`.
        """
        print(f"{what} ...", flush=True)
        began = time.monotonic()
        with self._progress.phase(what):
            yield
        print(f"  done in {time.monotonic() - began:.1f} s", flush=True)
