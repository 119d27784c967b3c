"""Random Avro payloads: valid payloads in every form of the specification, and damaged payloads."""

import random
import struct
from typing import Any, Final

from tests.policies.schema_policy.payloads.avro.reference import KINDS, names

_MOST_LEVELS: Final = 6
_PIECES: Final = (
    *(b"\0", b"\1", b"\2", b"\3", b"\x7f", b"\x80", b"\xff", b"\x80\0", b"\xff\xff\xff\xff\x0f"),
    *(b"\xff\xff\xff\xff\x10", b"\x80" * 9 + b"\1", b"\xff" * 9 + b"\2", b"\xc3\x28"),
)


class Payloads:
    """Makes payloads of a schema."""

    def __init__(self, schema: Any, chance: random.Random) -> None:
        self._schema = schema
        self._named = names(schema, {})
        self._chance = chance

    def right(self) -> bytes:
        """Return the payload of a value."""
        return self._value(self._schema, 0)

    def damaged(self) -> bytes:
        """Return a payload with a few bytes cut off, changed, put in, taken out or doubled."""
        chance, data = self._chance, bytearray(self.right())
        for _ in range(chance.choice([1, 1, 2])):
            at = chance.randrange(len(data) + 1)
            match chance.randrange(6):
                case 0:
                    del data[at:]
                case 1 if at < len(data):
                    data[at] = chance.randrange(256)
                case 2:
                    del data[at : at + chance.randrange(1, 4)]
                case 3:
                    data[at : at + chance.randrange(3)] = chance.choice(_PIECES)
                case 4:
                    data += data[at:] or b"\0"
                case _:
                    data[at:at] = chance.randbytes(chance.randrange(1, 4))
        return bytes(data)

    def _value(self, schema: Any, level: int) -> bytes:
        if isinstance(schema, list):
            branches = range(len(schema))
            if level > _MOST_LEVELS:
                branches = [at for at in branches if schema[at] == "null"] or branches
            branch = self._chance.choice(branches)
            return self._long(branch) + self._value(schema[branch], level + 1)
        kind = schema["type"] if isinstance(schema, dict) else schema
        if isinstance(schema, str) and schema in self._named:
            return self._value(self._named[schema], level)
        if not isinstance(kind, str) or (isinstance(schema, dict) and kind not in KINDS):
            return self._value(kind, level)
        if kind in {"record", "error"}:
            return b"".join(self._value(field["type"], level + 1) for field in schema["fields"])
        if kind in {"array", "map"}:
            return self._blocks(schema, kind, level)
        if kind == "enum":
            return self._long(self._chance.randrange(len(schema["symbols"])))
        if kind == "fixed":
            return self._chance.randbytes(schema["size"])
        return self._primitive(kind)

    def _primitive(self, kind: str) -> bytes:
        chance = self._chance
        match kind:
            case "null":
                return b""
            case "boolean":
                return bytes([chance.randrange(2)])
            case "int" | "long":
                bits = chance.randrange(1, 32 if kind == "int" else 64)
                return self._long(chance.randrange(-(2**bits), 2**bits) >> 1)
            case "float":
                return struct.pack("<f", chance.uniform(-9, 9))
            case "double":
                return struct.pack("<d", chance.uniform(-9, 9))
            case "bytes":
                data = chance.randbytes(chance.choice([0, 1, 5, 70]))
            case _:
                data = (chance.choice(["", "a", "snow \u2603", "\U0001f600", "x" * 70])).encode()
        return self._long(len(data)) + data

    def _blocks(self, schema: Any, kind: str, level: int) -> bytes:
        out = b""
        for _ in range(self._chance.choice([0, 1, 1, 2]) if level <= _MOST_LEVELS else 0):
            count = self._chance.randrange(1, 4)
            items = b""
            for _ in range(count):
                if kind == "map":
                    items += self._primitive("string")
                items += self._value(schema["items" if kind == "array" else "values"], level + 1)
            if self._chance.random() < 0.3:
                out += self._long(-count) + self._long(len(items)) + items
            else:
                out += self._long(count) + items
        return out + b"\0"

    def _long(self, number: int) -> bytes:
        """Return a number; now and then with a byte more than it needs, where it has two at most."""
        left = number * 2 if number >= 0 else -number * 2 - 1
        groups = []
        while True:
            groups.append(left & 127)
            left >>= 7
            if not left:
                break
        if len(groups) < 3 and self._chance.random() < 0.02:
            groups.append(0)
        return bytes([*(group | 128 for group in groups[:-1]), groups[-1]])
