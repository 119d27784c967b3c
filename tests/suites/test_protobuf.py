"""Protobuf against Google's parser (upb), over the schemas of Google's tests for Go.

A message fits if upb reads it, has what it requires, and keeps no unknown field anywhere in it.
"""

import random
from collections import Counter

import pytest
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet

from tests.policies.schema_policy.payloads.protobuf import slow
from tests.policies.schema_policy.payloads.protobuf.messages import damaged, filled
from tests.suites.expected import reasons, table
from tests.suites.protobuf_schemas import types

pytestmark = pytest.mark.suites
PAYLOADS = 40_000
REPLACED = "an unknown field in what a later field replaces"


def fits_upb(new, data):
    try:
        message = new.FromString(data)
    except DecodeError:
        return False
    if not message.IsInitialized():
        return False
    try:
        return not keeps_unknown(message)
    except UnicodeDecodeError:  # a map's key in proto2, which Python cannot make a string of
        return not slow.has_unknown(message.DESCRIPTOR, data)


def keeps_unknown(message):
    if len(UnknownFieldSet(message)):
        return True
    return any(keeps_unknown(inner) for field, value in message.ListFields()
               for inner in messages_in(field, value))  # fmt: skip


def messages_in(field, value):
    if field.message_type is None:
        return ()
    if field.message_type.GetOptions().map_entry:
        is_message = field.message_type.fields_by_name["value"].message_type is not None
        return value.values() if is_message else ()
    return value if field.is_repeated else (value,)


def random_payload(new, chance):
    """A message: valid, damaged, or damaged and behind it another message that replaces parts."""
    first, second = (filled(new(), chance).SerializePartialToString() for _ in range(2))
    kind = chance.random()
    if kind < 0.25:
        return first
    return damaged(first, chance) + (second if kind < 0.5 else b"")


def test_protobuf(suites_seed):
    chance, expected = random.Random(suites_seed), reasons("protobuf")
    chosen = list(types())
    assert len(chosen) > 300
    each = -(-PAYLOADS // len(chosen))
    judged, fitting, counted = 0, 0, Counter()
    for name, schema, descriptor in chosen:
        new = GetMessageClass(descriptor)
        payloads = [random_payload(new, chance) for _ in range(each)]
        objections = dict(schema.objections(payloads))
        for position, payload in enumerate(payloads):
            why = objections.get(position)
            if (why is None) == fits_upb(new, payload):
                continue
            is_replaced = why is not None and "unknown field" in why
            if is_replaced and slow.has_unknown(descriptor, payload):
                counted[REPLACED] += 1
            else:
                counted[f"{name}: {why} ({payload.hex()})"] += 1
        judged += len(payloads)
        fitting += len(payloads) - len(objections)
    print(f"\nProtobuf, seed {suites_seed}: {judged:,} messages of {len(chosen)} types, "
          f"{fitting:,} fit")  # fmt: skip
    print(table(counted, expected))
    assert judged >= PAYLOADS
    assert fitting > judged / 10
    assert sorted(set(counted) - set(expected)) == []
