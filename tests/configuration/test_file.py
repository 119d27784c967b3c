"""The configuration file: valid files, and refusals with their messages."""

from pathlib import Path
from string import Template

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from penstock.configuration import Address, ConfigurationError, load_configuration
from penstock.configuration.keys import Keys, extra
from penstock.configuration.properties import resolve_variables
from penstock.configuration.reference import default_text

LEAST = "upstream.bootstrap.servers=a:9092,b:9093\n"


def load(tmp_path, text: str):
    file = tmp_path / "penstock.properties"
    file.write_text(text)
    return load_configuration(file)


def test_defaults(tmp_path):
    configuration = load(tmp_path, LEAST)

    assert configuration.upstream_servers == (Address("a", 9092), Address("b", 9093))
    assert configuration.listener == (False, Address("127.0.0.1", 9192))
    assert configuration.policy_timeout_ms == 5000
    assert configuration.socket_request_max_bytes == 104857600
    assert configuration.decompressed_batch_max_bytes == 67108864
    assert configuration.produce_rejection_scope == "partition"
    assert configuration.warnings == ()
    assert configuration.folder == tmp_path


def test_values_are_read_as_kafka_reads_them(tmp_path):
    configuration = load(
        tmp_path,
        LEAST + "listeners = SSL://[::1]:9000\n"
        "broker.ports: 9001-9010\n"
        "record.validator.classes = a.B, \\\n   c.d:E,,\n"
        "record.validation.policy.class.name=x.Y\n"
        "record.validation.policy.class.path=lib:/opt/lib\n"
        "topics.pii-*.record.validation.policy=x-schema\n"
        "topics.a.b.records.policy.enabled=TRUE\n"
        "upstream.sasl.mechanism=PLAIN\n",
    )

    assert configuration.listener == (True, Address("::1", 9000))
    assert configuration.broker_ports == range(9001, 9011)
    assert configuration.record_validator_classes == ("a.B", "c.d:E")
    assert [str(path) for path in configuration.class_path] == [str(tmp_path / "lib"), "/opt/lib"]
    assert [(d.glob, d.key, d.value) for d in configuration.topic_defaults] == [
        ("pii-*", "record.validation.policy", "x-schema"),
        ("a.b", "records.policy.enabled", "TRUE"),
    ]
    assert configuration.upstream_properties["sasl.mechanism"] == "PLAIN"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a=1\na=2\n", ["line 2 and in line 3"]),
        ("a=1\n# text\n\nb=\\\n  2\n a : 2\n", ["line 2 and in line 7"]),
        ("a=1\r\nb=1\r\na=2", ["line 2 and in line 4"]),
        ("a=1\na=3\na=2\n", ["line 2 and in line 3", "line 3 and in line 4"]),
    ],
)
def test_the_last_value_of_a_repeated_key_applies_with_a_warning(tmp_path, text, lines):
    """As in Java; Kafka's tools do not warn."""
    found = load(tmp_path, LEAST + text)
    assert found.properties["a"] == "2"
    assert [line for line in found.warnings if line.startswith("a is in")] == [
        f"a is in {where}: the last value applies" for where in lines
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "upstream.bootstrap.servers is missing"),
        ("upstream.bootstrap.servers=nowhere", "must be host:port"),
        ("upstream.bootstrap.servers=a:70000", "must be host:port"),
        (LEAST + "listeners=127.0.0.1:9192", "listeners must be PLAINTEXT://host:port"),
        (LEAST + "listeners=PLAINTEXT://a:1,SSL://b:2", "one listener"),
        (LEAST + "broker.ports=20-10", "broker.ports must be FIRST-LAST"),
        (LEAST + "broker.ports=x", "broker.ports must be FIRST-LAST"),
        (LEAST + "policy.workers=0", "policy.workers must be a whole number from 1"),
        (LEAST + "policy.timeout.ms=soon", "policy.timeout.ms must be a whole number"),
        (LEAST + "record.validator.classes=a.B,a.B", "each named once"),
        (LEAST + "record.validator.classes=a.B,a:B", "each named once"),
        (LEAST + "record.validator.classes=not a class", "package.module.Class"),
        (LEAST + "record.validator.class=a.B", "did you mean record.validator.classes?"),
        (LEAST + "policy.timeout=5", "did you mean policy.timeout.ms?"),
        (LEAST + "records.policy.enabled=true", "write topics.<glob>.records.policy.enabled"),
        (LEAST + "topics.a.retention.ms=1", "must be topics.<glob>.<key>"),
        (LEAST + "topics.a.records.policy.enabled=maybe", "must be one of true, false"),
        (LEAST + "topics..records.policy.enabled=true", "must be topics.<glob>.<key>"),
        (LEAST + "produce.rejection.scope=topic", "must be one of partition, request"),
        (LEAST + "metrics.listener=9100", "metrics.listener must be host:port, or :port"),
        (LEAST + "metrics.listener=localhost:99100", "with a port up to 65535"),
        (LEAST + "console.peers=gateway-2", "with a port up to 65535"),
        (LEAST + "console.peers=gateway-2:99100", "with a port up to 65535"),
        (LEAST + "console.peers=gateway-2:0", "console.peers must be host:port, or several"),
        (LEAST + "console.peers=http://gateway-2:9100", "console.peers must be host:port"),
        (LEAST + "console.peers=:9100", "console.peers must be host:port, or several"),
        (LEAST + "console.peers=a:1,A:1", "separated by commas, each once"),
        (LEAST + f"console.peers={','.join(f'a:{port}' for port in range(1, 22))}", "at most 20"),
        (LEAST + "own.key=${env:PENSTOCK_NO_SUCH}", "PENSTOCK_NO_SUCH, which is not set"),
        (LEAST + "own.key=${file:none.txt}", "none.txt"),
        (LEAST + "own.key=${file:secrets.properties:missing}", "has no key missing"),
    ],
)
def test_an_error_names_the_file_and_the_key(tmp_path, text, message):
    (tmp_path / "secrets.properties").write_text("password=xyz\n")
    with pytest.raises(ConfigurationError) as raised:
        load(tmp_path, text)

    assert message in str(raised.value)
    assert "penstock.properties" in str(raised.value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("${ENV:TOKEN}", "has a variable of ENV, which is no provider, did you mean env?"),
        ("${File:token}", "has a variable of File, which is no provider, did you mean file?"),
        ("a${secrets:team/penstock:token}b", "has a variable of secrets, which is no provider"),
        ("${TOKEN}", "has a variable without a provider"),
        ("${}", "has a variable without a provider"),
        ("${:TOKEN}", "has a variable without a provider"),
        ("${env:}", "has a variable of env without a name"),
        ("${file:}", "has a variable of file without a name"),
        ("${env:PENSTOCK_TEST_SECRET", "has a ${ without its }"),
        ("${env:PENSTOCK_TEST_SECRET}${", "has a ${ without its }"),
        ("${topic}", "has a variable without a provider"),
    ],
)
@pytest.mark.parametrize(
    "key",
    [
        "metrics.listener.token",
        "upstream.ssl.key.password",
        "schema.registry.bearer.auth.token",
        "policies.a.key",
        "topics.a.record.validation.policy",
        "own.key",
    ],
)
def test_a_variable_that_nobody_fills_in_is_an_error(tmp_path, monkeypatch, key, value, message):
    """Otherwise the value is the text, which anybody can guess."""
    monkeypatch.setenv("PENSTOCK_TEST_SECRET", "hunter2")
    with pytest.raises(ConfigurationError) as raised:
        load(tmp_path, LEAST + f"{key}={value}\n")
    assert str(raised.value) == (
        f"{tmp_path}/penstock.properties: {key} {message}: "
        "write ${env:NAME}, ${file:PATH} or ${file:PATH:KEY}"
    )


