"""Processes that run the real code against a modelled cluster, one step at a time.

A process is a thread that stops at each request, at each pause, and where its code calls `stop`.
Only one of them runs at a time, until its next stop: the interleaving is that of the history. A
process that was killed makes no further request.
"""

import threading
from collections.abc import Callable
from enum import Enum, auto
from typing import Any

from kio.schema.errors import ErrorCode

from penstock.kafka.client.connections.metadata import PartitionLeader
from penstock.kafka.client.errors import BrokerUnreachableError
from tests.kafka.client.scripted import (
    ADD_OFFSETS,
    ADD_PARTITIONS,
    END,
    INIT,
    OFFSET_COMMIT,
    Pending,
    answer,
    offsets_committed,
    partitions_added,
)
from tests.kafka.client.settings import SETTINGS
from tests.spark.sink.penstock_format.modelled_cluster import Cluster

_LOST = "the connection to 127.0.0.1:9092 was lost"
_MOVED = int(ErrorCode.not_coordinator)
_local = threading.local()


class Fault(Enum):
    """What becomes of a process, and of its request."""

    NONE = auto()
    LOST = auto()
    """The connection breaks before the broker has the request."""
    UNANSWERED = auto()
    """The request is handled, and the response is lost."""
    DELAYED = auto()
    """The connection breaks, and the broker handles the request later."""
    MOVED = auto()
    """The broker is not the coordinator any more."""
    KILLED = auto()
    """The process is killed before it sends the request."""
    KILLED_UNANSWERED = auto()
    KILLED_DELAYED = auto()


_KILLS = frozenset({Fault.KILLED, Fault.KILLED_UNANSWERED, Fault.KILLED_DELAYED})


class KilledProcess(BaseException):
    """Ends the thread of a process that was killed."""


class Process:
    """A process of Spark, which runs one function."""

    def __init__(self, name: str, cluster: Cluster, schedule: "Schedule") -> None:
        self.name = name
        self.connection = Connection(self, cluster)
        self.is_ended = self.is_killed = False
        self.value: Any = None
        self.error: Exception | None = None
        self.wakes_at = 0.0
        self.next_api: int | None = None
        """The API of the request at which it stands; None at another stop."""
        self.fault = Fault.NONE
        """What becomes of its next step."""
        self.schedule = schedule
        self.may_run = _locked()
        self._has_ended = _locked()
        self._is_awaited = False

    def start(self, work: Callable[[], Any]) -> None:
        """Start its thread, which stops before it does anything."""
        threading.Thread(target=self._run, args=(work,), name=self.name, daemon=True).start()

    def kill(self) -> None:
        """Let it end where it stands."""
        if self.is_ended:
            return
        self.is_killed = True
        if self is not getattr(_local, "process", None):  # that ends when it continues
            self._is_awaited = True
            self.may_run.release()
            self._has_ended.acquire()

    def stop(self, api: int | None = None) -> Fault:
        """Stop until its next step; return what becomes of the request.

        Raises:
            KilledProcess: It was killed.
        """
        if not self.is_killed:
            self.next_api = api
            self.schedule.pass_on(self)
        if self.is_killed:
            raise KilledProcess
        if self.fault in _KILLS:
            self.is_killed = True
            if api is None or self.fault is Fault.KILLED:
                raise KilledProcess
        return self.fault

    def sleep(self, seconds: float) -> None:
        """Stop until its time."""
        self.wakes_at = self.schedule.now + seconds
        self.stop()

    def _run(self, work: Callable[[], Any]) -> None:
        _local.process = self
        self.may_run.acquire()
        try:
            if not self.is_killed and self.fault not in _KILLS:
                self.value = work()
            self.is_killed |= self.fault in _KILLS
        except KilledProcess:
            pass
        except Exception as error:
            self.error = error
        self.is_ended = True
        if self._is_awaited:
            self._has_ended.release()
        else:
            self.schedule.pass_on(self)


