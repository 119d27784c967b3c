"""Values of command lines that have the syntax of keys."""

import argparse

import pytest

from penstock.configuration.arguments import bootstrap_servers


def test_addresses_are_passed_on_as_written():
    assert bootstrap_servers("a:1, b:2") == "a:1, b:2"


@pytest.mark.parametrize("text", ["", "a", "a:0", ":1", "a:1,b"])
def test_another_form_is_a_wrong_argument(text):
    with pytest.raises(argparse.ArgumentTypeError, match=f"^'{text}' is not host:port"):
        bootstrap_servers(text)
