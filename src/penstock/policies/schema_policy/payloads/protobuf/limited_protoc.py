"""Run by `protoc.py` as a separate process: protoc, with limits that it cannot exceed.

The arguments are the folder of grpc_tools, the limits in bytes of memory, seconds of CPU and bytes
of a file, and then what protoc gets. Nothing of penstock is imported: an isolated Python need not
find it.
"""

import contextlib
import ctypes
import resource
import signal
import sys

_PR_SET_PDEATHSIG = 1
"""prctl(2)."""


def main() -> int:
    """Set the limits, then compile; return protoc's exit code."""
    # A worker that is killed meanwhile leaves no process behind; only Linux has this.
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    folder, memory, seconds, file_bytes, *arguments = sys.argv[1:]
    for limit, value in (
        (resource.RLIMIT_AS, int(memory)),
        (resource.RLIMIT_CPU, int(seconds)),
        (resource.RLIMIT_FSIZE, int(file_bytes)),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(limit)
        lower = value if hard == resource.RLIM_INFINITY else min(value, hard)
        # Of the two limits of CPU time, the lower ends a process with a distinct signal.
        resource.setrlimit(limit, (lower, hard if limit == resource.RLIMIT_CPU else lower))
    sys.path.append(folder)  # an isolated Python does not see PYTHONPATH
    from grpc_tools import protoc  # noqa: PLC0415 - within the limits

    return int(protoc.main(["protoc", *arguments]))


if __name__ == "__main__":
    sys.exit(main())
