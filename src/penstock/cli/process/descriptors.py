"""How many files and connections a command may have open."""

from __future__ import annotations

import contextlib
import resource
from typing import Final

from penstock.cli.failures import CommandError

LEAST: Final = 128
"""For the workers and the cluster; the rest is for clients."""


def raise_descriptor_limit() -> None:
    """Allow as many file descriptors as the process may have, as Java does.

    What a shell or a service manager sets by default, often 1,024, is meant for programs that
    use select(). A client of the gateway takes two.

    Raises:
        CommandError: It may have too few.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # a system that wants a number
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < LEAST:
        raise CommandError(
            f"only {soft} file descriptors are allowed; the gateway needs {LEAST} or more, and two "
            "for each client: LimitNOFILE, ulimit -n"
        )
