"""Penstock's names for Kafka's error codes equal those of the protocol library."""

import re
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from penstock.kafka import error_codes
from penstock.kafka.wire import errors as wire_errors

WORDS = Path(__file__).parents[2] / "src/penstock/gateway/observing/console/page/words.js"
WRITTEN_OUT = {name: code for name, code in vars(error_codes).items() if name.isupper()}


@pytest.mark.parametrize("name", WRITTEN_OUT)
def test_a_code_equals_the_code_of_its_name(name):
    assert ErrorCode[name.lower()] == WRITTEN_OUT[name]


def test_codes_of_the_gateway_equal_the_codes_of_their_names():
    codes = {n: c for n, c in vars(wire_errors).items() if n.isupper() and isinstance(c, int)}
    assert {name: int(ErrorCode[name.lower()]) for name in codes} == codes


def test_the_console_names_the_gateways_codes():
    """A row shows `87 INVALID_RECORD`, not a bare number."""
    [table] = re.findall(r"const codes = \{(.*?)\};", WORDS.read_text(), re.DOTALL)
    names = {name: int(code) for code, name in re.findall(r'"?(-?\d+)"?: "(\w+)"', table)}
    assert {name: int(ErrorCode[name.lower()]) for name in names} == names
    assert set(WRITTEN_OUT.values()) - {0} <= set(names.values())
