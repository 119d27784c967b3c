"""The resources of gateways: memory, descriptors and threads, every few seconds."""

import os
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from penstock.gateway.produce.dead_letters.outgoing import CHANNELS
from tests.gateways import descriptors
from tests.soak.slopes import Tolerance
from tests.soak.stage import BROKERS, Stage

EVERY_S: Final = 2.0
MEMORY: Final = "memory (PSS), MiB"
RESIDENT: Final = "memory (RSS), MiB"
DESCRIPTORS: Final = "descriptors"
NO_SOCKETS: Final = "descriptors but sockets (*)"
THREADS: Final = "threads (*)"
WITHOUT: Final = "(*) without librdkafka's for brokers"
OF_WORKERS: Final = "memory of its workers (PSS), MiB"
TOLERANCES: Final = {
    MEMORY: Tolerance(8, 32),
    RESIDENT: Tolerance(8, 32),
    NO_SOCKETS: Tolerance(6, 6),
    THREADS: Tolerance(3, 6),
}
"""The number of sockets depends on the clients, until they have ended (`AT_REST`).

Each client of librdkafka has a thread for each broker that Metadata name, and ends it when they do
not: its next Metadata, minutes later, name the broker again. A broker that is unavailable in the
first half would look like growth in the second. The number of clients shows in their other threads.

Workers are killed, and start again with less: their memory is shown, and not judged."""
_POOL: Final = min(32, (os.cpu_count() or 1) + 4)
_DEAD_LETTERS: Final = 3 + (CHANNELS + 1) * BROKERS
AT_REST: Final = {DESCRIPTORS: 24 + _DEAD_LETTERS, THREADS: _POOL}
"""The permitted growth from before all clients to after them: a worker has three descriptors, and there
are up to four more than at first; the others are connections to brokers and the registry.
The first dead letter opens its own event loop and connections, which are closed when nothing
was sent over them for nine minutes. A leak for each connection of the clients would make hundreds.
The event loop's pool has so many threads at most, and keeps those that were needed once."""
_OF_BROKER: Final = "rdk:broker"
_DESCRIPTORS_OF_BROKER: Final = 2
"""The pipe that wakes up a thread."""
Series = dict[str, list[tuple[float, float]]]


def pss_mib(pid: int) -> float:
    """Return the memory of a process, with its part of shared memory."""
    return _smaps(pid, "Pss:") / 1024


def _smaps(pid: int, key: str) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1])
    return 0


def thread_names(pid: int) -> dict[str, int]:
    """Return how many threads of each name a process has; those of librdkafka have names."""
    names: Counter[str] = Counter()
    for file in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # ended since
            names[(file / "comm").read_text().strip()] += 1
    return dict(sorted(names.items()))


def _of_brokers(names: Mapping[str, int]) -> int:
    return sum(count for name, count in names.items() if name.startswith(_OF_BROKER))


def _no_sockets(pid: int) -> int:
    count = 0
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):  # closed since
            count += not str(file.readlink()).startswith("socket:")
    return count


class Samples:
    """Samples of every gateway, by process: a gateway that is started again is another process.

    Attributes:
        series: By the gateway's name and its process id.
    """

    def __init__(self, stage: Stage, file: Path) -> None:
        self._stage = stage
        self._file = file
        self._over = threading.Event()
        self._began = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="samples")
        self.series: dict[tuple[str, int], Series] = defaultdict(lambda: defaultdict(list))

    def start(self) -> None:
        """Start the thread."""
        self._began = time.monotonic()
        self._thread.start()

    def end(self) -> None:
        """Stop sampling."""
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join()

    def of_lasting(self) -> Series:
        """Return the samples of the gateway that lasts."""
        gateway = self._stage.lasting
        return self.series[gateway.name, gateway.running.pid]

    def _run(self) -> None:
        with self._file.open("w") as file:
            file.write("seconds,gateway,process,what,value\n")
            while not self._over.wait(EVERY_S):
                at = time.monotonic() - self._began
                for gateway in self._stage.gateways:
                    pid = gateway.running.pid
                    try:
                        found = now(gateway.running.workers(), pid)
                    except OSError:
                        continue  # it ends
                    for what, value in found.items():
                        self.series[gateway.name, pid][what].append((at, value))
                        file.write(f"{at:.1f},{gateway.name},{pid},{what},{value:.1f}\n")
                file.flush()


def now(workers: list[int], pid: int) -> dict[str, float]:
    """Return the current resources of a gateway.

    Raises:
        OSError: It has ended.
    """
    names = thread_names(pid)
    of_brokers = _of_brokers(names)
    found = {
        MEMORY: pss_mib(pid),
        RESIDENT: _smaps(pid, "Rss:") / 1024,
        DESCRIPTORS: float(descriptors(pid)),
        NO_SOCKETS: float(_no_sockets(pid) - _DESCRIPTORS_OF_BROKER * of_brokers),
        THREADS: float(sum(names.values()) - of_brokers),
    }
    of_workers = 0.0
    for worker in workers:
        try:
            of_workers += pss_mib(worker)
        except OSError:
            continue  # killed
    return found | {OF_WORKERS: of_workers}
