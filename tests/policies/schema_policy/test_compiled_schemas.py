"""Compiled schemas: kept, but for those that cannot be used."""

from penstock.policies.schema_policy.compiled_schemas import PROBLEM_SECONDS, CompiledSchemas
from penstock.policies.schema_policy.registered import RegisteredSchema, SchemaReference
from penstock.policies.schema_policy.registry.cache import Registry
from penstock.policies.schema_policy.registry.errors import UnknownSchemaError
from tests.policies.schema_policy.clock import Clock

REFERS = RegisteredSchema("AVRO", '"Line"', (SchemaReference("Line", "line", 1),))
LINE = RegisteredSchema("AVRO", '{"type": "fixed", "name": "Line", "size": 2}')


class Client:
    def __init__(self):
        self.found = None
        self.requests = 0

    def schema_of_version(self, subject, version):
        self.requests += 1
        if self.found is None:
            raise UnknownSchemaError("not in the schema registry")
        return self.found


def test_a_schema_with_a_missing_part_is_compiled_again_after_a_while():
    clock, client = Clock(), Client()
    schemas = CompiledSchemas(Registry(client, clock), clock=clock)
    assert "not in the schema registry" in schemas.of(REFERS, 7).problem
    client.found = LINE
    clock.passes(PROBLEM_SECONDS - 1)
    assert schemas.of(REFERS, 7) is schemas.kept(7)
    assert client.requests == 1
    clock.passes(1)
    assert schemas.kept(7) is None
    compiled = schemas.of(REFERS, 7)
    assert not compiled.problem
    clock.passes(10 * PROBLEM_SECONDS)
    assert schemas.of(REFERS, 7) is schemas.kept(7) is compiled
