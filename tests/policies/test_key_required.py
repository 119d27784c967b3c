"""`KeyRequired`: every record has a key."""

import pytest

from penstock.configuration import ConfigurationError
from penstock.policies import KeyRequired
from penstock.policy.testing import judge

RECORDS = [{"key": b"x" * 100}, {"key": b""}, {"value": b"v"}]


def texts(configs=None):
    return [verdict.message for verdict in judge(KeyRequired, RECORDS, topic="t", configs=configs)]


def test_a_key_has_to_be_there():
    assert texts() == [None, "the key is empty", "the record has no key"]
    assert texts({"empty.keys": "accept"}) == [None, None, "the record has no key"]


def test_a_single_byte_is_read():
    assert KeyRequired().get_hints() == (False, 1, 0)


def test_a_wrong_setting():
    with pytest.raises(
        ConfigurationError, match=r"empty\.keys must be one of accept, refuse, not no"
    ):
        texts({"empty.keys": "no"})
