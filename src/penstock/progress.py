"""Shows the work of a command, from its first second on, on standard error.

On a terminal a line with a bar, which is redrawn; elsewhere a line every ten seconds.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LINE_EVERY_S: Final = 10.0
"""How often a line is written where there is no terminal."""
WAITING_S: Final = 3.0
"""After what time a command reports what it waits for."""
_DRAWN_EVERY_S: Final = 0.3
_RATE_OVER_S: Final = 30.0
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86400


class Pace:
    """How many records are done, how fast, and how long the rest takes.

    The rate is that of the last half minute, since a job is slow while it starts.
    """

    def __init__(self, total: int | None, now: float) -> None:
        """Start.

        Args:
            total: How many records there are at most; None where it is not known.
            now: The time, in seconds.
        """
        self.total = total
        self.done = 0
        self._seen = deque([(now, 0)])

    def update(self, count: int, now: float) -> None:
        """Take note of how many records are done; never fewer than before."""
        self.done = max(count, self.done)
        self._seen.append((now, self.done))
        while len(self._seen) > 2 and now - self._seen[1][0] >= _RATE_OVER_S:
            self._seen.popleft()

    @property
    def rate(self) -> float:
        """Records a second."""
        (then, first_count), (now, last_count) = self._seen[0], self._seen[-1]
        return (last_count - first_count) / (now - then) if now > then else 0.0

    @property
    def left_s(self) -> float | None:
        """How many seconds the rest takes at this rate; None where that is not known."""
        if self.total is None or not self.rate or self.done >= self.total:
            return None
        return (self.total - self.done) / self.rate

    def __str__(self) -> str:
        if not self.done:
            return "no record yet"
        if self.total is None:
            return f"{self.done:,} records, {self.rate:,.0f} a second"
        if self.done >= self.total:
            return f"all {self.total:,} records are read"
        text = f"{self.done:,} of {self.total:,} records ({self.done / self.total:.1%})"
        remaining_time = "" if self.left_s is None else f", {duration(self.left_s)} left"
        return f"{text}, {self.rate:,.0f} a second{remaining_time}"


class Phase:
    """Something that a command does for a while."""

    def __init__(self, what: str, counter: Callable[[], int] | None, total: int | None) -> None:
        """Start.

        Args:
            what: The current work, such as `judging orders`.
            counter: Returns how many records are done; None for work that is not about records.
            total: The maximum number; None if it is not known.
        """
        self._what = what
        self._done = counter
        self._began = time.monotonic()
        self.pace = Pace(total, self._began)

    def line(self) -> str:
        """Return the current line."""
        now = time.monotonic()
        elapsed = duration(now - self._began)
        if self._done is None:
            return f"{self._what}: {elapsed}"
        self.pace.update(self._done(), now)
        return f"{self._what}: {self.pace}, {elapsed} so far"


class Progress:
    """Shows the phases of a command, in sequence."""

    def __init__(self, every_s: float = LINE_EVERY_S) -> None:
        """Prepare.

        Args:
            every_s: How often a line is written where there is no terminal.
        """
        self._every_s = every_s
        self._next_line = time.monotonic() + every_s

    @contextlib.contextmanager
    def phase(
        self, what: str, counter: Callable[[], int] | None = None, total: int | None = None
    ) -> Iterator[None]:
        """Show the work inside a `with` block.

        Args:
            what: The current work, such as `judging orders`.
            counter: Returns how many records are done. Called in a separate thread, a few
                times a second. None for work that is not about records.
            total: The maximum number; None if it is not known.
        """
        ended = threading.Event()
        show = self._draw if sys.stderr.isatty() else self._write
        thread = threading.Thread(
            target=show, args=(Phase(what, counter, total), ended), name="progress", daemon=True
        )
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join(5)

    def _draw(self, phase: Phase, ended: threading.Event) -> None:
        # Imported here: an extra, which is not needed without a terminal.
        from rich.console import Console  # noqa: PLC0415
        from rich.progress import BarColumn, TextColumn  # noqa: PLC0415
        from rich.progress import Progress as Drawn  # noqa: PLC0415

        columns = (BarColumn(bar_width=20), TextColumn("{task.description}", markup=False))
        drawn = Drawn(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False)
        with drawn:
            task = drawn.add_task(phase.line(), total=phase.pace.total)
            while not ended.wait(_DRAWN_EVERY_S):
                drawn.update(task, description=phase.line(), completed=phase.pace.done)

    def _write(self, phase: Phase, ended: threading.Event) -> None:
        while not ended.wait(max(0.0, self._next_line - time.monotonic())):
            sys.stderr.write(f"{phase.line()}\n")
            sys.stderr.flush()
            self._next_line = time.monotonic() + self._every_s


@contextlib.contextmanager
def waiting(what: str, after_s: float | None = None) -> Iterator[None]:
    """Report on standard error that a `with` block takes long, if it does.

    Args:
        what: The work, and when it ends.
        after_s: When to say it; None for `WAITING_S`.
    """
    timer = threading.Timer(
        WAITING_S if after_s is None else after_s, lambda: sys.stderr.write(f"{what}\n")
    )
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def duration(seconds: float) -> str:
    """Return a duration in its two largest units."""
    whole = round(seconds)
    if whole < _MINUTE_S:
        return f"{whole} s"
    if whole < _HOUR_S:
        return f"{whole // _MINUTE_S} min {whole % _MINUTE_S} s"
    if whole < _DAY_S:
        return f"{whole // _HOUR_S} h {whole % _HOUR_S // _MINUTE_S} min"
    return f"{whole // _DAY_S} d {whole % _DAY_S // _HOUR_S} h"