@settings(max_examples=1500, deadline=None)
@given(st.text(alphabet="${}:aenvEfil", max_size=20))
def test_no_value_keeps_a_variable_as_text(text):
    """`string.Template` finds what an author may have meant as a variable."""
    try:
        found = resolve_variables(Path("p.properties"), {"own.key": text})["own.key"]
    except ConfigurationError as error:
        assert "${" in text
        assert "own.key" in str(error)
    else:
        assert found == text
        assert not any(match["braced"] for match in Template.pattern.finditer(text))


@pytest.mark.parametrize("key", ["errors.deadletterqueue.topic.name", "topics.a.{}"])
def test_the_name_of_a_dead_letter_topic_may_have_both_kinds_of_variables(
    tmp_path, monkeypatch, key
):
    monkeypatch.setenv("PENSTOCK_TEST_TEAM", "shop")
    key = key.format("errors.deadletterqueue.topic.name")
    found = load(tmp_path, LEAST + f"{key}=${{env:PENSTOCK_TEST_TEAM}}.${{topic}}.dead\n")
    assert found.topic_defaults[0].value == "shop.${topic}.dead"
    with pytest.raises(ConfigurationError, match="has a variable of ENV"):
        load(tmp_path, LEAST + f"{key}=${{ENV:PENSTOCK_TEST_TEAM}}.dead\n")


