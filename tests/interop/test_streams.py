"""Applications of Kafka Streams that count, directly and behind gateways in each mode (docs/failures.md#clients)."""

import json
import re

import pytest

from tests.gateways import wait_until
from tests.integration.reading import values_of
from tests.interop.modes import (
    DIRECT,
    KEEP,
    REASONS,
    REFUSE,
    USERS,
    WAYS,
    gateway_of_all_topics,
    gateway_of_users_topics,
)
from tests.interop.programs import Programs, running

pytestmark = pytest.mark.interop
BEFORE, AFTER = 5, 3
"""The records before and after the local state is deleted."""


@pytest.fixture
def addresses(kafka, shared_gateway):
    """The address of each way on which all topics are judged, and of one for users' topics."""
    return {
        DIRECT: kafka.bootstrap_servers,
        **{way: gateway_of_all_topics(shared_gateway, way).address for way in WAYS[1:]},
        USERS: gateway_of_users_topics(shared_gateway).address,
    }


@pytest.mark.parametrize("protocol", ["classic", "streams"])
@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_without_local_state_counts_continue_unless_the_changelog_is_refused(
    addresses, topic, put, stored, tmp_path, protocol, guarantee
):
    """The changelog has numbers, which the policy refuses, and the other topics JSON with ids."""
    sources = {way: topic(f"{USERS}-{way}") for way in addresses}
    targets = {way: topic(f"{USERS}-{way}") for way in addresses}
    names = {way: f"counts-{source}" for way, source in sources.items()}
    arguments = [str(part) for way in addresses
                 for part in (names[way], addresses[way], sources[way], targets[way])]  # fmt: skip

    def counts(way: str) -> list[int]:
        values = values_of(stored(targets[way], isolation="read_committed"))
        return [json.loads(value)["id"] for value in values]

    def ends(way: str) -> list[str]:
        ends = (line for line in list(application.lines) if line[:2] == ["ended", names[way]])
        return [f"{name}: {message}" for _, _, name, message in ends]

    def put_everywhere(count: int) -> None:
        for source in sources.values():
            put(source, *('{"id": 1}' for _ in range(count)))

    program = Programs.STREAMS.command("Counts.java")
    with running([*program, protocol, guarantee, str(tmp_path), *arguments]) as application:
        put_everywhere(BEFORE)
        for way in REFUSE:
            wait_until(lambda way=way: ends(way), 120, what=f"the end with {way}")
            # In a transaction, quarantine refuses bad records of any topic.
            in_transaction = (way, guarantee) == ("quarantine", "exactly_once_v2")
            assert re.search(REASONS["transaction" if in_transaction else way], ends(way)[0])
        for way in (*KEEP, USERS):
            wait_until(lambda way=way: counts(way)[-1:] == [BEFORE], 120, what=f"counts of {way}")
        application.tell("again")
        put_everywhere(AFTER)
        for way in (*KEEP, USERS):
            wait_until(lambda way=way: counts(way)[-1:] == [BEFORE + AFTER], 120, what=way)
            assert counts(way) == list(range(1, BEFORE + AFTER + 1))
            assert ends(way) == []
