"""FindCoordinator: the policy judges Kafka's own topics before a broker creates them."""

import pytest

from tests.gateway.admin.talk import AdminTalk, Policies, versions

API = 10
MANY_FROM = 4
TOPICS = {0: "__consumer_offsets", 1: "__transaction_state", 2: "__share_group_state"}


def keyed(kind=0, *keys):
    keys = keys or ("g",)
    return {"key": keys[0], "coordinator_keys": keys, "key_type": kind}


def found(version):
    """A response of the broker that is the coordinator, with its own address."""
    where = {"node_id": 1, "host": "kafka-1", "port": 9092}
    return {"coordinators": [{"key": "g", **where}]} if version >= MANY_FROM else where


def addresses(response, version):
    rows = response.coordinators if version >= MANY_FROM else [response]
    return [(int(row.node_id), row.host, int(row.port), int(row.error_code)) for row in rows]


@pytest.mark.parametrize("version", versions(API))
@pytest.mark.parametrize("is_missing", [True, False])
async def test_a_request_for_an_accepted_topic_passes_and_gets_the_address_of_the_gateway(
    version, is_missing
):
    talk = AdminTalk()
    talk.cluster.missing = {"__consumer_offsets"} if is_missing else set()
    sent = await talk.request(API, version, **keyed())
    forwarded = await talk.forwarded(API)
    assert forwarded.frame == sent
    talk.respond(forwarded, **found(version))
    assert addresses(await talk.response(), version) == [(1, "gateway", 9192, 0)]
    assert [creation.topic for creation in talk.topics.judged] == [
        "__consumer_offsets"
    ] * is_missing


@pytest.mark.parametrize("version", versions(API))
@pytest.mark.parametrize("kind", TOPICS)
async def test_a_refused_topic_has_no_coordinator(version, kind):
    if version == 0 and kind:
        kind = 0  # only groups have a coordinator then
    talk = AdminTalk()
    talk.cluster.missing = {TOPICS[kind]}
    talk.topics.no = {TOPICS[kind]}
    await talk.request(API, version, **keyed(kind, "g", "h"))
    response = await talk.response()
    count = 2 if version >= MANY_FROM else 1
    assert addresses(response, version) == [(-1, "", -1, 15)] * count
    first = response.coordinators[0] if version >= MANY_FROM else response
    if version >= 1:
        assert first.error_message == "the policy says no"
    (creation,) = talk.topics.judged
    assert (creation.num_partitions, creation.replication_factor) == (50, 3)
    assert [refusal.topic for refusal in talk.refusals] == [TOPICS[kind]]
    assert talk.refusals[0].is_awaited


@pytest.mark.parametrize("version", versions(API))
async def test_a_topic_that_cannot_be_judged_is_refused(version):
    talk = AdminTalk()
    talk.cluster.away = True
    await talk.request(API, version, **keyed())
    assert addresses(await talk.response(), version) == [(-1, "", -1, 15)]


async def test_a_key_type_that_creates_no_topic_passes():
    talk = AdminTalk(Policies())
    talk.cluster.away = True
    sent = await talk.request(API, 6, **keyed(7))
    forwarded = await talk.forwarded(API)
    assert forwarded.frame == sent


async def test_a_truncated_request_closes_the_connection():
    talk = AdminTalk()
    sent = await AdminTalk().request(API, 2, **keyed(0, "a-long-name"))
    cut = sent[:-6]
    talk.session.client_data((len(cut) - 4).to_bytes(4, "big") + cut[4:])
    await talk.wait_until_closed()
