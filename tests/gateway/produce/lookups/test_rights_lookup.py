"""A client's right to write is looked up before a refusal leaves the gateway."""

import asyncio
import itertools

import pytest

from penstock.engine.verdict import (
    ACCEPTED,
    RecordError,
    abandoned,
    failed,
    not_judged,
    postponed,
    refused,
    refused_records,
    replaced,
)
from penstock.gateway.produce.request import SLICE
from penstock.policy import RetriableException
from tests.gateway.admin.talk import broker_frame
from tests.gateway.produce.intercepted import Intercepted, batch, request
from tests.gateway.produce.planned import with_plan
from tests.gateway.produce.quarantining import DESCRIBE, WRITE, Quarantine
from tests.gateway.produce.quarantining import batch as plain
from tests.gateway.produce.rights import answer_of, checked, looked_up
from tests.gateway.sessions.talk import Answering, Talk, large, produce, produce_response

REFUSALS = {
    "of records": refused_records([RecordError(0, "not positive", "v")]),
    "of a batch": refused(44, "no braces", "v"),
    "undecodable": refused(87, "invalid batch", ""),
    "damaged": refused(2, "wrong checksum", ""),
    "a failed policy": failed("v", "raised ZeroDivisionError"),
    "an interceptor that failed": failed("i", "was unable to process the request"),
    "no worker": not_judged("v", "no worker is free"),
    "not now": postponed("v", RetriableException("the registry is away")),
}


async def turn():
    """Let the event loop take a turn."""
    await asyncio.sleep(0)


@pytest.mark.parametrize("verdict", REFUSALS.values(), ids=REFUSALS)
@pytest.mark.parametrize("others", [(), ("free",)], ids=["single", "with another topic"])
def test_a_client_without_write_gets_no_message_and_blames_no_topic(verdict, others):
    talk = checked(Talk())
    talk.session.client_data(produce(1, "judged", *others))
    talk.decide(verdict)
    assert (talk.client.data, talk.refusals) == (b"", [])
    looked_up(talk, DESCRIBE)
    if others:
        talk.session.upstream_data(produce_response(1, *others))
    assert answer_of(talk) == (29, None, [])
    assert talk.refusals == []
    assert "judged" not in talk.counts.records_by_topic()


@pytest.mark.parametrize("verdict", REFUSALS.values(), ids=REFUSALS)
def test_a_client_that_may_write_gets_the_refusal_and_is_looked_up_once(verdict):
    talk = checked(Talk())
    for number in (1, 2):
        talk.session.client_data(produce(number, "judged"))
        talk.decide(verdict)
        if number == 1:
            looked_up(talk, WRITE)
        assert talk.broker.take() == b""
        errors = [error.message for error in verdict.record_errors]
        assert answer_of(talk) == (verdict.code, verdict.message, errors)
    assert [report.verdict for report in talk.refusals] == [verdict] * 2


def test_an_accepted_batch_needs_no_look_up():
    talk = checked(Talk())
    sent = produce(1, "judged")
    talk.session.client_data(sent)
    talk.decide(ACCEPTED)
    assert talk.broker.take() == sent


def test_for_a_client_that_has_gone_nothing_is_looked_up():
    talk = checked(Talk())
    talk.session.client_data(produce(1, "judged"))
    talk.decide(abandoned("v"))
    assert talk.broker.take() == b""


@pytest.mark.parametrize(
    ("operations", "code", "expected"), [(-(2**31), 0, 7), (WRITE, 5, 5), (WRITE, 3, 3)]
)
def test_a_right_that_cannot_be_looked_up_is_retried(operations, code, expected):
    talk = checked(Talk())
    for number in (1, 2):
        talk.session.client_data(produce(number, "judged"))
        talk.decide(REFUSALS["of records"])
        looked_up(talk, operations, code)
        found, message, errors = answer_of(talk)
        assert (found, errors) == (expected, [])
        assert message == (
            "It is not known whether the client may write to this topic" if found == 7 else None
        )


def test_a_topic_whose_policies_cannot_run_is_not_named_to_clients_without_write():
    for operations, expected in ((DESCRIBE, 29), (WRITE, -1)):
        talk = checked(with_plan(Talk(), unusable="schema.json is missing"))
        talk.session.client_data(produce(1, "judged"))
        looked_up(talk, operations)
        code, message, _ = answer_of(talk)
        assert (code, message is None, len(talk.refusals)) == (
            expected, expected == 29, int(expected == -1)
        )  # fmt: skip


def test_a_batch_that_grew_too_large_gets_the_error_of_the_broker_without_write():
    talk = checked(Quarantine())
    talk.request_max_bytes = 150
    talk.produce(1, plain(b"v"))
    talk.decide(replaced(plain(b"v" * 200), ()))
    talk.respond_with_limit(judged="100")
    looked_up(talk, DESCRIBE)
    assert answer_of(talk) == (29, None, [])
    assert talk.refusals == []


@pytest.mark.parametrize(("operations", "expected"), [(DESCRIBE, 29), (WRITE, 0)])
def test_a_batch_whose_records_are_all_dropped_is_acknowledged_only_with_write(
    operations, expected
):
    talk = checked(Intercepted())
    talk.session.client_data(request(1, batch(b"v")))
    talk.decide(replaced(b"", [0]))
    looked_up(talk, operations)
    assert answer_of(talk)[0] == expected


def test_with_acks_0_the_connection_is_closed_without_a_report():
    talk = checked(Talk())
    talk.session.client_data(produce(1, "judged", acks=0))
    talk.decide(REFUSALS["of records"])
    looked_up(talk, DESCRIBE)
    talk.broker.take()
    assert (talk.client.data, talk.refusals) == (b"", [])
    assert talk.session._requests._is_stopped


def test_a_connection_that_is_closed_meanwhile_gets_no_report():
    talk = checked(Talk())
    talk.session.client_data(produce(1, "judged"))
    talk.decide(REFUSALS["of records"])
    frame = talk.broker.take()
    talk.session.closed()
    number = int.from_bytes(frame[8:12], "big")
    talk.session.upstream_data(broker_frame(3, 12, number, topics=[]))
    assert (talk.client.data, talk.refusals) == (b"", [])


async def test_the_refusals_of_a_large_request_are_applied_in_slices():
    talk = checked(Answering())
    talk.session._requests.max_bytes = 10**6
    partitions = 4 * SLICE
    talk.session.client_data(large(partitions))
    while len(talk.verdicts) < partitions:
        await turn()
    while talk.verdicts:
        talk.decide(REFUSALS["of records"])
    while not talk.broker.data:
        await turn()
    looked_up(talk, WRITE)
    reported = [0, len(talk.refusals)]
    while not talk.client.data:
        await turn()
        reported.append(len(talk.refusals))
    assert max(after - before for before, after in itertools.pairwise(reported)) <= SLICE
    assert len(talk.refusals) == partitions
