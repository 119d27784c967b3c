"""KIP-729, a batch at a time with one search: nobody sends the numbers of payment cards.

    record.validator.classes=card_numbers.NoCardNumbers

The values of a batch are searched as one text, which is one call of the regular expression engine.
Only where that finds something does it matter which record it is in, and whether the digits
add up as those of a card do.
"""

import re

from penstock.policy import BrokerRecordValidator, InvalidRecordException

_DIGITS = re.compile(rb"(?<!\d)\d(?:[ -]?\d){12,18}(?!\d)")
# What stands between two values is neither a digit nor anything that may stand between digits.
_BETWEEN = b"\n"


class NoCardNumbers(BrokerRecordValidator):
    """Refuses values that hold 13 to 19 digits, spaced or not, which are the number of a card."""

    def validate_record(self, topic_partition, key, value, headers):
        if _holds_card(value or b""):
            return InvalidRecordException("the value holds the number of a payment card")
        return None

    def validate_batch(self, topic_partition, batch):
        values = [value or b"" for value in batch.values]
        if _DIGITS.search(_BETWEEN.join(values)):
            for position, value in enumerate(values):
                if _holds_card(value):
                    yield position, "the value holds the number of a payment card"


def _holds_card(value):
    return any(_adds_up(found[0]) for found in _DIGITS.finditer(value))


def _adds_up(digits):
    """Check the last digit as ISO/IEC 7812 has it: Luhn's algorithm."""
    numbers = [byte - 48 for byte in reversed(digits) if 48 <= byte < 58]
    doubled = (sum(divmod(2 * number, 10)) for number in numbers[1::2])
    return (sum(numbers[::2]) + sum(doubled)) % 10 == 0
