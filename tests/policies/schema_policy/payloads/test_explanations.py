"""So many records of a batch are explained, for so long, and no more."""

from penstock.policies.explanations import BATCH_MS, MOST
from penstock.policies.schema_policy.payloads.protobuf.flaws import MAX_STEPS, STEP_MS
from tests.policies.schema_policy.payloads.protobuf.files import SHOP, inside, schema

UNKNOWN = "Protobuf: unknown field 9 in shop.Order"
GENERAL = "Protobuf: has an unknown field"


def refused(messages):
    # The first message of the file.
    return schema(SHOP).objections([b"\2\2" + message for message in messages])


def general(found):
    """Return the reasons, without the message that was read."""
    return [text.removesuffix("; it was read as shop.Order") for _, text in found]


def test_all_are_judged_and_the_first_explained():
    found = refused([inside(9, b"x")] * (MOST + 50))
    assert found == [(n, UNKNOWN if n < MOST else GENERAL) for n in range(MOST + 50)]


def test_the_same_batch_always_gets_the_same_texts():
    """The steps of all explanations are counted. The last may exceed the limit."""
    long = inside(3, b"") * (MAX_STEPS // 2) + inside(9, b"x")
    found = general(refused([long] * 20 + [inside(9, b"x")]))
    explained = -(-BATCH_MS // (MAX_STEPS * STEP_MS))
    assert found == [GENERAL] * 21
    short = inside(3, b"") * (MAX_STEPS // 4) + inside(9, b"x")
    found = general(refused([short] * 40))
    assert found.index(GENERAL) > explained
    assert found == sorted(found, reverse=True)
