"""Texts of others that would control a terminal."""

import pytest

from penstock.cli.output.printable import printable


@pytest.mark.parametrize(
    "text", ["\x1b[2J", "\x1b]0;title\x07", "\r\nroot#", "\u202eevil", "\x9b31m", "\ud800"]
)
def test_control_characters_are_replaced(text):
    assert printable(text).isprintable()
    printable(text).encode()


def test_other_characters_stay():
    assert printable("Zürich <b>東京</b> [red]") == "Zürich <b>東京</b> [red]"
