"""Positions that a fast way does not accept, wherever they are, each payload judged once."""

import pytest

from penstock.policies.schema_policy.payloads.fast_way import not_accepted


@pytest.mark.parametrize("kind", [list, tuple])
@pytest.mark.parametrize(
    "payloads",
    [
        [],
        [b"good"],
        [b"bad"],
        [b"raises"],
        [b"bad", b"good", b"raises", b"bad", b"good"],
        [b"good", b"good", b"bad"],
        [b"good", b"good", b"raises"],
        [b"bad"] * 3,
    ],
)
def test_each_is_judged_once_and_those_without_a_yes_are_named(kind, payloads):
    judged = []

    def fits(payload):
        judged.append(payload)
        if payload == b"raises":
            raise ValueError
        return payload == b"good"

    found = list(not_accepted(kind(payloads), lambda some: map(fits, some)))
    assert found == [at for at, one in enumerate(payloads) if one != b"good"]
    assert judged == payloads
