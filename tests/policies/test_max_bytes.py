"""`MaxBytes`: how large the parts of a record may be."""

import pytest

from penstock.configuration import ConfigurationError
from penstock.policies import MaxBytes
from penstock.policy import ALL
from penstock.policy.testing import judge

RECORDS = [
    {"key": b"123", "value": b"1234", "headers": {"ä": b"12"}},
    {"key": b"1234", "value": b"1234", "headers": {"ä": b"12"}},
    {"key": b"123", "value": b"12345", "headers": {"ä": b"12"}},
    {"key": b"123", "value": b"1234", "headers": {"ä": b"123"}},
    {"headers": {"abcd": None}},
    {},
]


def texts(**limits):
    configs = {f"{part}.max.bytes": str(most) for part, most in limits.items()}
    return [verdict.message for verdict in judge(MaxBytes, RECORDS, topic="t", configs=configs)]


def test_each_part_has_a_limit():
    found = texts(key=3, value=4, headers=4)
    assert found == [
        None,
        "the key has more than 3 bytes",
        "the value has more than 4 bytes",
        "the headers have more than 4 bytes",
        None,
        None,
    ]


def test_the_record_altogether():
    too_large = "the record has more than 11 bytes"
    assert texts(record=11) == [None, too_large, too_large, too_large, None, None]
    assert texts(record=0)[4:] == ["the record has more than 0 bytes", None]


def test_a_limit_does_not_affect_the_others():
    assert texts(value=4) == [None, None, "the value has more than 4 bytes", None, None, None]


def test_no_more_is_looked_at_than_has_to_be():
    def hints(**limits):
        policy = MaxBytes()
        policy.configure({f"{part}.max.bytes": str(most) for part, most in limits.items()})
        return policy.get_hints()

    assert hints(value=4) == (False, 0, 5)
    assert hints(key=7, headers=1) == (True, 8, 0)
    assert hints(record=1) == (True, ALL, ALL)


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ({}, "one of key.max.bytes, value.max.bytes, headers.max.bytes, record.max.bytes"),
        ({"value.max.bytes": "1k"}, "value.max.bytes must be a number of bytes, from 0, not 1k"),
        ({"value.max.bytes": "-1"}, "value.max.bytes must be"),
        ({"key.max.bytes": ""}, "key.max.bytes must be a number of bytes, from 0, not nothing"),
    ],
)
def test_wrong_settings(configs, message):
    with pytest.raises(ConfigurationError) as raised:
        judge(MaxBytes, [b""], topic="t", configs=configs)
    assert message in str(raised.value)
