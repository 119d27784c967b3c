"""What a gateway of this machine has counted on observed topics, read from its metrics listener."""

from __future__ import annotations

import http.client
import re
from collections import Counter
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from penstock.configuration import Address, Configuration

_TIMEOUT_S: Final = 5.0
_BYTES_MAX: Final = 64 * 2**20
_ANY: Final = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared with
_RECORDS: Final = re.compile(
    r'^penstock_records_total\{topic="((?:[^"\\]|\\.)*)",policy="(?:[^"\\]|\\.)*",'
    r'outcome="(\w+)"\} (\S+)$',
    re.MULTILINE,
)
_STARTED: Final = re.compile(r"^process_start_time_seconds (\S+)$", re.MULTILINE)


def counted_by_gateway(configuration: Configuration, topics: Container[str]) -> Iterator[str]:
    """Return what the gateway of a configuration has counted since it started, as lines.

    None where it serves no metrics; and a line where they cannot be read here, which is no
    error: it may run elsewhere.

    Args:
        configuration: Has `metrics.listener`.
        topics: The topics that are of interest.
    """
    address = configuration.metrics_listener
    if address is None:
        return
    host = _ANY.get(address.host, address.host)
    try:
        text = _metrics(host, address.port, configuration.metrics_listener_token)
    except (OSError, http.client.HTTPException, ValueError) as error:
        why = str(error) or type(error).__name__
        yield f"note: the gateway's own counts cannot be read at {address}: {why}"
        return
    yield from count_lines(text, address, topics)


def count_lines(text: str, address: Address, topics: Container[str]) -> Iterator[str]:
    """Return the counts of a gateway as lines that say what was counted, where and since when.

    Args:
        text: What `/metrics` serves.
        address: Where it was read.
        topics: The topics that are of interest.
    """
    start_match = _STARTED.search(text)
    start = "its start"
    if start_match is not None:
        moment = datetime.fromtimestamp(float(start_match[1]), UTC)
        start += f" at {moment.isoformat(timespec='seconds')}"
    topic_counts = counts_of(text, topics)
    yield (
        f"for comparison: records that the gateway with metrics.listener {address} received "
        f"from {start} until now, by outcome (penstock_records_total)"
    )
    if not topic_counts:
        yield "  none of these topics"
    for topic, outcomes in sorted(topic_counts.items()):
        shown = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(outcomes.items()))
        yield f"  {topic}: {shown}"


def counts_of(text: str, topics: Container[str]) -> dict[str, Counter[str]]:
    """Return the records of topics by outcome.

    Args:
        text: What `/metrics` serves.
        topics: The topics that are of interest.
    """
    topic_counts: dict[str, Counter[str]] = {}
    for topic, outcome, count in _RECORDS.findall(text):
        if topic in topics and float(count):
            topic_counts.setdefault(topic, Counter())[outcome] += int(float(count))
    return topic_counts


def _metrics(host: str, port: int, token: str | None) -> str:
    connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT_S)
    try:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        connection.request("GET", "/metrics", headers=headers)
        response = connection.getresponse()
        body = response.read(_BYTES_MAX)
    finally:
        connection.close()
    if response.status != HTTPStatus.OK:
        raise ValueError(f"status {response.status}")
    return body.decode()
