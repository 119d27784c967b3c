"""A `.properties` file as text, and its variables."""

import pytest

from penstock.configuration import ConfigurationError
from penstock.configuration.properties import load_properties, resolve_variables


@pytest.fixture
def load(tmp_path):
    """Writes a file and reads it."""

    def read(content):
        file = tmp_path / "penstock.properties"
        file.write_bytes(content)
        return load_properties("as given", file)

    return read


def test_values_are_as_written(load):
    assert load("\ufeffa = 1\n# c = 2\n\nb: \u00e4\\\n  c ${env:X}\n".encode()).values == {
        "a": "1", "b": "\u00e4c ${env:X}",
    }  # fmt: skip


def test_the_last_value_of_a_repeated_key_applies_and_is_a_warning(load):
    found = load(b"a=1\nb=x\\\n  y\na=2\n")
    assert found.values == {"a": "2", "b": "xy"}
    assert found.warnings == ["a is in line 1 and in line 4: the last value applies"]


def test_different_keys_are_no_warning(load):
    assert load(b"a=1\nb=1\n").warnings == []


@pytest.mark.parametrize(
    ("content", "fault"),
    [(b"a=\xff", "is not UTF-8 text"), (b"a=\\u12", "Invalid \\\\u escape")],
)
def test_a_file_that_is_not_text(load, content, fault):
    with pytest.raises(ConfigurationError, match=f"as given: .*{fault}"):
        load(content)


def test_a_missing_file(tmp_path):
    with pytest.raises(ConfigurationError, match="as given: cannot be read: No such file"):
        load_properties("as given", tmp_path / "none")


@pytest.fixture
def resolve(tmp_path, monkeypatch):
    """Resolves the value of key `k`; files of secrets are beside the file."""
    monkeypatch.setenv("SET", "from the environment")
    monkeypatch.delenv("UNSET", raising=False)
    (tmp_path / "secret").write_text(" s3cret\n")
    (tmp_path / "several").write_text("a=1\nb = 2\n")
    (tmp_path / "binary").write_bytes(b"\xff")
    (tmp_path / "escape").write_text("a=\\u1")

    def value(text, key="k"):
        return resolve_variables(tmp_path / "penstock.properties", {key: text})[key]

    return value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("plain $HOME {x}", "plain $HOME {x}"),
        ("${env:SET}", "from the environment"),
        ("a ${env:SET}, ${env:SET}", "a from the environment, from the environment"),
        ("${file:secret}", "s3cret"),
        ("${file:several:b}", "2"),
    ],
)
def test_variables_are_replaced(resolve, text, value):
    assert resolve(text) == value


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("${env:UNSET}", "names the environment variable UNSET, which is not set"),
        ("${file:none}", "names .*none, unreadable"),
        ("${file:binary}", "names .*binary, unreadable"),
        ("${file:several:c}", "several has no key c"),
        ("${file:escape:a}", "escape has a wrong .u escape"),
        ("${env:SET", r"has a \$\{ without its \}: write"),
        ("${SET}", "has a variable without a provider: write"),
        ("${s3/cret:x}", "has a variable without a provider: write"),
        ("${env:}", "has a variable of env without a name: write"),
        ("${evn:SET}", "has a variable of evn, which is no provider, did you mean env.: write"),
        ("${vault:x}", "has a variable of vault, which is no provider: write"),
    ],
)
def test_a_wrong_variable(resolve, text, fault):
    with pytest.raises(ConfigurationError, match=fault) as raised:
        resolve(text)
    assert "penstock.properties: k" in str(raised.value)


def test_only_the_name_of_a_dead_letter_topic_has_another_variable(resolve):
    key = "topics.a.errors.deadletterqueue.topic.name"
    assert resolve("${topic}.dead", key) == "${topic}.dead"
    with pytest.raises(ConfigurationError, match="without a provider"):
        resolve("${topic}.dead", "audit.topic")


def test_a_key_has_no_variable(resolve):
    with pytest.raises(ConfigurationError, match="a key cannot have a variable"):
        resolve("v", "${env:SET}")
