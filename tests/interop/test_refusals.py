"""A broker that refuses a batch, or stops, before and after batches whose records are all dropped.

Each case is run twice: by a producer that sends to the broker, and by a producer that sends to the
gateway. Both get the same refusal, and have the same delivery reports at the end.

A case is a list of batches whose records are kept (k) or dropped (d). The batch with a star is
refused. Batches before a comma are acknowledged before the others are sent.
"""

import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, replace

import pytest

from tests.faults import Proxy
from tests.gateways import RunningGateway, gateway_port, wait_until, write_configuration
from tests.integration.reading import read_topic
from tests.interop.conftest import JAVA
from tests.interop.senders import Java, Job, Librdkafka, Outcome, Sender
from tests.java import program
from tests.refusals import CLOSED, CLOSED_WHEN_STORED, Rule

POLICIES = """
from pathlib import Path
from penstock.policy import *
class DropsDrop(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self): return "."
    def process_record(self, key, value, topic, partition, headers):
        with Path(__file__).with_name("judged").open("ab") as judged: judged.write(value + b"\\n")
        if value.startswith(b"drop"): raise ProduceRequestInterceptorSkipRecordException
        return ProduceRequestInterceptorResult(key, value)
"""
NOT_LEADER, TIMED_OUT, TOO_LARGE, TOO_FEW_REPLICAS, INVALID = 6, 7, 10, 19, 87
RETRIED = {
    "6 for all": Rule(NOT_LEADER, alone=False),
    "6": Rule(NOT_LEADER),
    "7": Rule(TIMED_OUT),
    "7 but stored": Rule(TIMED_OUT, stored=True),
    "19 for all": Rule(TOO_FEW_REPLICAS, alone=False),
    "closed": CLOSED,
    "closed but stored": CLOSED_WHEN_STORED,
}
# After an error about a gap behind a retried batch, Java may abort by itself.
RETRIED_IN_TRANSACTIONS = [name for name, rule in RETRIED.items() if name not in {"6", "7"}]
FINAL = {"10": Rule(TOO_LARGE), "87": Rule(INVALID)}
CASES = ["k, k* d k", "k, k* d d k", "k, k* d", "k, d k*", "k, k d k* d k", "d k* d"]
CASES_OF_TWO = ["k, kd* dd kk", "k, kk dd dk*"]  # librdkafka has no more than six records in flight
CLIENTS = ["librdkafka", "Java"]
IN_FEW_WORDS = {"k, k* d k", "k, kd* dd kk"}
"""The cases of `make test` and `make slow`; `make interop` has all of them."""


def cases(*of: str):
    return [
        case if case in IN_FEW_WORDS else pytest.param(case, marks=pytest.mark.interop)
        for case in of
    ]


@dataclass(frozen=True)
class Batches:
    """The batches of a case, with values that are unique to the case."""

    first: list[list[str]]
    then: list[list[str]]
    refused: str
    token: str

    @classmethod
    def of(cls, case: str) -> "Batches":
        token, numbers = uuid.uuid4().hex[:8], iter(range(100))
        refused = ""
        parts: list[list[list[str]]] = []
        for part in case.split(",") if "," in case else ("", case):
            parts.append([])
            for batch in part.split():
                kinds = {"k": "keep", "d": "drop"}
                made = [
                    f"{kinds[letter]}-{next(numbers):02}-{token}" for letter in batch.strip("*")
                ]
                parts[-1].append(made)
                refused = next(iter(kept(made))) if "*" in batch else refused
        return cls(*parts, refused=refused, token=token)


def flat(batches: list[list[str]]) -> list[str]:
    return [value for batch in batches for value in batch]


def kept(values: list[str]) -> list[str]:
    return [value for value in values if value.startswith("keep")]


def begin(sender: Sender, job: Job) -> Future[Outcome]:
    """Run a job in a daemon thread."""
    outcome: Future[Outcome] = Future()

    def run() -> None:
        try:
            outcome.set_result(sender(job))
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return outcome


@dataclass
class Run:
    """The delivery reports of a producer, and the stored records."""

    outcome: Outcome
    stored: list[str]


class Stage:
    """A broker that refuses, with or without a gateway before it."""

    def __init__(self, kafka, folder) -> None:
        self._kafka = kafka
        self._judged = folder / "judged"
        self._judged.touch()
        self.proxy = Proxy(kafka.bootstrap_servers)
        self._folder = folder

    def __enter__(self):
        self.proxy.__enter__()
        properties = {"produce.request.interceptors": "policies.DropsDrop", "policy.workers": 1}
        port = gateway_port()
        file = write_configuration(self._folder, self.proxy.address, port, properties, POLICIES)
        self._gateway = RunningGateway(file)
        return self

    def __exit__(self, *_):
        self._gateway.stop()
        self.proxy.__exit__()

    def run(self, sender: Sender, topic: str, batches: Batches, rule: Rule, *, direct: bool,
            transactional: bool, held: bool) -> Run:  # fmt: skip
        job = Job(
            self.proxy.address if direct else self._gateway.address, topic,
            flat(batches.first), flat(batches.then), [f"keep-99-{batches.token}"],
            batch=len(batches.then[0]), transactional=transactional,
        )  # fmt: skip
        refusal = self.proxy.refuse(batches.refused.encode(), rule)
        try:
            if not held:
                refusal.open()
            outcome = begin(sender, job)
            refusal.wait()
            if held:
                self._wait_until_all_is_in_flight(batches, direct=direct)
            refusal.open()
            result = outcome.result(60)
        finally:
            refusal.open()
            self.proxy.forget()
        isolation = "read_committed" if transactional else "read_uncommitted"
        found = read_topic(self._kafka.bootstrap_servers, topic, isolation=isolation)
        return Run(result, [value.decode() for _, _, value, _ in found])

    def _wait_until_all_is_in_flight(self, batches: Batches, *, direct: bool) -> None:
        token = batches.token.encode()
        if direct:
            count = len(batches.first) + len(batches.then)
            wait_until(lambda: self.proxy.produced(token) >= count, what="all in flight")
            return
        count = len(flat(batches.first)) + len(flat(batches.then))
        wait_until(lambda: self._judged.read_bytes().count(token) >= count, what="all judged")


