"""A command on stored records in its own processes, and the ways in which it is killed."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from tests.limits import HANGS_S

_WORKERS: Final = b"pyspark.worker"
_AWAY: Final = "cannot be reached"
_STARTS_MAX: Final = 5
CLUSTER_FAILED: Final = 3


class Attempt:
    """A command that has been started in its own session."""

    def __init__(self, arguments: Sequence[str], output: Path) -> None:
        self._output = output
        with output.open("wb") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "penstock", *arguments],
                stdout=file, stderr=subprocess.STDOUT, start_new_session=True,
                env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
            )  # fmt: skip

    @property
    def has_ended(self) -> bool:
        return self.process.poll() is not None

    @property
    def text(self) -> str:
        return self._output.read_text(errors="replace")

    def wait(self) -> int:
        """Wait for its end; return the exit code."""
        try:
            return self.process.wait(HANGS_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.process.args} hangs:\n{self.text}") from None

    def signal_all(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def processes(self) -> dict[int, bytes]:
        """Return the command lines of its processes, by process id."""
        found = {}
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if os.getsid(int(process.name)) == self.process.pid:
                    found[int(process.name)] = (process / "cmdline").read_bytes()
        return found

    def kill(self, chosen: Sequence[int]) -> None:
        for number in chosen:
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)


def kill_all(attempt: Attempt, _: random.Random) -> None:
    """All processes at the same moment, as if the machine had lost its power."""
    attempt.signal_all(signal.SIGKILL)


def kill_driver(attempt: Attempt, _: random.Random) -> None:
    """Only the command: Spark's JVM and its Python workers continue for a moment."""
    attempt.kill([attempt.process.pid])


def kill_jvm(attempt: Attempt, _: random.Random) -> None:
    """Only the JVM, if there is a JVM yet: the driver of Spark and, with local[N], its executor."""
    attempt.kill([pid for pid, line in attempt.processes().items() if b"SparkSubmit" in line])


def kill_tasks(attempt: Attempt, chance: random.Random) -> None:
    """One to three Python workers, one after the other; Spark runs their tasks again."""
    for _ in range(chance.randrange(1, 4)):
        workers = [pid for pid, line in attempt.processes().items() if _WORKERS in line]
        if workers:
            attempt.kill([chance.choice(workers)])
        time.sleep(chance.uniform(0, 1))


KILLS_ON_SPARK: Final = (kill_all, kill_driver, kill_jvm, kill_tasks)
KILLS_LOCALLY: Final = (kill_all,)


class Job:
    """A command that is killed, paused, replaced, and finally left alone."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        is_local: bool,
        folder: Path,
        chance: random.Random,
        written: Callable[[], int],
    ) -> None:
        self._arguments = [*arguments, *(["--local"] if is_local else ["--master", "local[2,4]"])]
        self._kills = KILLS_LOCALLY if is_local else KILLS_ON_SPARK
        self._folder, self._chance, self._written = folder, chance, written
        self._attempts: list[Attempt] = []
        self.done: list[str] = []
        """The attacks on it so far, for messages."""

    def run(self, attacks: int) -> str:
        """Start it again after each attack until it ends in order; return its output."""
        try:
            for _ in range(attacks):
                attempt = self._start()
                self._wait_for_a_moment(attempt)
                self._chance.choice((self._kill, self._kill, self._replace))(attempt)
            return self._run_to_end().text
        finally:
            for attempt in self._attempts:
                attempt.signal_all(signal.SIGKILL)
                attempt.process.wait()

    def _start(self) -> Attempt:
        attempt = Attempt(self._arguments, self._folder / f"attempt-{len(self._attempts)}.txt")
        self._attempts.append(attempt)
        return attempt

    def _wait_for_a_moment(self, attempt: Attempt) -> None:
        """Wait for any moment of its start, or of its writing."""
        if self._chance.random() < 0.2:
            time.sleep(self._chance.uniform(0, 8))
            return
        before, deadline = self._written(), time.monotonic() + HANGS_S
        while not attempt.has_ended and self._written() == before:
            assert time.monotonic() < deadline, f"writes nothing after {self.done}: {attempt.text}"
            time.sleep(0.1)
        time.sleep(self._chance.uniform(0, 1.5))

    def _kill(self, attempt: Attempt) -> None:
        kill = self._chance.choice(self._kills)
        if attempt.has_ended:
            self.done.append("ended before")
            self._expect(attempt, {0})
            return
        kill(attempt, self._chance)
        self.done.append(kill.__name__)
        if kill is kill_jvm:
            self._expect(attempt, {0, CLUSTER_FAILED})
        elif kill is kill_tasks:
            self._expect(attempt, {0})

    def _replace(self, attempt: Attempt) -> None:
        """Pause it, run the command to its end, and let the paused attempt continue."""
        attempt.signal_all(signal.SIGSTOP)
        self.done.append("paused and replaced")
        self._run_to_end()
        attempt.signal_all(signal.SIGCONT)
        self._expect(attempt, {0, CLUSTER_FAILED})

    def _run_to_end(self) -> Attempt:
        """Run the command; again if a broker that has just been stopped keeps it from beginning."""
        for _ in range(_STARTS_MAX):
            attempt = self._start()
            if attempt.wait() != CLUSTER_FAILED or _AWAY not in attempt.text:
                break
            self.done.append("cluster away")
        self._expect(attempt, {0})
        return attempt

    def _expect(self, attempt: Attempt, codes: set[int]) -> None:
        code = attempt.wait()
        assert code in codes, f"exit code {code} after {self.done}:\n{attempt.text}"
        assert "Traceback" not in attempt.text, f"after {self.done}:\n{attempt.text}"
