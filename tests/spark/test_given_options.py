"""Options of `format("penstock")`: in any case, known, and without secrets."""

import pytest

from penstock.configuration import ConfigurationError
from penstock.spark.given_options import GivenOptions

pytestmark = pytest.mark.unit
NAMES = ("plan", "topic", "failOnOrderLoss")
INSTEAD = {"includeHeaders": "headers are read always", "kafka.group.id": "no group is used"}


def read(options, of_spark=()):
    return GivenOptions.read(options, NAMES, does="has", of_spark=of_spark, instead=INSTEAD)


def test_options_are_divided_and_their_case_does_not_matter():
    found = read({"PLAN": "f", "Topic": "T", "KAFKA.Client.Id": "Me", "path": "p"}, ("path",))
    assert found.own == {"plan": "f", "topic": "T", "path": "p"}
    assert found.client == {"client.id": "Me"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"topik": "t"}, "has no option topik; topic is near it"),
        ({"failonorderlos": "t"}, "has no option failonorderlos; failOnOrderLoss is near it"),
        ({"mode": "t"}, "has no option mode; there are plan, topic, failOnOrderLoss"),
        ({"path": "p"}, "has no option path; there are plan, topic, failOnOrderLoss"),
        ({"INCLUDEHEADERS": "true"}, "has no option includeHeaders: headers are read always"),
        ({"kafka.GROUP.id": "g"}, "has no option kafka.group.id: no group is used"),
        ({"provider": "penstock"}, "cannot be a table of a catalog"),
    ],
)
def test_other_options_are_an_error(options, message):
    with pytest.raises(ConfigurationError) as raised:
        read(options)
    assert str(raised.value).startswith(f'format("penstock") {message}')


@pytest.mark.parametrize(
    ("text", "value"), [(None, True), ("true", True), (" FALSE ", False), ("false", False)]
)
def test_a_boolean_is_true_by_default(text, value):
    options = {} if text is None else {"failOnOrderLoss": text}
    assert read(options).boolean("failOnOrderLoss") is value


@pytest.mark.parametrize("text", ["", "1", "yes"])
def test_another_boolean_is_an_error(text):
    with pytest.raises(ConfigurationError, match=f"^failOnOrderLoss {text}: true or false$"):
        read({"failOnOrderLoss": text}).boolean("failOnOrderLoss")


def test_a_plan_or_the_cluster_is_named():
    assert read({"plan": "f"}).plan() == "f"
    assert read({"kafka.bootstrap.servers": "a:1"}).plan() is None
    with pytest.raises(ConfigurationError, match="name the configuration file as option plan"):
        read({"kafka.client.id": "me"}).plan()


@pytest.mark.parametrize(
    ("key", "value", "is_secret"),
    [
        ("sasl.jaas.config", "x", True),
        ("ssl.key.password", "${env:PASSWORD}", False),
        ("sasl.oauthbearer.token.endpoint.url", "https://a", False),
        ("ssl.truststore.location", "/a", False),
    ],
)
def test_a_secret_is_no_option(key, value, is_secret):
    found = read({"plan": "f", f"kafka.{key}": value})
    if not is_secret:
        assert found.plan() == "f"
        return
    with pytest.raises(ConfigurationError, match=f"^kafka.{key}: a secret is not an option") as why:
        found.plan()
    assert f"upstream.{key}" in str(why.value)


@pytest.mark.parametrize(("level", "is_taken"), [("read_committed", True), ("read_all", False)])
def test_only_committed_records_are_read(level, is_taken):
    found = read({"plan": "f", "kafka.isolation.level": level})
    if is_taken:
        assert found.plan() == "f"
        return
    with pytest.raises(ConfigurationError, match="only read_committed"):
        found.plan()
