"""Three brokers, and the gateways in front of them in each way."""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from penstock.kafka.local import LocalKafka, free_ports
from tests.gateways import RunningGateway, write_configuration
from tests.metrics import scrape

DIRECTLY: Final = "directly"
BROKERS: Final = 3
_REQUEST_TIMED_OUT: Final = 7
_POLICIES: Final = (Path(__file__).parent / "policies.py").read_text()
_ACCEPTING: Final = {
    "create.topic.policy.class.name": "policies.AcceptsTopics",
    "alter.config.policy.class.name": "policies.AcceptsConfigs",
    "record.validator.classes": "policies.AcceptsEach",
    "topics.*.records.policy.class.name": "policies.AcceptsRecords",
    "topics.*.records.policy.enabled": "true",
    "record.validation.policy.class.name": "policies.AcceptsValues",
    "topics.*.record.validation.policy": "any",
}

WAYS: Final[Mapping[str, tuple[Mapping[str, object], ...]]] = {
    DIRECTLY: (),
    "no policy": ({},),
    "accepting": (_ACCEPTING,),
    "rewriting": (
        {"produce.request.interceptors": "policies.Unwraps"},
        {
            "produce.request.interceptors": "policies.Wraps",
            # The first gateway takes no records for the topic of its own state.
            "produce.request.interceptors.state.topic": "__penstock_producer_state_2",
        },
    ),
}
"""The properties of the gateways in front of the brokers, the nearest to the brokers first."""


@dataclass
class World:
    """What a suite runs against.

    Attributes:
        address: The bootstrap address.
        faults: What gateways logged that they should not have.
        judged: How many records each gateway has let pass, and how many not, by outcome.
    """

    address: str
    faults: list[str] = field(default_factory=list)
    judged: dict[str, float] = field(default_factory=dict)


@contextmanager
def world(way: str, folder: Path, broker: Mapping[str, str]) -> Iterator[World]:
    """Start brokers, and the gateways of a way; end them.

    Args:
        way: One of `WAYS`.
        folder: For configurations and logs; it is made.
        broker: Properties of the brokers.
    """
    folder.mkdir(parents=True)
    with ExitStack() as ends:
        cluster = ends.enter_context(LocalKafka(nodes=BROKERS, properties=broker))
        ends.callback(_keep_logs, cluster, folder)
        made = World(cluster.bootstrap_servers)
        gateways: list[tuple[RunningGateway, int]] = []
        for number, properties in enumerate(WAYS[way], 1):
            own = folder / f"gateway-{number}"
            own.mkdir()
            port, *_, metrics = free_ports(2 + BROKERS)
            more = {"metrics.listener": f"127.0.0.1:{metrics}",
                    "broker.ports": f"{port + 1}-{port + BROKERS}", **properties}  # fmt: skip
            file = write_configuration(own, made.address, port, more, _POLICIES)
            running = RunningGateway(file)
            ends.callback(_end, running, own, made)
            gateways.append((running, metrics))
            made.address = running.address
        yield made
        for running, metrics in gateways:
            _check_log(running, metrics, made)


def _check_log(gateway: RunningGateway, metrics: int, made: World) -> None:
    """Add up the records that a gateway has judged; note its log."""
    if gateway.process.poll() is not None:
        made.faults.append("a gateway ended by itself")
        return
    for labels, value in scrape(metrics).of("penstock_records_total").items():
        outcome = labels[-1]
        made.judged[outcome] = made.judged.get(outcome, 0) + value
    made.faults += [json.dumps(event) for event in list(gateway.log) if is_fault(event)]


def is_fault(event: Mapping[str, object]) -> bool:
    """Return whether a gateway should not have logged this: on a slow machine it may be too late."""
    return event.get("level") in {"error", "not JSON"} and event.get("code") != _REQUEST_TIMED_OUT


def _end(gateway: RunningGateway, folder: Path, made: World) -> None:
    try:
        if gateway.process.poll() is None and (code := gateway.stop()):
            made.faults.append(f"a gateway ended with {code}")
    except Exception as error:  # whatever it does not do in time, it ends
        made.faults.append(f"a gateway does not end: {error}")
        gateway.kill()
    lines = "".join(json.dumps(event) + "\n" for event in list(gateway.log))
    (folder / "gateway.log").write_text(lines)


def _keep_logs(cluster: LocalKafka, folder: Path) -> None:
    for node in cluster.nodes:
        (folder / f"broker-{node.node_id}.log").write_bytes(node.log.read_bytes())
