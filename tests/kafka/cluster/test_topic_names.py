"""`--topic`: names and globs."""

import pytest

from penstock.configuration import ConfigurationError
from penstock.kafka.cluster.topic_names import existing, means, select

EXISTING = ["orders-eu", "orders-us", "payments", "__consumer_offsets", "__orders"]


@pytest.mark.parametrize(
    ("given", "topics"),
    [
        ("payments", ["payments"]),
        ("payments, orders-us", ["payments", "orders-us"]),
        ("orders-*", ["orders-eu", "orders-us"]),
        ("orders-?s,payments", ["orders-us", "payments"]),
        ("orders-us,orders-*,orders-us", ["orders-us", "orders-eu"]),
        ("orders-[eu]*,*", ["orders-eu", "orders-us", "payments"]),
        ("*", ["orders-eu", "orders-us", "payments"]),
        ("__consumer_offsets", ["__consumer_offsets"]),
    ],
)
def test_names_and_globs(given, topics):
    assert list(select(given, EXISTING, servers="k:9092")) == topics
    assert list(existing(given, EXISTING)) == topics


def test_a_name_need_not_exist():
    assert means(("orders", "pay*"), "payments")
    assert means(("orders", "__a"), "__a")
    assert not means(("orders", "*"), "__a")


def test_fewer_or_no_topics_may_exist_now():
    assert existing("payments,gone,orders-*,back-*", EXISTING) == (
        "payments",
        "orders-eu",
        "orders-us",
    )
    assert existing("gone,back-*", EXISTING) == ()


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            "order-eu",
            "there is no topic order-eu on k:9092; create it, or name another (near it: orders-eu, orders-us",
        ),
        ("payments,xyz", "there is no topic xyz on k:9092; create it, or name another"),
        ("returns-*", "--topic returns-*: no topic on k:9092 matches"),
        ("__*", "--topic __*: no topic on k:9092 matches"),
        ("payments,,x", "--topic payments,,x: names and globs, separated by commas"),
        (",", "--topic ,: names and globs"),
    ],
)
def test_topics_that_do_not_exist(given, text):
    with pytest.raises(ConfigurationError) as raised:
        select(given, EXISTING, servers="k:9092")
    assert str(raised.value).startswith(text)
