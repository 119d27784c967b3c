"""Both implementations agree, and hostile texts do not crash them."""

import subprocess
import sys

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import _native
from tests.policies.json_schema import oracle
from tests.policies.json_schema.oracle import compare
from tests.policies.json_schema.pairs import DRAFTS, Pairs
from tests.policies.json_schema.schemas import check

NOT_JSON = {
    "empty": b"",
    "white space": b" \n",
    "cut": b'{"a": 1',
    "something behind it": b"{} x",
    "two documents": b"{} {}",
    "a zero byte behind it": b"{}\x00",
    "a byte order mark": b"\xef\xbb\xbf{}",
    "UTF-16": '{"a": 1}'.encode("utf-16"),
    "NaN": b"NaN",
    "NaN inside": b'{"a": NaN}',
    "Infinity": b"[-Infinity]",
    "a comment": b"/* */ {}",
    "a comma too many": b"[1,]",
    "single quotes": b"{'a': 1}",
    "a leading zero": b"01",
    "a leading plus": b"+1",
    "a dot at the end": b"1.",
    "a control character": b'"\x00"',
    "a wrong escape": b'"\\x41"',
    "bytes that are not UTF-8": b'"\xff"',
    "a surrogate in UTF-8": b'"\xed\xa0\x80"',
    "overlong UTF-8": b'"\xc0\x80"',
    "half of a surrogate pair": b'"\\ud800"',
    "halves the wrong way round": b'"\\udc00\\ud800"',
    "other white space": b"\x0b1",
}
JSON = {
    "white space": b" \t\r\n1 \n",
    "minus zero": b"-0",
    "a double that is zero": b"1e-400",
    "a number of 30 digits": b"9" * 30,
    "many digits": b"0." + b"1" * 5000,
    "a surrogate pair": b'"\\ud83d\\ude00"',
    "DEL": b'"\x7f"',
    "127 levels": b"[" * 127 + b"]" * 127,
    "a name twice": b'{"a": 1, "a": 2}',
}
SCHEMAS = {"anything": {}, "branches": {"anyOf": [{"multipleOf": 7}, {}]}}


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS.keys())
@pytest.mark.parametrize("text", NOT_JSON.values(), ids=NOT_JSON.keys())
def test_texts_that_are_no_json_fit_no_schema(tmp_path, schema, text, implementation):
    judged = check(tmp_path, schema, implementation=implementation)

    assert judged.objection(text).startswith("the value is not JSON")


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS.keys())
@pytest.mark.parametrize("text", JSON.values(), ids=JSON.keys())
def test_texts_that_are_json(tmp_path, schema, text, implementation):
    assert check(tmp_path, schema, implementation=implementation).objection(text) is None


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS.keys())
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"1e400", "the value has a number that is too large for a double"),
        (b"-" + b"9" * 400, "the value has a number that is too large for a double"),
        (b"[" * 128 + b"]" * 128, "the value has more than 127 levels of arrays and objects"),
        (b"[" * 5_000_000, "the value has more than 127 levels of arrays and objects"),
        (b'{"a":' * 1_000_000, "the value has more than 127 levels of arrays and objects"),
    ],
    ids=["1e400", "400 digits", "128 levels", "5,000,000 arrays", "1,000,000 objects"],
)
def test_texts_that_take_too_much_work(tmp_path, schema, text, message, implementation):
    assert check(tmp_path, schema, implementation=implementation).objection(text) == message


@pytest.mark.parametrize(
    ("schema", "fits", "does_not"),
    [
        ({"properties": {"a": {"type": "integer"}}}, '{"a": "x", "a": 1}', '{"a": 1, "a": "x"}'),
        ({"properties": {"a": {"type": "integer"}}}, r'{"a": "x", "\u0061": 1}', r'{"\u0061": 1, "a": 2.5}'),
        ({"maxProperties": 1}, '{"a": 1, "a": 2}', '{"a": 1, "b": 2}'),
        ({"minProperties": 2}, '{"a": 1, "a": 1, "b": 2}', '{"a": 1, "a": 2}'),
        ({"const": {"a": 1}}, '{"a": 2, "a": 1}', '{"a": 1, "a": 2}'),
        ({"not": {"required": ["a"], "properties": {"a": {"type": "null"}}}}, '{"a": null, "a": 1}', '{"a": 1, "a": null}'),
        ({"uniqueItems": True}, '[{"a": 1, "a": 2}, {"a": 1}]', '[{"a": 1, "a": 2}, {"a": 2}]'),
        ({"unevaluatedProperties": {"type": "null"}}, '{"a": 1, "a": null}', '{"a": null, "a": 1}'),
        ({"additionalProperties": {"type": "null"}}, '{"a": 1, "a": null}', '{"a": null, "a": 1}'),
        ({"properties": {"o": {"properties": {"a": {"type": "null"}}}}}, '{"o": {"a": 1, "a": null}}', '{"o": {"a": null, "a": 1}}'),
    ],
)  # fmt: skip
def test_of_two_properties_with_a_name_the_last_counts(
    tmp_path, schema, fits, does_not, implementation
):
    judged = check(tmp_path, schema, implementation=implementation)

    assert judged.objection(fits.encode()) is None
    assert judged.objection(does_not.encode()) is not None


