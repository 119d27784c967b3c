"""How much a judge of a topic keeps."""

import gc

from penstock.policies.schema_policy.compiled_schemas import CompiledSchemas
from penstock.policies.schema_policy.payloads.avro.compile import AvroSchema
from penstock.policies.schema_policy.registered import RegisteredSchema
from penstock.policies.schema_policy.registry.cache import Registry
from penstock.policies.schema_policy.registry_judge import RegistryJudge
from penstock.policies.schema_policy.settings import TopicSettings
from tests.policies.schema_policy.clock import Clock

_KEPT = 1024


class Client:
    """Has a schema for each id; each of a thousand ids is of a topic of its own."""

    def schema_by_id(self, schema_id):
        return RegisteredSchema("AVRO", '"int"', schema_id=schema_id)

    def subject_versions(self, schema_id):
        return ((f"topic-{schema_id // 1000}-value", schema_id % 1000 + 1),)


def test_schemas_that_are_not_kept_compiled_are_not_kept_by_judges():
    clock = Clock()
    registry = Registry(Client(), clock)
    schemas = CompiledSchemas(registry)
    settings = TopicSettings.read({"confluent.value.schema.validation": "true"})
    judges = []
    before = _alive()
    for topic in range(1, 4):
        judge = RegistryJudge(
            f"topic-{topic}", settings, registry, schemas, is_key=False, clock=clock
        )
        judges.append(judge)
        ids = range(1000 * topic, 1000 * topic + 900)
        good = [b"\0" + one.to_bytes(4) + b"\2" for one in ids]
        assert list(judge.prepared(good, [()] * len(good)).objections()) == []
        bad = [one + b"\0" for one in good]
        assert len(list(judge.prepared(bad, [()] * len(bad)).objections())) == len(bad)
    assert _alive() - before <= _KEPT


def _alive():
    gc.collect()
    return sum(isinstance(one, AvroSchema) for one in gc.get_objects())