@pytest.fixture(scope="module")
def stage(kafka, tmp_path_factory) -> Iterator[Stage]:
    with Stage(kafka, tmp_path_factory.mktemp("refusals")) as running:
        yield running


@pytest.fixture(scope="module")
def senders() -> Iterator[dict[str, Sender]]:
    with Java(program(JAVA / "Batches.java")) as java:
        yield {"Java": java, "librdkafka": Librdkafka()}


@pytest.fixture
def both(stage, topic, senders):
    """Runs a case at the broker and through the gateway."""

    def run(client: str, case: str, rule: Rule, *, transactional: bool = False, held: bool = True):
        runs = []
        for direct in (True, False):
            batches = Batches.of(case)
            runs.append(stage.run(senders[client], topic(), batches, rule, direct=direct,
                                  transactional=transactional, held=held))  # fmt: skip
        return without_token(runs[0]), without_token(runs[1])

    return run


def without_token(run: Run) -> Run:
    """Make runs comparable."""

    def short(value: str) -> str:
        return value[:7]

    outcome = run.outcome
    return Run(
        Outcome(
            {short(value) for value in outcome.acknowledged},
            {short(value): error for value, error in outcome.failed.items()},
            outcome.fatal,
            outcome.aborted,
            outcome.committed,
        ),
        [short(value) for value in run.stored],
    )


def values_of(case: str, *, last: bool) -> list[str]:
    batches = Batches.of(case)
    values = [*flat(batches.first), *flat(batches.then)]
    return [value[:7] for value in values] + ["keep-99"] * last


@pytest.mark.cases(7)
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("rule", RETRIED)
@pytest.mark.parametrize("case", cases(*CASES, *CASES_OF_TWO))
def test_a_retried_batch_is_stored_once(both, client, rule, case):
    direct, through = both(client, case, RETRIED[rule])

    everything = values_of(case, last=True)
    for run, stored in ((direct, everything), (through, kept(everything))):
        assert run.outcome == Outcome(set(everything))
        assert run.stored == stored


@pytest.mark.slow
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("rule", RETRIED)
def test_an_immediate_refusal_is_handled_as_without_a_gateway(both, client, rule):
    direct, through = both(client, CASES[0], RETRIED[rule], held=False)

    everything = values_of(CASES[0], last=True)
    for run, stored in ((direct, everything), (through, kept(everything))):
        assert run.outcome == Outcome(set(everything))
        assert run.stored == stored


@pytest.mark.cases(3)
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("rule", FINAL)
@pytest.mark.parametrize("case", cases(*CASES, *CASES_OF_TWO))
def test_a_final_refusal_is_handled_as_without_a_gateway(both, client, rule, case):
    direct, through = both(client, case, FINAL[rule])

    assert through.outcome == direct.outcome
    assert not direct.outcome.fatal
    assert through.stored == kept(direct.stored)


def final_in_transactions() -> list:
    """Return rules and cases; in the first case librdkafka cannot abort, not even directly."""
    return [
        (rule, case)
        if case in (CASES[2], CASES_OF_TWO[0])
        else pytest.param(rule, case, marks=pytest.mark.interop)
        for rule in FINAL
        for case in (*CASES[1:4], CASES_OF_TWO[0])
    ]


@pytest.mark.slow
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    ("rule", "case"),
    [
        *(
            pytest.param(rule, case, marks=[] if case in IN_FEW_WORDS else [pytest.mark.interop])
            for rule in RETRIED_IN_TRANSACTIONS
            for case in (*CASES[:4], CASES_OF_TWO[0])
        ),
        *final_in_transactions(),
    ],
)
def test_a_transaction_commits_all_kept_records(both, client, rule, case):
    """It may be aborted and retried."""
    direct, through = both(client, case, {**RETRIED, **FINAL}[rule], transactional=True)

    everything = values_of(case, last=False)
    expected = Outcome(acknowledged=set(everything), committed=True)
    for way, run, stored in (
        ("direct", direct, everything),
        ("through the gateway", through, kept(everything)),
    ):
        outcome = replace(run.outcome, aborted=[], failed={})
        assert (way, outcome, run.stored) == (way, expected, stored)
