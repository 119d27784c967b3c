"""The options of `format("penstock")`: known options, in the words of Spark's Kafka source."""

import pytest

from penstock.configuration import ConfigurationError
from penstock.spark.source.source_bounds import EARLIEST, LATEST, OffsetBound
from penstock.spark.source.source_options import SourceOptions

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
    assert found.start == OffsetBound("startingTimestamp", timestamp_ms=5)
    assert found.end == EARLIEST


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"subscribe": "a,,b"}, "subscribe a,,b: names of topics"),
        ({"subscribe": "a-*"}, "subscribePattern takes a regular expression"),
        ({"subscribePattern": "a"}, "one of the options subscribe and subscribePattern"),
        ({"assign": "{}"}, "has no option assign"),
        ({"startingOffset": "latest"}, "startingOffsets is near it"),
        ({"startingOffsets": "first"}, "startingOffsets first: earliest, latest, or"),
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
