"""The addresses that clients get instead of those of brokers."""

import structlog

from penstock.configuration import Address
from penstock.gateway.listening.addresses import Addresses, BrokerNames, BrokerPorts

BOOTSTRAP = Address("kafka", 9092)


def table(places):
    return Addresses(bootstrap=[BOOTSTRAP], advertised_host="gw.example", places=places)


def test_each_broker_has_its_own_port():
    opened = []
    addresses = table(
        BrokerPorts("gw.example", range(9193, 9196), 1, lambda *found: opened.append(found))
    )
    assert addresses.learn_for_clients(1, "kafka-1", 9092) == ("gw.example", 9193)
    assert addresses.learn_for_clients(3, "kafka-3", 9092) == ("gw.example", 9195)
    assert addresses.learn_for_clients(3, "kafka-3", 9092) == ("gw.example", 9195)
    assert opened == [(1, 9193), (3, 9195)]
    assert addresses.of_node(3) == Address("kafka-3", 9092)
    with structlog.testing.capture_logs() as logged:
        assert addresses.learn_for_clients(4, "kafka-4", 9092) == ("gw.example", 1)
    assert "its node id has no port" in logged[-1]["event"]
    assert opened == [(1, 9193), (3, 9195)]


def test_each_broker_has_its_own_name_and_all_share_a_port():
    seen = []
    addresses = table(BrokerNames(lambda node: f"broker-{node}.gw.example", 443, seen.append))
    assert addresses.learn_for_clients(1, "kafka-1", 9092) == ("broker-1.gw.example", 443)
    assert addresses.learn_for_clients(70_001, "k", 9092) == ("broker-70001.gw.example", 443)
    addresses.learn(1, Address("kafka-1-moved", 9092))
    assert seen == [1, 70_001]
    assert addresses.of_node(1) == Address("kafka-1-moved", 9092)
    # Never the broker's own address, of whatever node; none where there is no node.
    assert addresses.for_clients(9, "kafka-9", 9092) == ("broker-9.gw.example", 443)
    assert addresses.for_clients(-1, "kafka-9", 9092) == ("gw.example", 1)
    assert addresses.for_clients(-1, "", -1) == ("", -1)
    assert addresses.of_cluster()[0] == BOOTSTRAP