def test_a_key_cannot_have_a_variable(tmp_path):
    with pytest.raises(ConfigurationError, match=r"\$\{env:A\}\.key: a key cannot have a variable"):
        load(tmp_path, LEAST + "${env\\:A}.key=1\n")


def test_secrets_come_from_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_TEST_SECRET", "from env ${file:x}")
    (tmp_path / "secret.txt").write_bytes(b"\xef\xbb\xbffrom file\n")
    (tmp_path / "secrets.properties").write_text("password=from key\n")

    properties = load(
        tmp_path,
        LEAST + "a.one=${env:PENSTOCK_TEST_SECRET}\n"
        "a.two=[${file:secret.txt}]\n"
        "a.three=${file:secrets.properties:password}\n",
    ).properties

    assert [properties[f"a.{n}"] for n in ("one", "two", "three")] == [
        "from env ${file:x}",
        "[from file]",
        "from key",
    ]


@pytest.mark.parametrize(
    ("policy", "keys"),
    [
        ("Required", ["fields=id", "null.fields=accept"]),
        ("Rules", ["rules.a=true", "rules.a.message=no", "format=json"]),
        ("DataContract", ["contract=orders.yaml", "object=orders"]),
        ("HeaderRequired", ["headers=n", "headers.n.pattern=a"]),
        ("MaxBytes", ["value.max.bytes=1"]),
    ],
)
def test_the_keys_of_a_built_in_policy_without_a_name_are_known(tmp_path, policy, keys):
    text = LEAST + "\n".join(keys)
    named = f"\nrecord.validation.policy.class.name=penstock.policies.{policy}"
    assert load(tmp_path, text + named).warnings == ()
    assert len(load(tmp_path, text).warnings) == len(keys)


def test_a_misspelt_key_of_a_built_in_policy_is_refused(tmp_path):
    text = "record.validation.policy.class.name=penstock.policies.Required\nfields=a\nnull.field=x"
    with pytest.raises(ConfigurationError, match=r"null\.field is unknown; did you mean null\.f"):
        load(tmp_path, LEAST + text)


@pytest.mark.parametrize("key", ["acme.record.validation.policy", "acme.records.policy.enabled"])
def test_a_key_of_a_users_policy_may_end_like_a_key_of_the_proposals(tmp_path, key):
    (warning,) = load(tmp_path, f"{LEAST}{key}=x").warnings
    assert warning == f"{key} is unknown to Penstock; it is handed to the policies' configure()"


@pytest.mark.parametrize("key", ["topic.a.record.validation.policy", "acme.penstock.mode"])
def test_a_topic_level_key_for_the_wrong_beginning_is_refused(tmp_path, key):
    with pytest.raises(ConfigurationError, match=r"is unknown; write topics\.<glob>\."):
        load(tmp_path, f"{LEAST}{key}=x")


