"""The Java client 4.x: transactions, idempotence, and the exceptions on a refusal."""

import pytest

from tests.integration.reading import read_topic, values_of
from tests.interop.conftest import REASON

NEIGHBOUR = "part of a batch which had one more more invalid records"


def test_every_bad_record_is_named_and_the_others_of_its_batch_fail(
    judged, topic, java_client, stored
):
    name = topic()

    lines = java_client("produce", judged.address, name, "bad-1", "good-2", "bad-3")

    assert [line[:3] for line in lines] == [
        ["refused", "bad-1", "InvalidRecordException"],
        ["refused", "good-2", "KafkaException"],
        ["refused", "bad-3", "InvalidRecordException"],
    ]
    assert [lines[0][3], lines[2][3]] == [REASON, REASON]
    assert NEIGHBOUR in lines[1][3]
    assert stored(name) == []


def test_a_single_bad_record_and_a_batch_policy_fail_with_their_exceptions(
    judged, topic, java_client
):
    name = topic()

    client = java_client("produce", judged.address, name, "bad-1")
    batch = java_client("produce", judged.address, name, "no-1", "good-2")

    assert client == [["refused", "bad-1", "InvalidRecordException", REASON]]
    assert {tuple(line[2:]) for line in batch} == {("PolicyViolationException", "no is not yes")}


@pytest.mark.kips("B46")
def test_a_bad_batch_fails_alone_among_a_hundred_with_five_in_flight(
    judged, topic, java_client, stored
):
    name = topic()

    lines = java_client("poisoned", judged.address, name)

    kept = [line[1] for line in lines if line[0] == "stored"]
    refused = [line[1] for line in lines if line[0] == "refused"]
    assert "bad-0505" in refused
    assert len(refused) < 40, "more than the batch of the bad record was refused"
    assert kept == [value.decode() for value in values_of(stored(name))]
    assert len(kept) + len(refused) == 1000


@pytest.mark.kips("B35")
def test_transactions_abort_after_a_refusal_and_commit_without(judged, topic, java_client, kafka):
    for first in (["good-1", "bad-2"], ["bad-1"], ["bad-1", "good-2"]):
        name = topic()

        lines = java_client("transact", judged.address, name, *first)

        assert ["aborted"] in lines, lines
        assert lines[-1] == ["committed"]
        committed = read_topic(kafka.bootstrap_servers, name, isolation="read_committed")
        assert values_of(committed) == [b"good-after"]


@pytest.mark.slow
@pytest.mark.kips("B48")
def test_transactions_whose_records_are_all_dropped_commit(gateway, topic, java_client, kafka):
    """Java 4 uses transactions V2 (KIP-890): the coordinator learns only of stored batches."""
    running = gateway(
        {"produce.request.interceptors": "policies.DropsDrop"},
        """
from penstock.policy import *
class DropsDrop(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self): return "."
    def process_record(self, key, value, topic, partition, headers):
        if value.startswith(b"drop"): raise ProduceRequestInterceptorSkipRecordException
        return ProduceRequestInterceptorResult(key, value)
""",
    )
    for first, kept in ((["drop-1", "drop-2"], []), (["drop-1", "good-2"], [b"good-2"])):
        name = topic()

        lines = java_client("transact", running.address, name, *first)

        assert lines == [*(["stored", value] for value in first), ["committed"], ["committed"]]
        committed = read_topic(kafka.bootstrap_servers, name, isolation="read_committed")
        assert values_of(committed) == [*kept, b"good-after"]


@pytest.mark.slow
def test_consumer_groups_of_both_protocols_work(judged, topic, java_client):
    name = topic()
    java_client("produce", judged.address, name, "good-1", "good-2")

    for protocol in ("classic", "consumer"):
        lines = java_client("consume", judged.address, name, protocol, "2")
        assert lines == [
            ["consumed", "good-1"], ["consumed", "good-2"], ["group offsets committed"],
        ]  # fmt: skip
