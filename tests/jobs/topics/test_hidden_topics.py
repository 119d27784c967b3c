"""Topics that a glob matches and no list has; `tests/integration/test_security.py` uses ACLs."""

from types import SimpleNamespace

import pytest

from penstock.jobs.topics.hidden_topics import hidden_topics, logged_topics
from penstock.kafka.client.errors import DeniedError

pytestmark = pytest.mark.unit

NAMES = {"orders-1", "orders-2", "orders-3", "payments", "__internal"}


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("orders-*", ("orders-2", "orders-3")),
        ("orders-*,payments", ("orders-2", "orders-3")),
        ("*", ("orders-2", "orders-3", "payments")),
        ("payments", ()),
        ("x*", ()),
    ],
)
def test_globs_match_topics_that_are_hidden(given, found):
    requested = []
    cluster = SimpleNamespace(hidden=lambda names: requested.extend(names) or names)
    assert hidden_topics(cluster, given, NAMES, {"orders-1"}) == found
    assert sorted(requested) == list(found)


def test_topics_that_are_written_to_are_left_out():
    cluster = SimpleNamespace(hidden=set)
    assert hidden_topics(cluster, "*", NAMES, (), without={"payments"}) == tuple(
        sorted(NAMES - {"payments", "__internal"})
    )


def test_topics_of_all_brokers():
    def send(node, request, _):
        assert request.topics is None
        topic = SimpleNamespace(name=f"t{node}")
        return SimpleNamespace(results=[SimpleNamespace(topics=[topic, topic])])

    connection = SimpleNamespace(nodes=lambda: (1, 2), send=send)
    assert logged_topics(connection) == {"t1", "t2"}


def test_brokers_that_do_not_answer_are_no_error():
    def send(*_):
        raise DeniedError(31, "log dirs")

    assert logged_topics(SimpleNamespace(nodes=lambda: (1,), send=send)) == frozenset()
