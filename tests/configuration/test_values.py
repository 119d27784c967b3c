"""Each kind of value: the texts that are read, and the texts that are refused with the valid values."""

import os

import pytest

from penstock.configuration import values
from penstock.configuration.values import Address, ListenerAddress

READ = [
    (values.text, " a b ", "a b"),
    (values.optional_text, "  ", ""),
    (values.whole_number(1, 9), " 1 ", 1),
    (values.whole_number(1, 9), "9", 9),
    (values.whole_number(-3, 9), "-3", -3),
    (values.number, "1.5", 1.5),
    (values.number, " -2e3 ", -2000.0),
    (values.error_code, "-1", -1),
    (values.error_code, "1", 1),
    (values.error_code, "32767", 32767),
    (values.one_of("Yes", "no"), " yES ", "Yes"),
    (values.one_of("", "no"), " ", ""),
    (values.boolean, "TRUE", True),
    (values.boolean, " false", False),
    (values.topic_name, " a.B_c-9 ", "a.B_c-9"),
    (values.topic_name, "a" * 249, "a" * 249),
    (values.topic_name, "...", "..."),
    (values.topic_name, "__consumer_offsets", "__consumer_offsets"),
    (values.optional_topic_name, " ", ""),
    (values.optional_topic_name, " t ", "t"),
    (values.topic_template, "${topic}.dead", "${topic}.dead"),
    (values.topic_template, "dead", "dead"),
    (values.topic_template, "_dead", "_dead"),
    (values.topic_template, "${topic}.", "${topic}."),
    (values.ratio, "0", 0.0),
    (values.ratio, "1.0", 1.0),
    (values.address, "a.b:0", Address("a.b", 0)),
    (values.address, "[::1]:65535", Address("::1", 65535)),
    (values.address, ":1", Address("", 1)),
    (values.local_address, ":9", Address("127.0.0.1", 9)),
    (values.local_address, "h:9", Address("h", 9)),
    (values.servers, "a:1, b:2,", (Address("a", 1), Address("b", 2))),
    (values.listener, "plaintext://:9", ListenerAddress(False, Address("", 9))),
    (values.listener, "SASL_PLAINTEXT://h:9", ListenerAddress(False, Address("h", 9))),
    (values.listener, "SSL://[::]:9", ListenerAddress(True, Address("::", 9))),
    (values.listener, "SASL_SSL://h:9", ListenerAddress(True, Address("h", 9))),
    (values.port_range, "5-7", range(5, 8)),
    (values.port_range, "1-65535", range(1, 65536)),
    (values.port_range, " 9 ", range(9, 10)),
    (values.class_name, " a.b:C ", "a.b:C"),
    (values.class_names, "a.B, c.D,", ("a.B", "c.D")),
    (values.class_patterns, "a.b.*, c:D", ("a.b.*", "c:D")),
    (values.key_patterns, "a.*,, b?", ("a.*", "b?")),
    (values.items, " a ,, b", ("a", "b")),
    (values.policy_names, "a-1,b_2", ("a-1", "b_2")),
    (values.policy_names, "", ()),
    (values.paths, f"/a{os.pathsep} /b {os.pathsep}", ("/a", "/b")),
]


@pytest.mark.parametrize(("read", "text", "value"), READ)
def test_a_value_is_read(read, text, value):
    assert read(text) == value


REFUSED = [
    (values.text, " ", "a value, not nothing"),
    (values.whole_number(1, 9), "0", "a whole number from 1 to 9"),
    (values.whole_number(1, 9), "10", "a whole number from 1 to 9"),
    (values.whole_number(-9, 9), "x", "a whole number from -9 to 9"),
    (values.whole_number(1, 9, "a digit"), "1.5", "a digit"),
    (values.number, "x", "a number"),
    (values.number, "nan", "a number"),
    (values.number, "-inf", "a number"),
    (values.error_code, "0", "the number of a Kafka error"),
    (values.error_code, "-2", "the number of a Kafka error"),
    (values.error_code, "32768", "the number of a Kafka error"),
    (values.error_code, "UNKNOWN", "the number of a Kafka error"),
    (values.one_of("Yes", "no"), "", "one of Yes, no$"),
    (values.one_of("", "no"), "yes", "one of no, or empty$"),
    (values.boolean, "1", "one of true, false$"),
    (values.topic_name, "", "the name of a topic"),
    (values.topic_name, ".", "the name of a topic"),
    (values.topic_name, "..", "the name of a topic"),
    (values.topic_name, "a" * 250, "the name of a topic"),
    (values.topic_name, "a b", "the name of a topic"),
    (values.optional_topic_name, "a b", "the name of a topic"),
    (values.topic_template, "${topic}", "with other characters"),
    (values.topic_template, "__${topic}", "not beginning with __"),
    (values.topic_template, "${Topic}.dead", "with other characters"),
    (values.topic_template, "..", "the name of a topic"),
    (values.ratio, "-0.1", "from 0.0 to 1.0"),
    (values.ratio, "1.1", "from 0.0 to 1.0"),
    (values.ratio, "nan", "from 0.0 to 1.0"),
    (values.ratio, "10%", "from 0.0 to 1.0"),
    (values.address, "h", "host:port"),
    (values.address, "h:65536", "up to 65535"),
    (values.address, "::1:9", "host:port"),
    (values.address, "h/a:9", "host:port"),
    (values.local_address, "h", ":port for 127.0.0.1"),
    (values.servers, " ", "host:port, or several"),
    (values.servers, "a:1,:2", "host:port, or several"),
    (values.servers, "a:1,b:0", "host:port, or several"),
    (values.listener, "SSL://a:1,SSL://b:1", "one listener"),
    (values.listener, "a:1", "PLAINTEXT://host:port"),
    (values.listener, "TLS://a:1", "PLAINTEXT://host:port"),
    (values.port_range, "7-5", "the smaller one first"),
    (values.port_range, "0-5", "from 1 to 65535"),
    (values.port_range, "5-65536", "from 1 to 65535"),
    (values.port_range, "5-", "FIRST-LAST"),
    (values.class_name, "C", "package.module.Class"),
    (values.class_name, "a.1b.C", "package.module.Class"),
    (values.class_name, "a.*", "package.module.Class"),
    (values.class_names, "a.B,a:B", "each named once"),
    (values.class_patterns, "a*", r"package.\*"),
    (values.policy_names, "a,a", "each once"),
    (values.policy_names, "a.b", "letters, digits"),
    (values.policy_names, "a" * 101, "letters, digits"),
]  # fmt: skip


@pytest.mark.parametrize(("read", "text", "valid"), REFUSED)
def test_a_wrong_value_is_refused_with_the_valid_values(read, text, valid):
    with pytest.raises(ValueError, match=valid):
        read(text)


@pytest.mark.parametrize("text", ["SSL://[::1]:9", "PLAINTEXT://h:9"])
def test_a_listener_is_written_as_it_is_read(text):
    assert str(values.listener(text)) == text


@pytest.mark.parametrize(
    ("key", "is_secret"),
    [
        ("sasl.jaas.config", True),
        ("basic.auth.user.info", True),
        ("SSL.KEY.PASSWORD", True),
        ("ssl.keystore.key", True),
        ("ssl.keystore.location", False),
        ("sasl.oauthbearer.token.endpoint.url", True),
        ("client.id", False),
    ],
)
def test_the_name_of_a_key_shows_whether_its_value_may_be_a_secret(key, is_secret):
    assert values.may_be_secret(key) is is_secret


def test_both_spellings_of_a_class_are_the_same():
    assert values.dotted("a.b:C") == values.dotted("a.b.C") == "a.b.C"
