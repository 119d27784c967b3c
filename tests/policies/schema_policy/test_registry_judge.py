"""The state of a judge of a topic: it has the same verdicts as a judge without state."""

import gc
import random

from penstock.engine.columns import Columns
from penstock.engine.interceptors.policy_batch import PolicyBatch
from penstock.policies.schema_policy.compiled_schemas import CompiledSchemas
from penstock.policies.schema_policy.payloads.avro.compile import AvroSchema
from penstock.policies.schema_policy.registered import RegisteredSchema
from penstock.policies.schema_policy.registry.cache import Registry
from penstock.policies.schema_policy.registry.errors import UnknownSchemaError
from penstock.policies.schema_policy.registry_judge import RegistryJudge
from penstock.policies.schema_policy.settings import TopicSettings
from penstock.policies.schema_policy.unusable import UnusableSchemas
from penstock.policy import Header
from tests.policies.schema_policy.clock import Clock

_KEPT = 1024


def objections(judge, column, headers):
    """The objections of a judge to a batch's values, as the policy gets them."""
    batch = PolicyBatch(Columns(len(column), (), (), column, headers))
    prepared = judge.prepared_as_last(batch) or judge.prepared(column, headers)
    return sorted(prepared.objections())


class Client:
    """Has a schema for each id; each of a thousand ids is for a different topic."""

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
            f"topic-{topic}",
            settings,
            registry,
            schemas,
            UnusableSchemas(),
            is_key=False,
            clock=clock,
        )
        judges.append(judge)
        ids = range(1000 * topic, 1000 * topic + 900)
        good = [b"\0" + schema_id.to_bytes(4) + b"\2" for schema_id in ids]
        assert list(judge.prepared(good, [()] * len(good)).objections()) == []
        bad = [payload + b"\0" for payload in good]
        assert len(list(judge.prepared(bad, [()] * len(bad)).objections())) == len(bad)
        assert list(judge.prepared(good[-1:], [()]).objections()) == []
    assert _alive() - before <= _KEPT
    for topic, judge in enumerate(judges, 1):  # by a schema that may have to be compiled again
        again = b"\0" + (1000 * topic + 899).to_bytes(4)
        column = [again + b"\2", again + b"\2\0"]
        assert [at for at, _ in judge.prepared(column, [(), ()]).objections()] == [1]


class Numbers:
    """Has a schema for each of two ids, both under the subject of the topic, until it has not."""

    subject = "numbers-value"

    def schema_by_id(self, schema_id):
        if schema_id not in {1, 2}:
            raise UnknownSchemaError("no such schema")
        schema = '{"type": "integer"}' if schema_id == 1 else '{"type": "string"}'
        return RegisteredSchema("JSON", schema, schema_id=schema_id)

    def schema_by_guid(self, guid):
        raise UnknownSchemaError(f"no {guid}")

    def subject_versions(self, schema_id):
        return ((self.subject, schema_id),)


def numbers(client, clock, location="any"):
    """Return a function that makes judges of a topic, all with the same registry."""
    registry = Registry(client, clock)
    schemas = CompiledSchemas(registry)
    settings = TopicSettings.read(
        {"confluent.value.schema.validation": "true", "schema.id.location": location}
    )
    return lambda: RegistryJudge(
        "numbers", settings, registry, schemas, UnusableSchemas(), is_key=False, clock=clock
    )


def test_the_schema_of_the_last_records_changes_no_verdict():
    chance = random.Random(21)
    starts = [b"\0\0\0\0\1", b"\0\0\0\0\2", b"\0\0\0\0\3", b"\0\0\0\0\0", b"\0\0", b"\1" * 17, b""]
    header = Header("__value_schema_id", b"\0\0\0\0\2")
    verdicts = set()
    for location in ("any", "prefix", "header"):
        judge_of = numbers(Numbers(), Clock(), location)
        judge = judge_of()
        for _ in range(150):
            count = chance.choice([1, 2, 40])
            some = chance.choices(starts, [9, 9, 1, 1, 1, 1, 1], k=chance.choice([1, 1, 2]))
            column = [chance.choice(some) + chance.choice([b"1", b'"a"']) for _ in range(count)]
            headers = [()] * count
            if chance.random() < 0.3:
                column[chance.randrange(count)] = None
            if location != "prefix" and chance.random() < 0.5:
                headers[chance.randrange(count)] = (chance.choice([header, Header("a", b"b")]),)
            found = objections(judge, column, headers)
            assert found == sorted(judge_of().prepared(column, headers).objections())
            verdicts |= {text for _, text in found}
            verdicts |= {None} if len(found) < count else set()
    assert len(verdicts) > 10
    assert None in verdicts


def test_the_schema_of_the_last_records_is_requested_again():
    client, clock = Numbers(), Clock()
    judge = numbers(client, clock)()
    column = [b"\0\0\0\0\1" + b"1"] * 3
    batch = PolicyBatch(Columns(3, (), (), column, [()] * 3))
    assert judge.prepared_as_last(batch) is None
    assert list(judge.prepared(column, [()] * 3).objections()) == []
    for _ in range(2):
        assert list(judge.prepared_as_last(batch).objections()) == []
    client.subject = "others-value"
    clock.passes(301)
    for _ in range(2):
        assert judge.prepared_as_last(batch) is None
        found = list(judge.prepared(column, [()] * 3).objections())
        assert [at for at, _ in found] == [0, 1, 2]
        assert "not under subject numbers-value" in found[0][1]


def _alive():
    gc.collect()
    return sum(isinstance(found_object, AvroSchema) for found_object in gc.get_objects())
