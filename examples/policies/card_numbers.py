"""KIP-729, a batch at a time: refuse values that contain the number of a payment card.

    record.validator.classes=card_numbers.NoCardNumbers

All values of a batch are searched with one call of the regular expression engine. Only if it finds
digits are the records searched one by one, and the digits checked.
"""

import re

from penstock.policy import BrokerRecordValidator, InvalidRecordException

_DIGITS = re.compile(rb"(?<!\d)\d(?:[ -]?\d){12,18}(?!\d)")
# Neither a digit nor a separator of digits, so no match spans two values.
_BETWEEN = b"\n"


class NoCardNumbers(BrokerRecordValidator):
    """Refuses values with the number of a card: 13 to 19 digits, with or without separators."""

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
    """Check the last digit (ISO/IEC 7812, Luhn's algorithm)."""
    numbers = [byte - 48 for byte in reversed(digits) if 48 <= byte < 58]
    doubled = (sum(divmod(2 * number, 10)) for number in numbers[1::2])
    return (sum(numbers[::2]) + sum(doubled)) % 10 == 0
