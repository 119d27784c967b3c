"""How a task retries a policy that cannot decide now, before it fails.

Spark repeats a task at once, as often as in `spark.task.maxFailures`, and with a master
`local[N]` not at all: without a wait all attempts are spent in the second for which, for example,
`SchemaPolicy` leaves an unavailable registry alone. So an attempt retries its policies for a
while. After that, Spark repeats the task, or the user repeats the job.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, TypeVar

from penstock.engine.verdict import PostponedError

if TYPE_CHECKING:
    from collections.abc import Callable

FOR_S: Final = 10.0
"""How long an attempt of a task retries the same records. Far less than the time that a policy may
take in total (`spark.sql.execution.pyspark.udf.idleTimeoutSeconds`), and a transaction."""
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 1.0
_T = TypeVar("_T")


def _nothing() -> None:
    """Do nothing."""


def decided(
    judge: Callable[[], _T],
    for_s: float,
    *,
    beat: Callable[[], None] = _nothing,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> _T:
    """Return the verdicts of policies; retry for a while if they cannot decide now.

    Args:
        judge: Calls them; an exception other than a `PostponedError` ends the retries.
        for_s: How long they are retried, in seconds from the first time; 0: not at all.
        beat: Called before each pause; may raise, which ends the wait.
        clock: Returns seconds that never go back.
        sleep: Waits for seconds.

    Raises:
        PostponedError: They cannot decide even then.
    """
    deadline: float | None = None
    pause = _FIRST_PAUSE_S
    while True:
        try:
            return judge()
        except PostponedError:
            now = clock()
            deadline = now + for_s if deadline is None else deadline
            if now >= deadline:
                raise
        beat()
        sleep(min(pause, deadline - now))
        pause = min(2 * pause, _LONGEST_PAUSE_S)
