"""The options of `format("penstock")`: known options, in the words of Spark's Kafka source."""

import pytest

from penstock.configuration import ConfigurationError
from penstock.kafka.cluster.ranges import Partition
from penstock.spark.source.bounds import (
    EARLIEST,
    LATEST,
    OffsetBound,
    check_batch,
    check_order,
    parse_offsets,
    parse_timestamp,
)
from penstock.spark.source.options import SourceOptions

pytestmark = pytest.mark.unit
LEAST = {"kafka.bootstrap.servers": "k:9092", "subscribe": "orders"}


def read(**given):
    return SourceOptions.read({**LEAST, **{k.replace("__", "."): v for k, v in given.items()}})


def test_defaults():
    found = read()
    assert (found.plan, found.topics, found.pattern) == (None, ("orders",), None)
    assert found.client == {"bootstrap.servers": "k:9092"}
    assert (found.start, found.end, found.tasks, found.batch_offsets) == (None, None, None, None)
    assert found.fails_on_loss
    assert found.with_headers
    assert found.records_policy_batch == 1


def test_the_case_does_not_matter():
    found = SourceOptions.read(
        {"PLAN": "f", "SubscribePattern": "o.*", "STARTINGOFFSETS": "Latest",
         "failOnDataLoss": "FALSE", "MinPartitions": " 7 ", "maxoffsetspertrigger": "9"}
    )  # fmt: skip
    assert found.pattern is not None
    assert found.pattern.pattern == "o.*"
    assert (found.start, found.fails_on_loss) == (LATEST, False)
    assert (found.tasks, found.batch_offsets) == (7, 9)


def test_a_time_wins_over_offsets():
    found = read(startingOffsets="earliest", startingTimestamp="5", endingOffsets="earliest")
    assert found.start == OffsetBound("startingTimestamp", timestamp_ms=5, needs_record=True)
    assert found.end == EARLIEST
    found = read(startingTimestamp="5", startingOffsetsByTimestampStrategy="LATEST")
    assert found.start == OffsetBound("startingTimestamp", timestamp_ms=5)
    assert read(endingTimestamp="5").end == OffsetBound("endingTimestamp", timestamp_ms=5)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"subscribe": "a,,b"}, "subscribe a,,b: names of topics"),
        ({"subscribe": "a-*"}, "subscribePattern takes a regular expression"),
        ({"subscribePattern": "a"}, "one of the options subscribe and subscribePattern"),
        ({"assign": "{}"}, "has no option assign: name topics with subscribe"),
        ({"startingOffsetsByTimestamp": "{}"}, "use startingTimestamp, a time for all partitions"),
        ({"endingOffsetsByTimestamp": "{}"}, "use endingTimestamp, a time for all partitions"),
        ({"includeTimestamp": "true"}, "no option includeTimestamp: timestamp is always a column"),
        ({"maxOffsets": "1"}, "has no option maxoffsets; there are plan, subscribe,"),
        ({"kafka__group.id": "g"}, "no option kafka.group.id: no consumer group is used"),
        ({"kafka__auto.offset.reset": "earliest"}, "kafka.auto.offset.reset: use startingOffsets"),
        ({"kafka__enable.auto.commit": "true"}, "kafka.enable.auto.commit: no offsets are"),
        ({"kafka__key.deserializer": "x"}, "kafka.key.deserializer: keys are bytes"),
        ({"kafka__value.deserializer": "x"}, "kafka.value.deserializer: values are bytes"),
        ({"kafka__interceptor.classes": "x"}, "kafka.interceptor.classes: interceptors of the"),
        ({"startingOffset": "latest"}, "startingOffsets is near it"),
        ({"startingOffsets": "first"}, "startingOffsets first: earliest, latest, or"),
        (
            {"startingTimestamp": "5", "startingOffsetsByTimestampStrategy": "first"},
            "startingOffsetsByTimestampStrategy first: error or latest",
        ),
        ({"startingTimestamp": "today"}, "milliseconds since 1970"),
        ({"failOnDataLoss": "no"}, "failOnDataLoss no: true or false"),
        ({"minPartitions": "0"}, "minPartitions 0: a number of at least 1"),
        ({"minPartitions": "9" * 5000}, "a number of at least 1, with at most 18 digits"),
        ({"startingTimestamp": "9" * 30}, "milliseconds since 1970"),
        ({"maxOffsetsPerTrigger": "-1"}, "a number of at least 1"),
        ({"kafka__isolation.level": "read_uncommitted"}, "only read_committed"),
    ],
)
def test_unusable_options(given, text):
    with pytest.raises(ConfigurationError, match=text):
        read(**given)


def test_a_table_of_a_catalog_is_an_error_when_it_is_created():
    """Its readers would get no options."""
    with pytest.raises(ConfigurationError, match="use CREATE TEMPORARY VIEW"):
        read(provider="penstock", path="file:/warehouse/orders", option__subscribe="orders")


def test_a_batch_starts_and_ends_where_it_can_have_records():
    check_batch(EARLIEST, LATEST)
    check_batch(
        parse_offsets('{"a": {"0": -2}}', key="s"), parse_offsets('{"a": {"0": -1}}', key="e")
    )
    check_batch(parse_timestamp("5", key="s"), parse_timestamp("4", key="e"))
    for start in (LATEST, parse_offsets('{"a": {"0": 5, "1": -1}}', key="startingOffsets")):
        with pytest.raises(
            ConfigurationError, match=r"startingOffsets latest \(-1\): a batch has no"
        ):
            check_batch(start, LATEST)
    for end in (EARLIEST, parse_offsets('{"a": {"0": 5, "1": -2}}', key="endingOffsets")):
        with pytest.raises(
            ConfigurationError, match=r"endingOffsets earliest \(-2\): a batch has no"
        ):
            check_batch(EARLIEST, end)


def test_no_partition_ends_before_its_start():
    place, partitions = parse_timestamp("5", key="startingTimestamp"), (Partition("a", 0),)
    starts, ends = dict.fromkeys(partitions, 7), dict.fromkeys(partitions, 6)
    check_order(place, ends, starts)
    check_order(place, starts, starts)
    check_order(EARLIEST, starts, ends)  # records that retention has removed
    with pytest.raises(
        ConfigurationError, match=r"startingTimestamp: .* offset 7, after its end 6"
    ):
        check_order(place, starts, ends)


def test_no_cluster_and_an_invalid_pattern():
    with pytest.raises(ConfigurationError, match="name the configuration file as option plan"):
        SourceOptions.read({"subscribe": "a"})
    with pytest.raises(ConfigurationError, match=r"subscribePattern \(: "):
        SourceOptions.read({"plan": "f", "subscribePattern": "("})


@pytest.mark.parametrize(
    "key",
    ["sasl.jaas.config", "ssl.key.password", "ssl.keystore.key", "sasl.login.client.secret"],
)
def test_a_secret_is_not_an_option(key):
    with pytest.raises(ConfigurationError, match="a secret is not an option") as raised:
        SourceOptions.read({**LEAST, f"kafka.{key}": "top-secret"})
    assert "top-secret" not in str(raised.value)
    allowed = SourceOptions.read({**LEAST, f"kafka.{key}": "${env:SECRET}"})
    assert allowed.client[key] == "${env:SECRET}"


def test_the_address_of_a_token_is_no_secret():
    url = "https://login/token"
    assert read(**{"kafka__sasl.oauthbearer.token.endpoint.url": url}).client[
        "sasl.oauthbearer.token.endpoint.url"
    ] == url  # fmt: skip