class Schedule:
    """Decides which process does the next step; the thread that stops calls it.

    Attributes:
        now: The time, in seconds.
    """

    now: float

    def __init__(self) -> None:
        self._caller = _locked()
        self._chosen: Process | None = None
        self._is_chosen = False
        self._failure: Exception | None = None

    def next_process(self) -> Process | None:
        """Return the process that does the next step, with its fault; None for none."""
        raise NotImplementedError

    def run(self) -> None:
        """Let processes run until there is no next process.

        Raises:
            Exception: From `next_process`.
        """
        self._choose()
        if self._chosen is not None:
            self._chosen.may_run.release()
            self._caller.acquire()
        if self._failure is not None:
            raise self._failure

    def pass_on(self, process: Process) -> None:
        """Let the next process run; wait for the next step of this process, unless it has ended."""
        if not self._is_chosen:
            self._choose()
        if process.is_killed and not process.is_ended:
            self._is_chosen = True  # it ends first
            return
        self._is_chosen = False
        if self._chosen is not process:
            (self._caller if self._chosen is None else self._chosen.may_run).release()
            if not process.is_ended:
                process.may_run.acquire()

    def _choose(self) -> None:
        try:
            self._chosen = self.next_process()
        except Exception as error:
            self._chosen, self._failure = None, error


def _locked() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock


def current_process() -> Process:
    """Return the process whose thread this is."""
    process: Process = _local.process
    return process


class Connection:
    """The connection of a process, with the methods that writers use."""

    settings = SETTINGS

    def __init__(self, process: Process, cluster: Cluster) -> None:
        self._process = process
        self._cluster = cluster

    def send_to_coordinator(
        self, key: str, request: Any, response: Any, *, transaction: bool = False
    ) -> Any:
        api = int(request.__api_key__)
        return self._exchange(
            api,
            lambda: self._cluster.handle(request, response),
            lambda: _moved(api, request, response),
        )

    def send(self, node: int, request: Any, response: Any) -> Any:
        return self._exchange(
            int(request.__api_key__), lambda: self._cluster.handle(request, response)
        )

    def begin(
        self, node: int, request: Any, *, channel: str, has_deadline: bool = False
    ) -> Pending:
        try:
            outcome: Any = self._exchange(
                request.api_key, lambda: self._cluster.produce(request.body)
            )
        except BrokerUnreachableError as error:
            outcome = error
        return Pending(outcome)

    def nodes(self) -> tuple[int, ...]:
        self._exchange(None, lambda: None)
        return (1,)

    def leader(
        self, topic: str, partition: int, *, timeout_s: float | None = None
    ) -> PartitionLeader:
        return PartitionLeader(1, 0)

    def refresh(self, topic: str) -> None: ...

    def forget_coordinator(self, key: str, *, transaction: bool = False) -> None: ...

    def _exchange(
        self,
        api: int | None,
        handle: Callable[[], Any],
        refuse: Callable[[], Any] | None = None,
    ) -> Any:
        fault = self._process.stop(-1 if api is None else api)
        if fault is Fault.NONE:
            return handle()
        if fault is Fault.MOVED and refuse is not None:
            return refuse()
        if fault in {Fault.UNANSWERED, Fault.KILLED_UNANSWERED}:
            handle()
        # A broker that repeats a delayed InitProducerId after its retry fences a producer of
        # Kafka's own client as well: requests to a coordinator keep their order.
        elif fault in {Fault.DELAYED, Fault.KILLED_DELAYED}:
            handle() if api == INIT else self._cluster.delayed.append(handle)
        if self._process.is_killed:
            raise KilledProcess
        raise BrokerUnreachableError(_LOST)


def _moved(api: int, request: Any, response: Any) -> Any:
    if api == ADD_PARTITIONS:
        return partitions_added(request, response, _MOVED)
    if api == OFFSET_COMMIT:
        return offsets_committed(request, response, _MOVED)
    if api == INIT:
        return answer(response, _MOVED, producer_id=-1, producer_epoch=-1)
    if api in {END, ADD_OFFSETS}:
        return answer(response, _MOVED)
    raise BrokerUnreachableError(_LOST)