@pytest.mark.parametrize("glob", ["orders,payments", "{a,b}", "orders[12", "orders/eu", "a" * 250])
def test_a_glob_that_can_match_no_topic_is_refused(tmp_path, glob):
    with pytest.raises(ConfigurationError) as raised:
        load(tmp_path, LEAST + f"topics.{glob}.penstock.mode=mark\n")
    assert str(raised.value).startswith(
        f"{tmp_path}/penstock.properties: topics.{glob}.penstock.mode: {glob} "
    )
    assert "matches no topic" in str(raised.value)


@pytest.mark.parametrize("glob", ["^orders", "orders$", "orders.+", "orders|payments", "o\\\\.eu"])
def test_a_glob_that_is_written_as_a_regular_expression_is_warned_about(tmp_path, glob):
    text = f"topics.{glob}.penstock.mode=mark\ntopics.{glob}.record.validation.policy=x\n"
    (warning,) = load(tmp_path, LEAST + text).warnings
    assert "is a glob, not a regular expression, and matches no topic" in warning


def test_a_single_port_for_brokers_is_warned_about(tmp_path):
    (warning,) = load(tmp_path, LEAST + "broker.ports=9193\n").warnings
    assert warning.startswith("broker.ports=9193 is one port, so clients can reach one broker only")
    assert load(tmp_path, LEAST + "broker.ports=9193-9193\n").warnings == ()


@pytest.mark.parametrize(
    "key",
    [
        "audit.topic",
        "topic.settings.topic",
        "redrive.places.topic",
        "produce.request.interceptors.state.topic",
    ],
)
@pytest.mark.parametrize("name", ["a,b", "{a,b}", "a*", "..", "a" * 250])
def test_the_name_of_a_topic_is_a_name(tmp_path, key, name):
    with pytest.raises(ConfigurationError, match=f"{key} must be the name of a topic"):
        load(tmp_path, LEAST + f"{key}={name}\n")


def test_unknown_keys_are_kept_and_warned_about(tmp_path):
    configuration = load(tmp_path, LEAST + "shop.currency=EUR\n")

    assert configuration.properties["shop.currency"] == "EUR"
    assert "shop.currency is unknown" in configuration.warnings[0]


@pytest.mark.parametrize(
    ("protocol", "keystore", "warned"),
    [
        ("SSL", True, True),
        ("ssl", True, True),
        ("SSL", False, False),
        ("SASL_SSL", True, False),
        ("PLAINTEXT", True, False),
    ],
)
def test_a_single_principal_for_all_clients_is_warned_about(tmp_path, protocol, keystore, warned):
    text = LEAST + f"upstream.security.protocol={protocol}\n"
    if keystore:
        text += "upstream.ssl.keystore.type=PEM\nupstream.ssl.keystore.location=gateway.pem\n"
    warnings = " ".join(load(tmp_path, text).warnings)
    assert ("every client acts in the cluster as the principal" in warnings) is warned


def test_keys_and_certificates_may_be_in_the_file(tmp_path):
    keys = ("ssl.keystore.key", "ssl.keystore.certificate.chain", "ssl.truststore.certificates")
    text = "".join(f"{key}=-----BEGIN ...\n" for key in keys)
    assert load(tmp_path, LEAST + "listeners=SSL://127.0.0.1:9192\n" + text).warnings == ()


def test_a_key_of_a_built_in_policy_that_none_reads_is_warned_about(tmp_path):
    (warning,) = load(tmp_path, LEAST + "topic.rules.partitions.max=12\n").warnings
    assert warning.startswith("topic.rules.partitions.max has no effect")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("upstream.send.buffer.bytes=64k\n", "upstream.send.buffer.bytes must be a whole number"),
        (
            "upstream.security.protocol=SASL_SSL\nupstream.sasl.mechanism=OAUTHBEARER\n",
            "upstream.sasl.mechanism=OAUTHBEARER needs upstream.sasl.oauthbearer.token.endpoint",
        ),
    ],
)
def test_a_wrong_key_of_a_client_is_named_when_the_file_is_read(tmp_path, text, message):
    with pytest.raises(ConfigurationError, match=f"penstock.properties: {message}"):
        load(tmp_path, LEAST + text)


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", None])
def test_a_file_that_cannot_be_read(tmp_path, content):
    file = tmp_path / "x.properties"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigurationError) as raised:
        load_configuration(file)
    assert "x.properties" in str(raised.value)


