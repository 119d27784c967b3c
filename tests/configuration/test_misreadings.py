"""What Java's rules for `.properties` files make of a line, against `javaproperties`."""

import javaproperties
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.configuration.misreadings import misreadings
from penstock.configuration.properties import load_properties

LOST = "loses its backslash, as in Java: write"


def warnings_of(tmp_path, text: str) -> list[str]:
    file = tmp_path / "p.properties"
    file.write_text(text)
    return load_properties(file, file).warnings


@pytest.mark.parametrize(
    ("text", "line", "lost"),
    [
        (r"rules.a=value.id.matches('\d+')", 2, [r"\d"]),
        (r"topic.rules.name.pattern=[a-z]+(\.[a-z]+)*\.\w", 2, [r"\.", r"\w"]),
        ("a=b,\\\n  c\\d", 3, [r"\d"]),
        (r"topics.orders\.eu.penstock.mode=mark", 2, [r"\."]),
        (r"rules.a=a.matches('\\d+\\.\\d')", 2, []),
        (r"a=\t\n\r\f\u0041\:\=\#\!\ \\\"\'", 2, []),
        ("a=b,\\\n  c", 2, []),
        (r"# \d is a digit", 2, []),
    ],
)
def test_a_lost_backslash_is_named_with_its_line_and_the_right_spelling(tmp_path, text, line, lost):
    key = text.replace("\\.eu", ".eu").partition("=")[0]
    found = warnings_of(tmp_path, f"first=1\n{text}\n")
    assert found == [f"line {line}: {key}: {each} {LOST} \\{each}" for each in lost]


@pytest.mark.parametrize(
    "key", ["upstream.sasl.jaas.config", "ssl.key.password", "metrics.listener.token"]
)
def test_a_warning_shows_nothing_of_a_secret(tmp_path, key):
    (found,) = warnings_of(tmp_path, f"{key}=a\\zb\\qc")
    assert found == f"line 1: {key}: a backslash is lost, as in Java: write two for one"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("penstock.mode=observe # until May", 1),
        ("penstock.mode=observe #until May", 1),
        ("penstock.mode= # observe", 1),
        ("penstock.mode observe\t# until May", 1),
        ("policies=a,\\\n  # b,\\\n  c", 2),
        ("policies=a,\\\n# b,\\\n  c", 2),
        ("colour=#fff", 0),
        ("colour = #fff", 0),
        ("url=http://a/#b", 0),
        ("rules.a.message=order \\# 5", 0),
        ("rules.a.message=order\\ #5", 0),
        ("# comment # and more", 0),
        ("! comment # and more", 0),
        ("rules.a=has(value.a) && !value.b", 0),
    ],
)
def test_a_comment_behind_a_value_is_named_with_its_line(tmp_path, text, line):
    found = warnings_of(tmp_path, text + "\n")
    assert [each.partition(": ")[0] for each in found] == ([f"line {line}"] if line else [])
    assert all("belong to the value" in each and "\\#" in each for each in found)


@settings(max_examples=1500, deadline=None)
@given(st.text(alphabet="ab\\ \t#=:\n.d1", max_size=30))
def test_each_backslash_that_java_drops_is_named(text):
    """The reference parses the line with the right spelling, and without it."""
    elements = [
        element
        for element in javaproperties.parse(text)
        if isinstance(element, javaproperties.KeyValue)
    ]
    for element in elements:
        found = list(misreadings(element.key, element.value, element.source, 1))
        lost = [each.split()[2] for each in found if LOST in each]
        has_comment = any("belong to the value" in each for each in found)
        right = element.source
        for each in ("\\a", "\\b", "\\.", "\\d", "\\1"):
            # An even number of backslashes before it is none for Java.
            right = "\\\\".join(part.replace(each, "\\" + each) for part in right.split("\\\\"))
        (kept,) = javaproperties.loads(right).items()
        shown = "".join(kept).count("\\") - (element.key + element.value).count("\\")
        assert (shown > 0) is bool(lost)
        comment = element.value.startswith(("# ", "#\t")) or " #" in element.value
        assert has_comment <= (comment or "\t#" in element.value or "\\\n" in element.source)


def test_a_byte_order_mark_is_skipped(tmp_path):
    file = tmp_path / "p.properties"
    file.write_bytes(b"\xef\xbb\xbfupstream.bootstrap.servers=a:1\n")
    assert load_properties(file, file).values == {"upstream.bootstrap.servers": "a:1"}


@pytest.mark.parametrize(
    ("text", "is_reported"),
    [
        ('metrics.listener.token="abc"', True),
        ("upstream.sasl.password = 'abc'", True),
        ('policies.a.headers="trace-id", "tenant"', True),
        ("policies.a.rules.a='a' in value.tags || value.b == 'b'", False),
        ('policies.a.rules.a="a" == "b"', False),
        ("policies.a.fields=['$id']", False),
        ('policies.a.replacement="***"', False),
        ('sasl.jaas.config=a.B required username="a" password="b";', False),
        ("policies.a.rules.a.message=it's 5 o'clock", False),
        ('token="', False),
        ("token=", False),
    ],
)
def test_quotes_around_a_value_are_named_without_the_value(tmp_path, text, is_reported):
    key = text.partition("=")[0].strip()
    expected = [f"line 2: {key}: the quotes belong to the value: write it without them"]
    assert warnings_of(tmp_path, f"first=1\n{text}\n") == (expected if is_reported else [])


QUOTABLE = st.text("abc -_.", max_size=5)


@settings(max_examples=1000, deadline=None)
@given(st.lists(st.tuples(QUOTABLE, st.booleans()), min_size=1, max_size=4), st.sampled_from("'\""))
def test_quotes_are_reported_where_each_item_has_them(items, quote):
    value = ",".join(f"{quote}{text}{quote}" if quoted else text for text, quoted in items)
    expected = all(quoted for _, quoted in items)
    assert bool([*misreadings("a", value, f"a={value}\n", 1)]) is expected
