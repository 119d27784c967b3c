"""The configs of dead letter topics. Their names are tested with `LetterNames`, which checks them."""

import pytest

from penstock.engine.modes.quarantine import LETTERS_BYTES
from penstock.gateway.produce.dead_letters.rules import configs_of_letters

pytestmark = pytest.mark.unit
HEADERS = 64 * 1024


@pytest.mark.parametrize(
    ("source", "letters"),
    [
        (1000, LETTERS_BYTES + HEADERS),
        (1_048_588, 1_048_588 + HEADERS),
        (10_000_000, 10_000_000 + HEADERS),
        (2**31 - 1, 2**31 - 1),
    ],
)
def test_letters_may_be_larger_than_records_by_their_headers(source, letters):
    assert configs_of_letters(source) == {"max.message.bytes": str(letters)}