WITH_DEFAULT = [field for field in Keys.model_fields.values() if default_text(field)]


@pytest.mark.parametrize("field", [pytest.param(key, id=key.alias) for key in WITH_DEFAULT])
def test_a_default_equals_the_value_of_its_text(field):
    """The reference shows the text."""
    text = default_text(field)

    read = Keys.model_validate({"upstream.bootstrap.servers": "a:1", field.alias: text})

    assert read.model_dump(by_alias=True)[field.alias] == field.default


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("policy.timeout.ms=soon", "must be a whole number from 1 to 2147483647; it is 'soon'"),
        ("listeners=here", "(or SASL_PLAINTEXT, SASL_SSL); it is 'here'"),
        ("topics.a.records.policy.enabled=maybe", "must be one of true, false; it is 'maybe'"),
        ("advertised.host=", "must be a value, not nothing; it is ''"),
        ("policy.workers=1\\n2", "it is '1\\n2'"),
        ("policy.workers=" + "x" * 300, "it is '" + "x" * 200 + "...'"),
    ],
)
def test_an_error_shows_the_value_that_was_given(tmp_path, line, message):
    with pytest.raises(ConfigurationError) as raised:
        load(tmp_path, LEAST + line)

    assert str(raised.value).endswith(message)


@pytest.mark.parametrize("key", ["policy.timeout.ms", "topics.a.records.policy.enabled"])
def test_an_error_does_not_show_the_value_of_a_variable(tmp_path, monkeypatch, key):
    monkeypatch.setenv("PENSTOCK_TEST_SECRET", "hunter2")
    with pytest.raises(ConfigurationError) as raised:
        load(tmp_path, LEAST + f"{key}=${{env:PENSTOCK_TEST_SECRET}}\n")

    assert "it is '${env:PENSTOCK_TEST_SECRET}'" in str(raised.value)
    assert "hunter2" not in str(raised.value)


def test_values_cannot_be_changed(tmp_path):
    configuration = load(tmp_path, LEAST)

    with pytest.raises(ValidationError):
        configuration.policy_timeout_ms = 1
    with pytest.raises(TypeError):
        configuration.properties["policy.timeout.ms"] = "1"


def test_values_may_be_replaced_before_they_are_checked(tmp_path):
    file = tmp_path / "penstock.properties"
    file.write_text("upstream.x=${env:PENSTOCK_NO_SUCH}\npolicy.workers=none\n")

    configuration = load_configuration(
        file,
        without="upstream.",
        replaced={"upstream.bootstrap.servers": "a:1", "policy.workers": "2"},
    )

    assert configuration.upstream_properties == {"bootstrap.servers": "a:1"}
    assert configuration.policy_workers == 2


def test_which_changes_take_effect_at_a_restart(tmp_path):
    before = load(tmp_path, LEAST + "max.connections=1\nssl.client.auth=none\n")
    after = load(
        tmp_path,
        LEAST.replace("b:", "c:") + "produce.request.interceptors.state.topic=there\n"
        "broker.ids.first=5\npolicy.timeout.ms=1\nown.key=1\nupstream.sasl.mechanism=PLAIN\n"
        "topics.a.record.validation.policy=x\nrecord.validation.policy.class.name=x.Y\n",
    )

    assert before.changed_until_restart(after) == [
        "broker.ids.first",
        "max.connections",
        "produce.request.interceptors.state.topic",
        "ssl.client.auth",
        "upstream.bootstrap.servers",
        "upstream.sasl.mechanism",
    ]
    assert before.changed_until_restart(before) == []


def test_a_restart_is_needed_for_no_key_about_policies():
    at_restart = {
        field.alias for field in Keys.model_fields.values() if not extra(field)["reloaded"]
    }

    assert {name for name in at_restart if "policy" in name or "validat" in name} == set()
    assert {"upstream.security.protocol", "listeners", "topic.settings.topic"} < at_restart
