"""Whether a message fits, the slow way: upb reads one, then its bytes are read again, recursively.

Shares no code with the tested code. The bytes are read only if upb accepts them.
"""

import struct

from google.protobuf.message import DecodeError

PACKED = {"double": 8, "float": 4, "fixed64": 8, "sfixed64": 8, "fixed32": 4, "sfixed32": 4}
NAMES = (
    *("", "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string"),
    *("group", "message", "bytes", "uint32", "enum", "sfixed32", "sfixed64", "sint32", "sint64"),
)
WIRE = {"string": 2, "bytes": 2, "message": 2, "group": 3} | {
    name: 1 if size == 8 else 5 for name, size in PACKED.items()
}


def fits(new, data, *, unknown=False):
    try:
        message = new.FromString(data)
    except DecodeError:
        return False
    return message.IsInitialized() and (unknown or not has_unknown(new.DESCRIPTOR, data))


def has_unknown(descriptor, data):
    known = {field.number: field for field in descriptor.fields}
    for extension in descriptor.file.pool.FindAllExtensions(descriptor):
        known[extension.number] = extension
    return any(is_unknown(known.get(number), wire, value) for number, wire, value in fields(data))


def is_unknown(field, wire, value):
    if field is None:
        return True
    name = NAMES[field.type]
    own = WIRE.get(name, 0)
    if wire != own:
        if not (field.is_repeated and wire == 2 and own in {0, 1, 5}):
            return True
        if name != "enum":
            return False
        numbers = packed(value)
    else:
        numbers = [value]
    if name == "enum" and field.enum_type.is_closed:
        listed = {value.number for value in field.enum_type.values}
        return any(signed(number) not in listed for number in numbers)
    return field.message_type is not None and has_unknown(field.message_type, value)


def signed(number):
    return struct.unpack("<i", struct.pack("<I", number % 2**32))[0]


def packed(data):
    rest = data
    while rest:
        number, rest = take(rest)
        yield number


def take(data):
    size = next(at for at, byte in enumerate(data) if byte < 128) + 1
    return sum((byte & 127) << (7 * at) for at, byte in enumerate(data[:size])), data[size:]


def fields(data):
    """The fields of a message; of a group its number, 3 and its content."""
    rest = data
    while rest:
        tag, rest = take(rest)
        number, wire = tag >> 3, tag & 7
        if wire == 4:
            return
        if wire == 0:
            value, rest = take(rest)
        elif wire == 3:
            value = rest
            rest = behind_group(rest)
        else:
            size = {1: 8, 5: 4}.get(wire)
            if size is None:
                size, rest = take(rest)
            value, rest = rest[:size], rest[size:]
        yield number, wire, value


def behind_group(data):
    rest = data
    while True:
        tag, rest = take(rest)
        match tag & 7:
            case 0:
                _, rest = take(rest)
            case 1 | 5 as fixed:
                rest = rest[8 if fixed == 1 else 4 :]
            case 2:
                size, rest = take(rest)
                rest = rest[size:]
            case 3:
                rest = behind_group(rest)
            case 4:
                return rest
