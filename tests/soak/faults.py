"""Causes the planned faults: each lane in its own thread."""

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tests.chaos.leaders import move_leaders
from tests.gateways import RunningGateway, wait_until
from tests.policies.schema_policy.fake_registry import Fault as RegistryFault
from tests.soak.diary import Diary
from tests.soak.plan import Fault
from tests.soak.stage import Gateway, Stage, policies
from tests.soak.topic_names import TOPICS
from tests.soak.topics import TopicChanges

_PAUSE_S = 4.0
"""The minimum pause between two faults of a lane. If the first took longer, the pause is as long:
a gateway that starts slowly is not stopped again before it has served a client."""
_ATTEMPTS = 5
_NO_CLUSTER = 3
_LONGEST_TEXT = 500
_RELOADED = "reloaded"
_NOT_RELOADED = "not reloaded, the old policies stay in force"


class Faults:
    """The faults of a stage."""

    def __init__(self, stage: Stage, diary: Diary, plan: Mapping[str, Sequence[Fault]]) -> None:
        self._stage = stage
        self._diary = diary
        self._over = threading.Event()
        self._plan = plan
        self._version = 0
        self.topics = TopicChanges(stage, diary)
        self._kinds: Mapping[str, Callable[[random.Random], str]] = {
            "stop a broker": lambda chance: self._broker(chance, kill=False),
            "kill a broker": lambda chance: self._broker(chance, kill=True),
            "move leaders": self._leaders,
            "stop a gateway": lambda chance: self._gateway(chance, kill=False),
            "kill a gateway": lambda chance: self._gateway(chance, kill=True),
            "kill a worker": self._worker,
            "cut all connections": self._cut_all,
            "cut some connections": self._cut_some,
            "reload": self._reload,
            "reload an invalid file": self._reload_invalid_file,
            "registry unreachable": self._registry_unreachable,
            "registry answers 503": self._registry_unavailable,
            "registry silent": lambda c: self._registry_fault(c, RegistryFault.SILENT),
            "registry hangs up": lambda c: self._registry_fault(c, RegistryFault.HANGS_UP),
            **self.topics.kinds,
        }
        self._threads = [
            threading.Thread(target=self._run, args=(faults,), name=lane)
            for lane, faults in plan.items()
        ]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Cause no further faults; wait for the end of faults in progress."""
        self._over.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    def _run(self, faults: Sequence[Fault]) -> None:
        earliest = 0.0
        for fault in faults:
            if self._over.wait(max(0.0, max(fault.at, earliest) - self._diary.seconds)):
                return
            began = time.monotonic()
            try:
                text = self._kinds[fault.kind](random.Random(fault.seed))
            except Exception as error:  # a fault that fails is evidence, and does not end the soak
                text = f"{fault.kind}: {type(error).__name__}: {error}"
                self._diary.find(text[:_LONGEST_TEXT])
                continue
            finally:
                earliest = self._diary.seconds + max(_PAUSE_S, time.monotonic() - began)
            self._diary.count(fault.kind)
            self._diary.log(f"{fault.kind}: {text} ({time.monotonic() - began:.1f} s)")

    def _broker(self, chance: random.Random, *, kill: bool) -> str:
        node = chance.choice(self._stage.cluster.nodes)
        if kill:
            node.kill()
        else:
            node.stop()
        self._over.wait(chance.uniform(0.5, 3))
        node.start()
        self._stage.wait_until_whole()
        return f"broker {node.node_id}, and all replicas in sync again"

    def _leaders(self, chance: random.Random) -> str:
        for _ in range(2):
            with suppress(OSError, EOFError):  # the first broker may be new
                move_leaders(self._stage.upstream, TOPICS, chance)
            self._over.wait(chance.uniform(0.3, 1.2))
        return "of all partitions"

    def _gateway(self, chance: random.Random, *, kill: bool) -> str:
        gateway = chance.choice([running for running in self._stage.gateways if not running.lasts])
        with gateway.lock:
            if kill:
                gateway.running.kill()
            else:
                code = gateway.running.stop()
                if code:
                    self._diary.find(f"{gateway.name} ended with {code} on SIGTERM")
            self._over.wait(chance.uniform(0, 3))
            attempts = start(gateway.running)
        return f"{gateway.name}, and started again{f' {attempts} times' if attempts > 1 else ''}"

    def _steady(self, chance: random.Random) -> Gateway:
        """Return a gateway that is not being stopped or started, if there is one."""
        drawn = chance.choice(self._stage.gateways)
        return self._stage.lasting if drawn.lock.locked() else drawn

    def _worker(self, chance: random.Random) -> str:
        gateway = self._steady(chance)
        with gateway.lock:
            workers: list[int] = []
            with suppress(OSError):  # one of its threads has ended
                workers = gateway.running.workers()
            if not workers:
                return "none runs now"
            worker = chance.choice(workers)
            with suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
        return f"process {worker} of {gateway.name}"

    def _cut_all(self, _: random.Random) -> str:
        self._stage.balancer.drop()
        return "between clients and gateways"

    def _cut_some(self, chance: random.Random) -> str:
        self._stage.balancer.drop_some(chance)
        return "between clients and gateways"

    def _reload(self, chance: random.Random) -> str:
        self._version += 1
        text = policies(self._version, chance.uniform(0.02, 0.3))
        names = []
        for gateway in self._stage.gateways:
            _replace(gateway.running.file.parent / "policies.py", text)
            if gateway.lock.acquire(blocking=False):  # another gateway starts, and reads it then
                try:
                    _hang_up(gateway, _RELOADED)
                finally:
                    gateway.lock.release()
                names.append(gateway.name)
        return (
            f"version {self._version} of the policies in {' and '.join(names) or 'none that runs'}"
        )

    def _reload_invalid_file(self, chance: random.Random) -> str:
        gateway = self._steady(chance)
        with gateway.lock:
            file = gateway.running.file
            good = file.read_text()
            file.write_text(good.replace("policies.Bad", "policies.Missing"))
            try:
                _hang_up(gateway, _NOT_RELOADED)
            finally:
                file.write_text(good)
        return f"{gateway.name} keeps the old policies"

    def _registry_unreachable(self, chance: random.Random) -> str:
        self._stage.registry.goes_away()
        self._over.wait(chance.uniform(2, 8))
        self._stage.registry.comes_back()
        return "and back"

    def _registry_unavailable(self, chance: random.Random) -> str:
        self._stage.registry.status = 503
        self._over.wait(chance.uniform(2, 8))
        self._stage.registry.status = None
        return "and well again"

    def _registry_fault(self, chance: random.Random, fault: RegistryFault) -> str:
        self._stage.registry.fault = fault
        self._over.wait(chance.uniform(2, 8))
        self._stage.registry.fault = None
        return "and well again"


def _replace(file: Path, text: str) -> None:
    """Write a file atomically: a gateway that reads it now gets the old or the new file."""
    whole = file.with_suffix(".new")
    whole.write_text(text)
    whole.replace(file)


def start(running: RunningGateway) -> int:
    """Start a gateway as a supervisor does: it ends with 3 if no broker responds in time.

    Returns:
        The number of attempts.

    Raises:
        AssertionError: It ended with another code, or too often.
    """
    attempt = 1
    while True:
        try:
            running.restart(kill=True)
        except AssertionError:
            if running.process.returncode != _NO_CLUSTER or attempt == _ATTEMPTS:
                raise
            attempt += 1
        else:
            return attempt


def _hang_up(gateway: Gateway, event: str) -> None:
    """Send SIGHUP; wait for the event in the log."""
    running = gateway.running
    before = len(running.events(event))
    running.process.send_signal(signal.SIGHUP)
    wait_until(lambda: len(running.events(event)) > before, 60, what=f"{gateway.name}: {event}")
