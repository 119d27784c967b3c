"""Messages of Protobuf, whole and damaged."""

import random
from typing import Any

from penstock.policies.schema_policy.payloads.protobuf.check import MessageCheck
from penstock.policies.schema_policy.payloads.protobuf.merging import merging
from tests.policies.schema_policy.payloads.protobuf.files import pool_of, varint


def check(text: str, name: str, *, unknown: bool = False) -> MessageCheck:
    pool = pool_of(text)
    descriptor = pool.FindMessageTypeByName(name)
    return MessageCheck(descriptor, pool, pool_of(text, merging), allow_unknown_fields=unknown)


def filled(message: Any, chance: random.Random, depth: int = 0) -> Any:
    """Fill a message with anything, extensions too."""
    pool = message.DESCRIPTOR.file.pool
    extensions = pool.FindAllExtensions(message.DESCRIPTOR)
    for field in (*message.DESCRIPTOR.fields, *extensions):
        if not field.is_required and chance.random() < 0.4 + depth / 8:
            continue
        own = message.Extensions if field.is_extension else None
        inner = field.message_type
        if inner is not None and inner.GetOptions().map_entry:
            key, value = inner.fields_by_name["key"], inner.fields_by_name["value"]
            if value.message_type is not None:
                filled(getattr(message, field.name)[scalar(key, chance)], chance, depth + 1)
            else:
                getattr(message, field.name)[scalar(key, chance)] = scalar(value, chance)
        elif field.is_repeated:
            many = own[field] if own is not None else getattr(message, field.name)
            for _ in range(chance.randrange(4)):
                if inner is not None:
                    filled(many.add(), chance, depth + 1)
                else:
                    many.append(scalar(field, chance))
        elif inner is not None:
            part = own[field] if own is not None else getattr(message, field.name)
            part.SetInParent()
            filled(part, chance, depth + 1)
        elif own is not None:
            own[field] = scalar(field, chance)
        else:
            setattr(message, field.name, scalar(field, chance))
    return message


def scalar(field: Any, chance: random.Random) -> Any:
    if field.enum_type is not None:
        return chance.choice(field.enum_type.values).number
    kind = field.cpp_type
    if kind == field.CPPTYPE_STRING:
        text = chance.choice(["", "a", "snow \u2603", "x" * 200])
        return text.encode() if field.type == field.TYPE_BYTES else text
    if kind in {field.CPPTYPE_DOUBLE, field.CPPTYPE_FLOAT}:
        return chance.choice([0.0, 1.5, -2.25])
    if kind == field.CPPTYPE_BOOL:
        return chance.random() < 0.5
    low = 0 if kind in {field.CPPTYPE_UINT32, field.CPPTYPE_UINT64} else -5
    return chance.choice([low, 0, 1, 77, 2**31 - 1])


def damaged(data: bytes, chance: random.Random) -> bytes:
    """Change a few bytes, cut off, repeat, or put something in between."""
    changed = bytearray(data)
    for _ in range(chance.choice([0, 1, 1, 2])):
        at = chance.randrange(len(changed) + 1)
        match chance.randrange(6):
            case 0 if at < len(changed):
                changed[at] = chance.randrange(256)
            case 1:
                del changed[at:]
            case 2:
                changed[at:at] = bytes(chance.randrange(256) for _ in range(chance.randrange(1, 4)))
            case 3:
                del changed[at : at + chance.randrange(3)]
            case 4:
                changed += varint(chance.randrange(1, 200) << 3 | chance.randrange(6)) + b"\x01a"
            case 5:
                changed += changed[at:]
    return bytes(changed)


REQUIRED = "".join(f"required int64 f{i} = {i + 1};" for i in range(60))
