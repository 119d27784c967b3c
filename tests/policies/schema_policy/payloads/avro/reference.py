"""Avro's binary encoding as its specification describes it, read slowly: the reference of the tests.

It has nothing in common with `src`: it reads a stream by the schema's JSON.
"""

from io import BytesIO

KINDS = {
    *("record", "error", "enum", "fixed", "array", "map", "null", "boolean"),
    *("int", "long", "float", "double", "bytes", "string"),
}


class UnfitError(Exception):
    """The bytes are not those of a value of the schema."""


def fits(schema, payload, levels=127):
    """Whether a payload is one value of a schema, to its end."""
    stream = BytesIO(payload)
    try:
        read(schema, stream, names(schema, {}), levels)
    except UnfitError:
        return False
    return not stream.read(1)


def names(schema, found):
    """The named types of a schema."""
    if isinstance(schema, list):
        for branch in schema:
            names(branch, found)
    elif isinstance(schema, dict):
        if "name" in schema:
            found[schema["name"]] = schema
        for inner in (
            schema.get("type"),
            schema.get("items"),
            schema.get("values"),
            *(field["type"] for field in schema.get("fields", ())),
        ):
            names(inner, found)
    return found


def take(stream, count):
    if count < 0:
        raise UnfitError
    data = stream.read(min(count, 1 << 30))
    if len(data) != count:
        raise UnfitError
    return data


def number(stream, bits):
    value = 0
    for place in range(5 if bits == 32 else 10):
        byte = take(stream, 1)[0]
        value += (byte % 128) * 128**place
        if byte < 128:
            if value >= 2**bits:
                raise UnfitError
            return -(value + 1) // 2 if value % 2 else value // 2
    raise UnfitError


def read(schema, stream, known, levels):
    if isinstance(schema, list):
        index = number(stream, 64)
        if not 0 <= index < len(schema):
            raise UnfitError
        read(schema[index], stream, known, levels)
        return
    kind = schema["type"] if isinstance(schema, dict) else schema
    if isinstance(schema, str) and schema in known:
        read(known[schema], stream, known, levels)
        return
    if not isinstance(kind, str) or (isinstance(schema, dict) and kind not in KINDS):
        read(kind, stream, known, levels)
        return
    kind = "record" if kind == "error" else kind
    if kind in {"record", "array", "map"}:
        levels -= 1
        if levels < 0:
            raise UnfitError
    if kind in {"int", "long"}:
        number(stream, 32 if kind == "int" else 64)
    elif kind == "boolean":
        if take(stream, 1) not in {b"\0", b"\1"}:
            raise UnfitError
    elif kind in {"float", "double", "fixed"}:
        take(stream, {"float": 4, "double": 8}.get(kind) or schema["size"])
    elif kind in {"bytes", "string"}:
        text = take(stream, number(stream, 64))
        if kind == "string":
            utf_8(text)
    elif kind == "enum":
        if not 0 <= number(stream, 64) < len(schema["symbols"]):
            raise UnfitError
    elif kind == "record":
        for field in schema["fields"]:
            read(field["type"], stream, known, levels)
    elif kind in {"array", "map"}:
        blocks(schema, kind, stream, known, levels)
    else:
        assert kind == "null"


def utf_8(text):
    try:
        text.decode()
    except UnicodeDecodeError:
        raise UnfitError from None


def blocks(schema, kind, stream, known, levels):
    items = 0
    while True:
        count, end = number(stream, 64), None
        if count < 0:
            count, size = -count, number(stream, 64)
            if size < 0:
                raise UnfitError
            end = stream.tell() + size
        for _ in range(count):
            before = stream.tell()
            if kind == "map":
                utf_8(take(stream, number(stream, 64)))
            read(schema["items" if kind == "array" else "values"], stream, known, levels)
            items += stream.tell() == before
            if items > 10_000:
                raise UnfitError
        if end is not None and stream.tell() != end:
            raise UnfitError
        if not count:
            return
