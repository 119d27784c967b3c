"""Avro schemas by chance, and values of them."""

import json
from io import BytesIO
from itertools import count

import fastavro
from hypothesis import strategies as st

from penstock.policies.schema_policy.payloads.avro.compile import compile_avro
from penstock.policies.schema_policy.payloads.compiled import SchemaSource

LIST = {"type": "record", "name": "N", "fields": [{"name": "n", "type": ["null", "N"]}]}
TREE = {
    "type": "record",
    "name": "T",
    "fields": [
        {"name": "label", "type": "string"},
        {"name": "leaves", "type": {"type": "array", "items": "T"}},
        {"name": "named", "type": {"type": "map", "values": ["T", "int", "null"]}},
    ],
}
NUMBERS = {"int": 2**31, "long": 2**63}
PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
SIMPLE = st.sampled_from(PRIMITIVES) | st.one_of(
    st.tuples(st.just("fixed"), st.sampled_from([0, 1, 5])),
    st.tuples(st.just("enum"), st.sampled_from([1, 3, 64, 65, 200])),
)
SHAPES = st.recursive(
    SIMPLE,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["array", "map"]), inner),
        st.tuples(st.just("record"), st.lists(inner, max_size=5)),
        st.tuples(st.just("union"), st.lists(inner, min_size=1, max_size=20)),
    ),
    max_leaves=25,
)


def schema_of(shape, numbers=None):
    """A shape as a schema, with a name for each type that needs one."""
    numbers = numbers or count()
    if isinstance(shape, str):
        return shape
    kind, inner = shape
    name = f"t{next(numbers)}"
    if kind == "fixed":
        return {"type": kind, "name": name, "size": inner}
    if kind == "enum":
        return {"type": kind, "name": name, "symbols": [f"s{at}" for at in range(inner)]}
    if kind in {"array", "map"}:
        keyword = "items" if kind == "array" else "values"
        return {"type": kind, keyword: schema_of(inner, numbers)}
    if kind == "record":
        fields = [
            {"name": f"f{at}", "type": schema_of(part, numbers)} for at, part in enumerate(inner)
        ]
        return {"type": kind, "name": name, "fields": fields}
    branches = {}
    for part in inner:
        branch = schema_of(part, numbers)
        if not isinstance(branch, list):  # there are no unions in unions
            key = branch if isinstance(branch, str) else branch.get("name", branch["type"])
            branches.setdefault(key, branch)
    return list(branches.values()) or ["null"]


SCHEMAS = SHAPES.map(schema_of) | st.sampled_from([LIST, TREE])


def values(schema, named=None, depth=0):
    """Values of a schema, as fastavro writes them."""
    named = {} if named is None else named
    if isinstance(schema, list):
        schema = schema[:1] if depth > 5 else schema
        return st.one_of(*(values(branch, named, depth) for branch in schema))
    kind = schema["type"] if isinstance(schema, dict) else schema
    if kind in named:
        inside = depth + 1
        return st.deferred(lambda: values(named[kind], named, inside))
    if isinstance(schema, dict) and "name" in schema:
        named[schema["name"]] = schema
    if kind in NUMBERS:
        most = NUMBERS[kind]
        return st.integers(-most, most - 1) | st.integers(-100, 100)
    if kind in {"array", "map"}:
        most = 0 if depth > 5 else 3
        inner = values(schema["items" if kind == "array" else "values"], named, depth + 1)
        if kind == "array":
            return st.lists(inner, max_size=most)
        return st.dictionaries(st.text(max_size=3), inner, max_size=most)
    if kind == "record":
        return st.fixed_dictionaries(
            {field["name"]: values(field["type"], named, depth + 1) for field in schema["fields"]}
        )
    if kind == "fixed":
        return st.binary(min_size=schema["size"], max_size=schema["size"])
    if kind == "enum":
        return st.sampled_from(schema["symbols"])
    return {
        "null": st.none(),
        "boolean": st.booleans(),
        "float": st.floats(width=32),
        "double": st.floats(),
        "bytes": st.binary(max_size=100),
        "string": st.text(max_size=100),
    }[kind]


def written(schema, value):
    """A payload."""
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def compiled(schema, **references):
    """A schema ready to judge; a text that is not the name of a primitive is taken as it is."""
    is_text = isinstance(schema, str) and schema not in PRIMITIVES
    text = schema if is_text else json.dumps(schema)
    texts = {
        name: reference if isinstance(reference, str) else json.dumps(reference)
        for name, reference in references.items()
    }
    return compile_avro(SchemaSource("AVRO", text, texts))


def objection(schema, payload, **references):
    """The flaw of a payload, or None."""
    return dict(compiled(schema, **references).objections([payload])).get(0)
