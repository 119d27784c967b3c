"""Schemas of Avro whose tables are large."""


def record(name: str, **fields: object) -> dict[str, object]:
    listed = [{"name": field, "type": schema} for field, schema in fields.items()]
    return {"type": "record", "name": name, "fields": listed}


def chain(levels: int, end: object) -> object:
    """Records each of which has only the next record, and some nulls."""
    for level in reversed(range(levels)):
        end = record(f"R{level}", before="null", **{f"f{level}": end, "after": "null"})
    return end


DOUBLING = {f"r{at}": record(f"D{at}", x=f"D{at + 1}", y=f"D{at + 1}") for at in range(12)}
COSTLY = {
    "a chain of records": (chain(120, "int"), {}, b"\0"),
    "a chain of records around two numbers": (
        chain(120, record("E", x="int", y="int")),
        {},
        b"\0\0",
    ),
    "records that double": ("D0", {**DOUBLING, "end": record("D12", n="int")}, b"\0" * 2**12),
    "a chain in each branch": (["null", chain(120, "int")], {}, b"\2\0"),
}
