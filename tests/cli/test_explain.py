"""`penstock explain`: what it writes to standard output."""

import contextlib
import json
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.cli import main
from penstock.cli.output.record_lines import records_in_file
from penstock.configuration import ConfigurationError

pytestmark = pytest.mark.system

POLICY = """
print("imported")
class Loud:
    def configure(self, configs):
        print("configured")
    def validate(self, topic, record):
        print("judged")
    def close(self):
        print("closed")
"""


def test_output_of_policies_goes_to_standard_error(tmp_path, capsys):
    (tmp_path / "loud_when_explained.py").write_text(POLICY)
    file = tmp_path / "penstock.properties"
    file.write_text(
        "upstream.bootstrap.servers=none:1\n"
        "record.validation.policy.class.name=loud_when_explained.Loud\n"
        "topics.*.record.validation.policy=x\n"
    )

    assert main(["explain", str(file), "--topic", "t", "--value", "v"]) == 0

    shown, others = capsys.readouterr()
    assert shown.splitlines()[0] == "--value: accepted"
    assert {"imported", "configured", "judged", "closed"} <= set(others.splitlines())
    assert not {"imported", "configured", "judged", "closed"} & set(shown.splitlines())


EVERY = """
policies=schema,rules,key
policies.schema.type=penstock.policies.JsonSchema
policies.schema.schema=any.json
policies.rules.type=penstock.policies.Rules
policies.rules.rules.positive=value.a > 0 || value.a == headers.own
policies.key.type=penstock.policies.KeyRequired
topics.*.penstock.policies=schema,rules,key
upstream.bootstrap.servers=none:1
"""
ARGUMENT = st.binary(max_size=12).filter(lambda data: b"\0" not in data)


@pytest.fixture(scope="module")
def judging(tmp_path_factory):
    """The policies of a file that judges every topic."""
    folder = tmp_path_factory.mktemp("explain")
    (folder / "any.json").write_text('{"type": ["object", "string", "number"]}')
    file = folder / "penstock.properties"
    file.write_text(EVERY)
    return file


@pytest.mark.parametrize("value", [b"\xff", b'{"a": "\xff"}', b"\xed\xa0\x80", b""])
def test_a_value_that_is_no_text_is_judged_with_its_bytes(judging, capsys, value):
    arguments = ["explain", str(judging), "--topic", "t", "--show-payloads", "--key", "k"]
    assert main([*arguments, "--value", os.fsdecode(value)]) == 1
    shown, others = capsys.readouterr()
    assert f"value={value!r}" in shown
    assert others == ""


@pytest.mark.thorough
@settings(max_examples=1000, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.one_of(ARGUMENT, ARGUMENT.map(lambda data: b'{"a":' + data + b"}")), ARGUMENT, ARGUMENT,
       ARGUMENT)  # fmt: skip
def test_any_arguments_are_explained(judging, value, key, name, header):
    texts = {"--value": value, "--key": key, "--header": name.replace(b"=", b"") + b"=" + header}
    given_as = [f"{option}={os.fsdecode(text)}" for option, text in texts.items()]
    assert main(["explain", str(judging), "--topic", "t", "--show-payloads", *given_as]) in {0, 1}


CONTENT = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.floats(), st.integers(-(2**70), 2**70), st.text(max_size=5),
        st.sampled_from(["\ud800", "a" * 300, "2025-01-01", "99999-01-01T00:00:00Z", "/w==", -1]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.dictionaries(st.sampled_from(["key", "value", "value_base64", "a"]), inner, max_size=3),
    ),
    max_leaves=4,
)  # fmt: skip
FIELDS = ["headers", "key", "key_base64", "offset", "partition", "timestamp", "topic", "value",
          "value_base64", "values"]  # fmt: skip


@pytest.mark.slow
@pytest.mark.thorough
def test_any_line_is_explained_or_is_an_error_of_the_line(judging, capsys):
    records, readable = judging.with_name("records.jsonl"), []

    @settings(max_examples=1000, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.dictionaries(st.sampled_from(FIELDS), CONTENT, max_size=4))
    def read(fields):
        records.write_text(json.dumps(fields) + "\n")
        with contextlib.suppress(ConfigurationError):
            readable.extend(json.dumps(fields) for _ in records_in_file(records))

    read()
    assert len(readable) > 100
    records.write_text("\n".join(readable))
    arguments = [str(judging), "--topic", "t", "--input", str(records)]
    assert main(["explain", *arguments, "--show-payloads"]) == 1
    assert main(["suggest", *arguments]) == 0
    assert capsys.readouterr().err == ""
