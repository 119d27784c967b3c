"""Watches the processes of a gateway: their memory, and their number."""

import contextlib
import threading
from pathlib import Path

from tests.gateways import RunningGateway

_EVERY_S = 0.1
_OWN = ("Pss_Anon:", "Pss_Shmem:")


class Watchdog:
    """A context that records the maximum of memory and processes.

    Attributes:
        max_bytes: Memory of the gateway and its workers; shared pages are counted once.
        most_processes: The number of processes.
    """

    def __init__(self, gateway: RunningGateway) -> None:
        self._gateway = gateway
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.max_bytes = 0
        self.most_processes = 0

    def __enter__(self):
        self.begin_bytes = tree_bytes(self._gateway)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join(5)
        self._note()

    @property
    def grown_bytes(self) -> int:
        """Return the growth of memory from the start to the maximum."""
        return self.max_bytes - self.begin_bytes

    def _watch(self) -> None:
        while not self._ended.wait(_EVERY_S):
            self._note()

    def _note(self) -> None:
        with contextlib.suppress(FileNotFoundError):  # it has ended meanwhile
            self._note_now()

    def _note_now(self) -> None:
        if self._gateway.process.poll() is None:
            self.max_bytes = max(self.max_bytes, tree_bytes(self._gateway))
            self.most_processes = max(self.most_processes, 1 + len(self._gateway.workers()))


def tree_bytes(gateway: RunningGateway) -> int:
    """Return the current memory of the gateway's processes."""
    return sum(proportional_bytes(pid) for pid in [gateway.pid, *gateway.workers()])


def proportional_bytes(pid: int) -> int:
    """Return the memory of a process, with its part of shared memory; 0 if it has ended.

    Pages of files are left out: the share of the libraries grows when another process ends that
    has loaded them, such as the gateway of another test.
    """
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(_OWN))