@pytest.mark.parametrize("size", [1, 10])
def test_the_first_reason_does_not_wait_for_all(tmp_path, size, implementation):
    """An error costs 10 us and there may be a million: only the first is read."""
    judged = check(tmp_path, {"items": {"type": "string"}}, implementation=implementation)

    reason = judged.objection(b"[" + b"1," * (100_000 * size) + b"1]", "value")

    assert reason == "the value at /0 must be of type string"


@pytest.mark.thorough
@pytest.mark.parametrize("draft", DRAFTS)
def test_both_implementations_agree(tmp_path, draft):
    """A sample of `make schemas`, which judges 100,000 pairs a draft."""
    found = compare(draft, 1000, tmp_path, seed=20_26)

    assert found.differences == []
    assert 0.3 * found.pairs < found.fits < 0.9 * found.pairs
    assert found.other_reasons < 0.05 * found.pairs


def test_the_comparison_sees_a_wrong_answer(tmp_path, monkeypatch):
    """An implementation that accepts texts that the other refuses, and one that refuses all."""
    read = oracle.read

    class Wrong:
        def __init__(self, answer):
            self.objection = lambda _: answer

    for answer in (None, "no"):
        monkeypatch.setattr(
            oracle,
            "read",
            lambda schema, folder, name, answer=answer: (
                Wrong(answer) if name == "native" else read(schema, folder, name)
            ),
        )
        assert len(compare("7", 100, tmp_path).differences) > 10


@pytest.mark.thorough
@pytest.mark.parametrize("draft", DRAFTS)
@settings(max_examples=100)
@given(
    seed=st.integers(0, 2**32), damage=st.lists(st.tuples(st.floats(0, 1), st.binary(max_size=3)))
)
def test_both_readers_accept_the_same_texts(draft, seed, damage):
    """Its yes is a yes of orjson, which makes the documents that the library judges."""
    pairs = Pairs(draft, seed)
    text = pairs.text(pairs.schema())
    for place, piece in damage[:3]:
        at = int(place * len(text))
        text = text[:at] + piece + text[at + len(piece) :]
    anything = _native.json_schema([("file:///", 2020, b"true")], None)
    refused = [reason for _, (reason, _, _) in anything.refused([text], 0, 10_000)]
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        assert refused
    else:
        assert refused in ([], ["tooDeep"])


HOSTILE = """
import sys, tempfile
from pathlib import Path
from tests.policies.json_schema.schemas import check
recursive = {"anyOf": [{"items": {"$ref": "#"}}], "properties": {"a": {"$ref": "#"}}}
chain = {"$defs": {str(n): {"allOf": [{"$ref": f"#/$defs/{n + 1}"}]} for n in range(5000)} | {"5000": {"items": {"$ref": "#"}}}, "$ref": "#/$defs/0"}
scopes = {"$id": "http://x/", "$dynamicAnchor": "n", "anyOf": [{"$ref": "o"}], "$defs": {"o": {"$id": "o", "$defs": {"n": {"$dynamicAnchor": "n"}}, "$dynamicRef": "#n"}}}
# Work without a bound in the library is refused by its estimate, or takes minutes: see work.py.
endless = (chain, scopes) if sys.argv[1] == "native" else ()
for schema in ({}, recursive, {"multipleOf": 3}, {"uniqueItems": True}, *endless):
    judged = check(Path(tempfile.mkdtemp()), schema, implementation=sys.argv[1])
    for text in (b"[" * 10**7, b'{"a":' * 10**6, b"[" * 10**6 + b"]" * 10**6, b'"' + bytes([92]) * 10**6,
                 b"1" * 10**6, b"-" * 10**6, bytes([255]) * 10**6, b"[" + b"{}," * 10**5 + b"{}]",
                 b"[" * 127 + b"]" * 127):
        judged.objection(text)
print("alive")
"""  # fmt: skip


@pytest.mark.system
def test_the_process_outlives_hostile_texts(implementation):
    """Recursion without an end in texts, in references, and in the dynamic scope."""
    done = subprocess.run(
        [sys.executable, "-c", HOSTILE, implementation],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr[-2000:]
