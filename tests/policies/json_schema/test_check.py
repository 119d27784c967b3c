"""Both ways of judging agree, and neither is brought down by what it is given."""

import json
import subprocess
import sys

import corvus_json_schema_rs as corvus
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.policies.json_schema import oracle
from tests.policies.json_schema.oracle import compare, fast_answer
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
FAST, SLOW = {}, {"anyOf": [{}, {"multipleOf": 7}]}


@pytest.mark.parametrize("schema", [FAST, SLOW], ids=["fast", "slow"])
@pytest.mark.parametrize("text", NOT_JSON.values(), ids=NOT_JSON.keys())
def test_what_is_not_json_fits_nothing(tmp_path, schema, text):
    judged = check(tmp_path, schema)

    assert (judged.fits is None) == (schema is SLOW)
    assert judged.objection(text, "value").startswith("the value is not JSON")
    assert judged.fits is None or fast_answer(judged, text) is not True


@pytest.mark.parametrize("schema", [FAST, SLOW], ids=["fast", "slow"])
@pytest.mark.parametrize("text", JSON.values(), ids=JSON.keys())
def test_what_is_json(tmp_path, schema, text):
    judged = check(tmp_path, schema)

    assert judged.objection(text, "value") is None
    assert judged.fits is None or fast_answer(judged, text) is True


@pytest.mark.parametrize("schema", [FAST, SLOW], ids=["fast", "slow"])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"1e400", "the value has a number that is too large for a double"),
        (b"-" + b"9" * 400, "the value has a number that is too large for a double"),
        (b"[" * 128 + b"]" * 128, "the value has more than 127 levels of arrays and objects"),
        (b"[" * 5_000_000, "the value has more than 127 levels of arrays and objects"),
        (b'{"a":' * 1_000_000, "the value has more than 127 levels of arrays and objects"),
    ],
    ids=["1e400", "400 digits", "128 levels", "5,000,000 arrays", "1,000,000 objects"],
)
def test_what_is_too_much(tmp_path, schema, text, said):
    judged = check(tmp_path, schema)

    assert judged.objection(text, "value") == said
    assert judged.fits is None or fast_answer(judged, text) is not True


@pytest.mark.parametrize("slow", [False, True])
def test_of_two_properties_with_a_name_the_last_counts(tmp_path, slow):
    schema = {"properties": {"a": {"type": "integer"}}, **({"multipleOf": 2} if slow else {})}
    judged = check(tmp_path, schema)

    assert judged.objection(b'{"a": "x", "a": 1}', "value") is None
    assert judged.objection(b'{"a": 1, "a": "x"}', "value") is not None
    if judged.fits is not None:
        assert fast_answer(judged, b'{"a": "x", "a": 1}') is True
        assert fast_answer(judged, b'{"a": 1, "a": "x"}') is False


@pytest.mark.parametrize("size", [1, 10])
def test_the_first_reason_does_not_wait_for_all(tmp_path, size):
    """An error costs 10 us and there may be a million: only one is asked for."""
    judged = check(tmp_path, {"items": {"type": "string"}})

    said = judged.objection(b"[" + b"1," * (100_000 * size) + b"1]", "value")

    assert said == "the value at /0 must be of type string"


@pytest.mark.thorough
@pytest.mark.parametrize("draft", DRAFTS)
def test_both_ways_agree(tmp_path, draft):
    """A sample of `make schemas`, which judges 100,000 pairs a draft."""
    found = compare(draft, 1000, tmp_path, seed=20_26)

    assert found.differences == []
    assert 0.3 * found.pairs < found.fits < 0.9 * found.pairs
    assert found.schemas["fast"] > found.schemas["slow"] > 0


def test_the_comparison_sees_a_wrong_answer(tmp_path, monkeypatch):
    """An evaluator that takes what the other refuses, and one that never says yes."""
    for answer in (True, False):
        monkeypatch.setattr(oracle, "fast_answer", lambda *_, answer=answer: answer)
        assert len(compare("7", 100, tmp_path).differences) > 10


@pytest.mark.thorough
@pytest.mark.parametrize("draft", DRAFTS)
@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 2**32), damage=st.lists(st.tuples(st.floats(0, 1), st.binary(max_size=3)))
)
def test_what_the_one_reader_takes_for_json_the_others_do(draft, seed, damage):
    """Its yes is a yes of orjson, which makes the documents that reasons are found in."""
    pairs = Pairs(draft, seed)
    text = pairs.text(pairs.schema())
    for place, piece in damage[:3]:
        at = int(place * len(text))
        text = text[:at] + piece + text[at + len(piece) :]
    try:
        expected = orjson.loads(text)
    except orjson.JSONDecodeError:
        expected = ...
    try:
        corvus.compile(True).is_valid_json(text)
    except ValueError as error:
        assert expected is ... or "recursion limit exceeded" in str(error)
    else:
        assert expected is not ...
        assert json.loads(text, parse_int=float) == json.loads(
            orjson.dumps(expected), parse_int=float
        )


HOSTILE = """
import sys, tempfile
from pathlib import Path
from tests.policies.json_schema.schemas import check
recursive = {"anyOf": [{"items": {"$ref": "#"}}], "properties": {"a": {"$ref": "#"}}}
for schema in ({}, recursive, {"multipleOf": 3}, {"uniqueItems": True}):
    judged = check(Path(tempfile.mkdtemp()), schema)
    for text in (b"[" * 10**7, b'{"a":' * 10**6, b"[" * 10**6 + b"]" * 10**6, b'"' + b"\\\\" * 10**6,
                 b"1" * 10**6, b"-" * 10**6, b"\\xff" * 10**6, b"[" + b"{}," * 10**5 + b"{}]"):
        for judge in (judged.fits, lambda text: judged.objection(text, "value")):
            try:
                judge and judge(text)
            except Exception as error:
                assert str(error), error
print("alive")
"""  # fmt: skip


@pytest.mark.system
def test_the_process_outlives_what_is_hostile():
    done = subprocess.run(
        [sys.executable, "-c", HOSTILE], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr[-2000:]
