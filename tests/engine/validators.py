"""Validators whose verdict on a record is a byte of its value."""

from collections.abc import Iterator, Sequence
from typing import Any

from hypothesis import strategies as st

from penstock.policy import BrokerRecordValidator, InvalidRecordException

PLACES = 4
"""How many policies a generated chain may have; a record's value is the action for each."""
PASS, REFUSE, REFUSE_MUTELY, FAIL = range(4)


def decide(action: int, name: str) -> None:
    if action == REFUSE:
        raise InvalidRecordException(f"{name} refuses it")
    if action == REFUSE_MUTELY:
        raise InvalidRecordException
    if action == FAIL:
        raise KeyError(name)


def decide_all(values: Sequence[bytes], place: int, name: str) -> Iterator[tuple[int, str | None]]:
    for index, value in enumerate(values):
        try:
            decide(value[place], name)
        except InvalidRecordException as error:
            yield index, error.message


def validator(place: int, kind: str) -> type:
    """Make a class of KIP-729: `record`, `batch` or `both`."""

    class Validator(BrokerRecordValidator):
        if kind != "batch":

            def validate_record(
                self, topic_partition: Any, key: bytes | None, value: bytes, headers: Any
            ) -> None:
                assert topic_partition == ("orders", 3)
                decide(value[place], self.name)

        if kind != "record":

            def validate_batch(
                self, topic_partition: Any, batch: Any
            ) -> list[tuple[int, str | None]]:
                assert topic_partition == ("orders", 3)
                return list(reversed(list(decide_all(batch.values, place, self.name))))

    Validator.__name__ = Validator.name = f"V{place}{kind}"
    return Validator


actions = st.sampled_from([PASS] * 6 + [REFUSE, REFUSE_MUTELY, FAIL])
values = st.lists(st.lists(actions, min_size=PLACES, max_size=PLACES).map(bytes), max_size=9)
