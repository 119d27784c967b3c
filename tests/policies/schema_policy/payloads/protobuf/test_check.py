"""MessageCheck against the slow way, over messages that were damaged in every way."""

import random
import subprocess
import sys
import time

import pytest

from penstock.policies.explanations import Explanations
from penstock.policies.schema_policy.payloads.protobuf import check as checking
from tests.policies.schema_policy.payloads.protobuf import slow
from tests.policies.schema_policy.payloads.protobuf.files import (
    DELIMITED,
    EDITION,
    OLD,
    SHOP,
    compiled,
    inside,
    varint,
)
from tests.policies.schema_policy.payloads.protobuf.messages import REQUIRED, check, damaged, filled


def objection(judge, data):
    """The objection to a message."""
    return judge.objection(data, Explanations())


TYPES = [
    (SHOP, "shop.Order"),
    (SHOP, "shop.Event"),
    (SHOP, "shop.Tree"),
    (OLD, "old.Part"),
    (OLD, "old.Whole"),
    (EDITION, "modern.Item"),
    (DELIMITED, "groups.Whole"),
]


@pytest.mark.thorough
@pytest.mark.parametrize("unknown", [False, True])
@pytest.mark.parametrize(("text", "name"), TYPES, ids=[name for _, name in TYPES])
def test_verdicts_are_those_of_the_slow_way(text, name, unknown):
    chance = random.Random(f"{name} {unknown}")
    judge = check(text, name, unknown=unknown)
    seen = {True: 0, False: 0}
    for _ in range(400):
        messages = [
            damaged(filled(judge.new(), chance).SerializePartialToString(), chance)
            for _ in range(chance.randrange(1, 5))
        ]
        verdicts = [slow.fits(judge.new, message, unknown=unknown) for message in messages]
        assert [objection(judge, message) is None for message in messages] == verdicts
        # A batch is never better than its worst message; here, where none is deep, as good.
        assert judge.all_fit(messages) == all(verdicts)
        for verdict in verdicts:
            seen[verdict] += 1
    assert min(seen.values()) > 100


@pytest.mark.thorough
@pytest.mark.parametrize(("text", "name"), TYPES, ids=[name for _, name in TYPES])
def test_any_bytes_are_judged(text, name):
    chance = random.Random(name)
    judge = check(text, name)
    for _ in range(3000):
        data = chance.randbytes(chance.randrange(40))
        assert (objection(judge, data) is None) == slow.fits(judge.new, data)


def nested(levels, data, number=1):
    for _ in range(levels):
        data = inside(number, data)
    return data


@pytest.mark.thorough
@pytest.mark.parametrize("number", [1, 3])
def test_unknown_fields_are_found_at_every_depth(number):
    judge = check(SHOP, "shop.Tree")
    for levels in range(101):
        known, unknown = nested(levels, b"\x10\x05", number), nested(levels, b"\x48\x05", number)
        assert objection(judge, known) is None, levels
        reason = objection(judge, unknown)
        assert reason is not None, levels
        assert reason.startswith("unknown field 9 in shop.Tree"), levels
        assert not judge.all_fit([known, unknown]), levels
    assert objection(judge, nested(101, b"")) == "is nested deeper than 100 levels"
    assert objection(judge, nested(5000, b"")) == "is nested deeper than 100 levels"


@pytest.mark.thorough
@pytest.mark.parametrize(
    "many", [b"\x10\x05", inside(3, inside(1, b""))], ids=["number", "message"]
)
def test_deep_messages_may_have_many_fields(many):
    deep = nested(80, b"\x10\x05")
    judge = check(SHOP, "shop.Tree")
    assert objection(judge, deep + many * 200_000) is None
    assert objection(judge, many * 200_000 + nested(80, b"\x48\x05")) == "has an unknown field"


def test_deep_messages_with_too_many_different_fields_are_refused(monkeypatch):
    """A tree of two branches, which no field repeats."""
    deep, wide = nested(80, b"\x10\x05"), b""
    judge = check(SHOP, "shop.Tree")
    for _ in range(9):
        wide = inside(1, wide) + inside(3, wide)
    assert objection(judge, deep + wide) is None
    monkeypatch.setattr(checking, "MAX_FIELDS", 1000)
    assert objection(judge, deep + wide) == (
        "has more fields than are looked at in a message deeper than 59 levels"
    )
    assert objection(check(SHOP, "shop.Tree", unknown=True), deep + wide) is None


COSTLY = {
    "numbers": (SHOP, "shop.Order", b"", b"\x20\x01", b"\x48\x01"),
    "long numbers": (SHOP, "shop.Order", b"", b"\x20" + b"\xff" * 9 + b"\x01", b"\x48\x01"),
    "messages": (SHOP, "shop.Order", b"", inside(3, b""), b"\x48\x01"),
    "entries": (SHOP, "shop.Order", b"", inside(5, b"\x0a\0\x10\1"), b"\x48\x01"),
    "cut off": (SHOP, "shop.Order", b"", b"\x20\x01", b"\x20"),
    "deep messages": (SHOP, "shop.Tree", b"", nested(90, inside(3, b"")), b"\x48\x01"),
    "required": (OLD, "old.Whole", b"\x08\x01", inside(3, inside(1, b"n")), inside(3, b"")),
    "enums": (OLD, "old.Part", inside(1, b"n"), inside(3, b"\x01" * 1000), b"\x10\x63"),
    "extensions": (OLD, "old.Whole", b"\x08\x01", inside(101, b"\x01"), b"\xfa\x07\x01"),
    "many required": (
        f"syntax = 'proto2'; message A {{ repeated B b = 1; }} message B {{ {REQUIRED} }}",
        "A",
        b"",
        inside(1, b"".join(varint((i + 1) << 3) + b"\1" for i in range(60))),
        inside(1, b""),
    ),
}


