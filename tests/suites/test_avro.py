"""Avro against fastavro, over the schemas of fastavro's tests; in both implementations.

The slow reference of the unit tests, which follows the specification byte for byte, decides what
fits; where fastavro differs, the difference is in `expected.toml`.
"""

import json
import random
import re
from collections import Counter
from io import BytesIO

import fastavro
import pytest

from penstock.policies.schema_policy.errors import InvalidSchemaError
from penstock.policies.schema_policy.payloads.avro.compile import compile_avro
from penstock.policies.schema_policy.payloads.compiled import SchemaSource
from tests.policies.schema_policy.payloads.avro import reference
from tests.policies.schema_policy.payloads.avro.implementations import IMPLEMENTATIONS, use
from tests.suites.avro_payloads import Payloads
from tests.suites.avro_schemas import schemas
from tests.suites.expected import reasons, table

pytestmark = pytest.mark.suites
PAYLOADS = 126_000
RIGHT = 0.25
"""The share of valid payloads; some damaged payloads are valid, too."""
PLACE = re.compile(r"^Avro: (?:the field \S+|the value) ")


def usable():
    """The schemas that Penstock takes and that have a value of finite size, compiled in all ways."""
    found = []
    for schema in schemas():
        payloads = Payloads(schema, random.Random(0))
        try:
            payloads.right()
            compiled = both(schema)
        except (RecursionError, InvalidSchemaError):
            continue
        found.append((schema, compiled))
    return found


def both(schema):
    made = []
    for implementation in IMPLEMENTATIONS:
        with pytest.MonkeyPatch.context() as patch:
            use(implementation, patch)
            made.append(compile_avro(SchemaSource("AVRO", json.dumps(schema))))
    return made


def fits_fastavro(schema, payload):
    stream = BytesIO(payload)
    try:
        fastavro.schemaless_reader(stream, schema, None)
    except Exception:
        return False
    return stream.tell() == len(payload)


def is_bare(schema):
    kind = schema["type"] if isinstance(schema, dict) else schema
    return kind == "bytes"


def difference(schema, objections):
    """What a difference is called in `expected.toml`."""
    if objections is None:
        return "bare bytes" if is_bare(schema) else "fastavro refuses what fits"
    return PLACE.sub("", objections)


def test_avro(suites_seed):
    chance, expected = random.Random(suites_seed), reasons("avro")
    chosen = usable()
    assert len(chosen) > 400
    each = -(-PAYLOADS // len(chosen))
    judged, fitting, counted = 0, 0, Counter()
    for schema, (compiled, *others) in chosen:
        made = Payloads(schema, chance)
        payloads = [made.right() if at < each * RIGHT else made.damaged() for at in range(each)]
        objections = dict(compiled.objections(payloads))
        for other in others:
            assert dict(other.objections(payloads)) == objections, schema
        for position, payload in enumerate(payloads):
            why = objections.get(position)
            if not is_bare(schema):
                assert (why is None) == reference.fits(schema, payload), (schema, payload, why)
            if (why is None) != fits_fastavro(schema, payload):
                counted[difference(schema, why)] += 1
        judged += len(payloads)
        fitting += len(payloads) - len(objections)
    print(f"\nAvro, seed {suites_seed}: {judged:,} payloads, {fitting:,} fit")
    print(table(counted, expected))
    assert judged >= PAYLOADS
    assert fitting > judged * RIGHT
    assert sorted(set(counted) - set(expected)) == []
