"""How many files and connections a command may have open."""

from __future__ import annotations

import contextlib
import resource


def raise_descriptor_limit() -> None:
    """Allow as many file descriptors as the process may have, as Java does.

    What a shell or a service manager sets by default, often 1,024, is meant for programs that
    use select(). A client of the gateway takes two.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # a system that wants a number
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