@pytest.mark.parametrize(("text", "name", "before", "many", "end"), COSTLY.values(), ids=COSTLY)
def test_an_explanation_is_bounded(text, name, before, many, end):
    """Up to 50 ms a record if nothing else runs; the rest is left for a slow machine."""
    judge = check(text, name)
    data = before + many * (1_000_000 // len(many)) + end
    assert judge.refusal(data) is not None
    took = []
    for _ in range(3):
        began = time.thread_time()
        assert judge.explanation(data).text is None
        took.append(time.thread_time() - began)
    assert min(took) < 0.15
    assert judge.explanation(before + many * 5 + end).text is not None


def test_no_message_completes_another():
    """Read into one, a message may not end in the next, nor have fields of another message."""
    whole = inside(1, b"abc")
    judge = check(SHOP, "shop.Order")
    for cut in range(1, len(whole)):
        assert not judge.all_fit([whole[:cut], whole[cut:]])
    needing = check(OLD, "old.Whole")
    assert not needing.all_fit([b"\x08\x01", b""])
    assert needing.all_fit([b"\x08\x01", b"\x08\x01"])


def test_an_unknown_field_is_not_hidden_by_the_next_message():
    event = check(SHOP, "shop.Event")
    bad = inside(3, b"\x48\x05")
    for good in (inside(4, b"text"), inside(2, b""), inside(3, b"")):
        assert event.all_fit([good, good])
        assert not event.all_fit([bad, good])
    place = inside(1, inside(1, b"home") + inside(2, b"\x48\x05"))
    assert not event.all_fit([place, inside(1, inside(1, b"home") + inside(2, b""))])


def test_an_unknown_field_in_a_replaced_value_counts():
    """The bytes are judged, not the merged message: readers merge differently."""
    event = check(SHOP, "shop.Event")
    replaced = inside(3, b"\x48\x05") + inside(4, b"text")
    assert objection(event, replaced) == "unknown field 9 in shop.Address at address"
    key = inside(1, b"home")
    replaced = inside(1, key + inside(2, b"\x48\x05")) + inside(1, key)
    assert objection(event, replaced) == "unknown field 9 in shop.Address at places.value"


def test_the_name_of_the_batch_may_be_taken():
    text = 'syntax = "proto3"; package penstock_batch; message Batch { int32 a = 1; }'
    judge = check(text, "penstock_batch.Batch")
    assert judge.all_fit([b"\x08\x01"])
    assert not judge.all_fit([b"\x10\x01"])
    taken = 'syntax = "proto3"; message penstock_batch { int32 a = 1; }'
    assert check(taken, "penstock_batch").all_fit([b"\x08\x01"])


@pytest.mark.thorough
def test_packed_numbers_by_the_million():
    judge = check(SHOP, "shop.Order")
    packed = inside(4, b"\x01" * 4_000_000)
    assert objection(judge, packed) is None
    assert objection(judge, packed + b"\x48\x01") == "unknown field 9 in shop.Order"
    assert objection(judge, inside(4, b"\x01" * 4_000_000 + b"\x80")) is not None


OUT_OF_MEMORY = """
import resource, sys
from penstock.policies.schema_policy.payloads.protobuf.compile import schema_of
schema = schema_of("schema.proto", open(sys.argv[1], "rb").read(), sys.argv[2])
payload = b"\\x0a\\x00" * 2_000_000
resource.setrlimit(resource.RLIMIT_AS, (500 * 2**20, 500 * 2**20))
print(schema.objections([payload]), schema.objections([payload + b"\\x48\\x01"]))
"""


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.parametrize("syntax", ["proto3", "proto2"])
def test_messages_by_the_million_take_no_worker_down(syntax, tmp_path):
    """Each takes two bytes, and more than a kilobyte as a separate message."""
    optional, required = ("", "") if syntax == "proto3" else ("optional", "required int32 r = 2;")
    fields = "".join(f"{optional} int64 f{i} = {i + 1000};" for i in range(200))
    text = f'syntax = "{syntax}"; message A {{ repeated B many = 1; {required} }} message B {{ {fields} }}'
    (tmp_path / "set").write_bytes(compiled(text))
    command = [sys.executable, "-c", OUT_OF_MEMORY, tmp_path / "set", "A"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    if syntax == "proto3":
        assert done.stdout == "[] [(0, 'Protobuf: has an unknown field')]\n"
    else:
        assert done.stdout.startswith(
            "[(0, 'Protobuf: takes more memory to decode than there is')]"
        )
