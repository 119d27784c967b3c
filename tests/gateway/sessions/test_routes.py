"""The routing table: the handling of requests of each API, and its conditions."""

from types import SimpleNamespace

import pytest

from penstock.gateway.sessions import routes
from penstock.gateway.sessions.routes import ROUTES, VERSIONS, route
from penstock.kafka.wire.errors import WireError
from penstock.kafka.wire.schemas import API_NAMES

PLAIN = {"create_topic": None, "alter_config": None, "needs_context": False}
TOPIC_APIS = {19, 20, 21, 32, 33, 37, 44}
CONFIG_APIS = {19, 33, 44}


class GatewayState:
    """A gateway with these policies, topic level keys and producers."""

    requires_sasl = False

    def __init__(self, *, are_stored=False, judged=False, producers=(), partitions=True,
                 audit_topic="", intercepted=False, shared=None, **topics):  # fmt: skip
        self.audit_topic = audit_topic
        self.topic_configs = SimpleNamespace(are_stored=are_stored)
        self.producers = producers
        self.shared_producers = shared
        names = {"records.policy.class.name": topics.pop("named", ())}
        self.policies = SimpleNamespace(
            plan=SimpleNamespace(is_empty=not judged, names=names, has_interceptors=intercepted),
            topics=SimpleNamespace(**(PLAIN | topics), judges_partitions=partitions),
        )


def held(gateway):
    """The APIs of which a request in the last version is held."""
    return {row.api_key for row in ROUTES if row.hold(gateway, row.versions[1]) is not None}


ALWAYS = {routes.SASL_HANDSHAKE, routes.SASL_AUTHENTICATE, routes.API_VERSIONS}


def test_an_api_has_a_single_row():
    keys = [row.api_key for row in ROUTES]
    assert len(keys) == len(set(keys))
    assert set(keys) <= set(API_NAMES)
    assert all(route(key).api_key == key for key in keys)


def test_an_api_without_a_row_passes_in_all_versions():
    groups = route(16)
    assert groups.versions[0] == 0
    assert groups.versions[1] > 1000
    assert groups.hold(GatewayState(are_stored=True, judged=True), 5) is None
    assert groups.respond(SimpleNamespace(), 5) is None
    assert 16 not in VERSIONS


def test_endpoints_of_controllers_pass():
    """DescribeQuorum, as `kafka-metadata-quorum` shows it, has no address of a broker."""
    quorum = route(55)
    assert [quorum.respond(SimpleNamespace(), version) for version in range(3)] == [None] * 3


@pytest.mark.parametrize(
    ("gateway", "apis"),
    [
        (GatewayState(), set()),
        (GatewayState(judged=True), {0} | CONFIG_APIS),
        (GatewayState(producers=("there were interceptors",)), {0, 26}),
        (GatewayState(judged=True, intercepted=True), {0, 26} | CONFIG_APIS),
        (GatewayState(shared="state that others may write to"), {0}),
        (GatewayState(audit_topic="audit"), {0}),
        (GatewayState(are_stored=True), {0} | TOPIC_APIS),
        (GatewayState(create_topic="p.P"), {3, 10, 19, 37, 88}),
        (GatewayState(create_topic="p.P", partitions=False), {3, 10, 19, 88}),
        (GatewayState(create_topic="p.P", needs_context=True), {3, 10, 19, 20, 37, 88}),
        (GatewayState(alter_config="p.P"), CONFIG_APIS),
        (GatewayState(judged=True, named=("p.P",)), {0, 20} | CONFIG_APIS),
    ],
)
def test_the_policies_determine_which_requests_are_held(gateway, apis):
    assert held(gateway) == apis | ALWAYS


@pytest.mark.parametrize(
    ("api_key", "version"), [(28, 6), (42, 3), (88, 1), (89, 1), (93, 0), (94, 0)]
)
def test_additions_of_kafka_4_4_are_forwarded_without_policies(api_key, version):
    first, last = route(api_key).versions
    assert first <= version <= last
    assert route(api_key).hold(GatewayState(judged=True), version) is None
    assert route(api_key).respond(SimpleNamespace(), version) is None


@pytest.mark.parametrize("version", range(5))
def test_an_api_versions_request_that_cannot_name_a_broker_is_streamed(version):
    assert route(routes.API_VERSIONS).hold(GatewayState(), version) is None


def test_end_txn_is_held_only_if_all_records_may_be_dropped():
    end = route(routes.END_TXN)
    assert end.hold(GatewayState(judged=True), 5) is None
    for gateway in (GatewayState(intercepted=True), GatewayState(producers=("dropped before",))):
        assert end.hold(gateway, 5) is not None
        assert end.hold(gateway, 4) is None, "its client adds the partitions itself"


@pytest.mark.parametrize("version", [0, 1, 2])
def test_versions_of_produce_that_cannot_be_judged_are_not_served(version):
    produce = route(routes.PRODUCE)
    assert produce.hold(GatewayState(), version) is None
    assert produce.hold(GatewayState(shared="state that others may write to"), version) is None
    with pytest.raises(WireError, match=f"Produce version {version}"):
        produce.hold(GatewayState(judged=True), version)


def test_apis_that_are_served_before_authentication():
    assert {row.api_key for row in ROUTES if row.before_login} == {17, 18, 36}


def test_only_api_versions_has_a_response_to_an_unknown_version():
    assert [row.api_key for row in ROUTES if row.unsupported_version is not None] == [18]
