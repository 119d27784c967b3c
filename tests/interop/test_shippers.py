"""Log shippers and jobs, directly and behind gateways in each mode (docs/failures.md#clients)."""

import re
import uuid
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import pytest

from tests.conftest import create_topic
from tests.integration.reading import read_topic, values_of
from tests.interop import syslog_ng
from tests.interop.modes import (
    DIRECT,
    KEEP,
    NO_POLICY,
    REMOVE,
    USERS,
    WAYS,
    gateway_of_all_topics,
    gateway_of_users_topics,
)
from tests.interop.shippers import SHIPPERS

pytestmark = [pytest.mark.interop, pytest.mark.go]
LINES: Final = [f'{{"{"no" if number % 10 == 3 else "id"}": {number}}}' for number in range(200)]
GOOD: Final = [line for line in LINES if "id" in line]
BAD: Final = [line for line in LINES if "no" in line]

BATCH: Final = "enforce with reasons of batches"
"""With `produce.rejection.reasons=batch`."""
REFUSED: Final = ("enforce", BATCH)
REASON: Final = "field id of the value is missing"
POSITION: Final = r"Record \d+ of the batch \(the first is 0\): "
OF_OTHERS: Final = "it was part of a batch which had one more more invalid records"
"""The reason that Java gives for good records, in Kafka's own words."""


class Written(NamedTuple):
    """What a program has written to a topic.

    Attributes:
        values: The values that are stored there.
        dead: Those of its dead letter topic.
        reports: The failures that the program reports.
    """

    values: list[str]
    dead: list[str]
    reports: list[str]

    @property
    def lost(self) -> int:
        """How many lines are not stored."""
        return len(LINES) - len(self.values)


@pytest.fixture(scope="module")
def addresses(kafka, shared_gateway) -> dict[str, str]:
    """The address of each way."""
    users = gateway_of_users_topics(shared_gateway)
    of_batches = gateway_of_users_topics(shared_gateway, **{"produce.rejection.reasons": "batch"})
    return {
        **dict.fromkeys(WAYS, users.address),
        DIRECT: kafka.bootstrap_servers,
        NO_POLICY: gateway_of_all_topics(shared_gateway, NO_POLICY).address,
        BATCH: of_batches.address,
    }


@pytest.fixture(scope="module")
def written(request, kafka, admin, addresses, tmp_path_factory) -> Callable[[str, str], Written]:
    """Runs a program once, on all ways, and returns what it has written on one of them."""
    runs: dict[str, Mapping[str, Written]] = {}

    def values(topic: str) -> list[str]:
        found = values_of(read_topic(kafka.bootstrap_servers, topic))
        return [value.decode() for value in found if value is not None]

    def run(program: str) -> Mapping[str, Written]:
        run = uuid.uuid4().hex[:8]
        topics = {way: f"{USERS}-{way.replace(' ', '-')}-{run}" for way in addresses}
        for topic in topics.values():
            create_topic(admin, topic)
        lines = tmp_path_factory.mktemp("shipper") / "lines"
        lines.write_text("".join(f"{line}\n" for line in LINES))
        reports = SHIPPERS[program](lines, {topics[way]: addresses[way] for way in addresses})
        return {
            way: Written(
                values(topic),
                values(f"{topic}.dead") if way == "quarantine" else [],
                reports.get(topic, []),
            )
            for way, topic in topics.items()
        }

    def get(program: str, way: str) -> Written:
        if program == "Spark":
            request.getfixturevalue("spark")
        if program not in runs:
            try:
                runs[program] = run(program)
            except syslog_ng.UnavailableError as error:
                pytest.skip(str(error))
        return runs[program][way]

    return get


@pytest.mark.parametrize("way", KEEP)
@pytest.mark.parametrize("program", SHIPPERS)
def test_where_bad_records_are_stored_each_line_is(written, program, way):
    assert written(program, way) == Written(LINES, [], [])


@pytest.mark.parametrize("way", REMOVE)
@pytest.mark.parametrize("program", SHIPPERS)
def test_where_bad_records_are_removed_each_good_line_is_stored(written, program, way):
    dead = BAD if way == "quarantine" else []
    assert written(program, way) == Written(GOOD, dead, [])


@pytest.mark.parametrize("way", REFUSED)
@pytest.mark.parametrize("program", SHIPPERS)
def test_where_batches_are_refused_no_bad_line_is_stored(written, program, way):
    """How many good lines are depends on the batches of the program."""
    stored = written(program, way).values
    assert stored == [line for line in GOOD if line in stored]


@pytest.mark.parametrize(("way", "before"), [("enforce", ""), (BATCH, POSITION)])
def test_an_appender_that_waits_loses_only_bad_lines_and_says_why(written, way, before):
    """It reports the first few errors, and then one in five minutes."""
    values, _, reports = written("log4j2", way)
    assert values == GOOD
    assert reports
    assert all(re.fullmatch(f"InvalidRecordException: {before}{REASON}", line) for line in reports)


def test_an_appender_that_does_not_wait_reports_each_lost_line(written):
    found = written("log4j2 asynchronous", "enforce")
    reasons = [line for line in found.reports if line == f"InvalidRecordException: {REASON}"]
    others = [line for line in found.reports if line.endswith(OF_OTHERS)]
    assert len(reasons) == len(BAD)
    assert len(reasons) + len(others) == len(found.reports) == found.lost


def test_with_reasons_of_batches_it_reports_a_reason_for_each_lost_line(written):
    found = written("log4j2 asynchronous", BATCH)
    assert len(found.reports) == found.lost
    assert all(
        re.fullmatch(f"InvalidRecordException: {POSITION}{REASON}", line) for line in found.reports
    )


@pytest.mark.parametrize("way", REFUSED)
def test_a_collector_drops_what_it_exports_at_once_and_shows_no_reason(written, way):
    reports = written("collector", way).reports
    assert any(f'"dropped_items": {len(LINES)}' in line for line in reports)
    assert "INVALID_RECORD" in reports[0]
    assert not any(REASON in line for line in reports)


@pytest.mark.parametrize("way", REFUSED)
def test_syslog_ng_does_not_say_that_lines_are_lost(written, way):
    found = written("syslog-ng", way)
    assert found.lost >= len(BAD)
    assert found.reports == []


@pytest.mark.parametrize("program", ["Flink", "Spark"])
def test_a_job_fails_with_the_first_failure_which_may_have_no_reason(written, program):
    (report,) = written(program, "enforce").reports
    assert re.search(f"InvalidRecordException: {REASON}|KafkaException: .*{OF_OTHERS}", report)


@pytest.mark.parametrize("program", ["Flink", "Spark"])
def test_with_reasons_of_batches_a_job_fails_with_a_reason(written, program):
    (report,) = written(program, BATCH).reports
    assert re.search(f"InvalidRecordException: {POSITION}{REASON}", report)
