"""Verdicts on generated rows, compared with those on records that have their JSON."""

import json
from decimal import Decimal

from penstock.engine.columns import columns_of
from penstock.jobs.evaluation import Evaluator
from penstock.policy import InvalidRecordException, Record, RecordValidationPolicy
from penstock.spark import judge_rows, plan
from penstock.spark.rows.values import value_of
from tests.spark.rows import generated


class NoText(RecordValidationPolicy):
    def validate(self, topic, record):
        if b"dGV4dA==" in record.value:
            raise InvalidRecordException("has a text")


def generated_plan(**more):
    return plan(rules=generated.RULES, schema=generated.JSON_SCHEMA, policies=[NoText], **more)


def same_as_their_json(spark, count, seed, nulls):
    """Compare verdicts and objections, and the values with what they have to be."""
    rows = generated.rows(count, seed)
    frame = spark.createDataFrame(rows, generated.SCHEMA).coalesce(1)
    row_plan = generated_plan(nulls=nulls)
    judged = judge_rows(frame, row_plan).select(
        value_of(["verdict"], nulls).alias("value"), "verdict"
    )
    found = judged.collect()
    values = [row.value.encode() for row in found]
    if nulls == "null":
        parsed = [json.loads(value, parse_float=Decimal) for value in values]
        assert parsed == [generated.as_value(row) for row in rows]
    evaluator = Evaluator(row_plan.records)
    records = columns_of([Record(-1, None, value) for value in values])
    wire = dict(evaluator.judge_records("rows", 0, records).verdicts)
    everything = evaluator.judge_by_all("rows", 0, records)
    evaluator.close()
    rules = set()
    for number, (row, value) in enumerate(zip(found, values, strict=True)):
        verdict = wire.get(number)
        expected = (
            ("accepted", None, 0, None)
            if verdict is None
            else (verdict.outcome.value, verdict.policy, verdict.code, verdict.message)
        )
        assert row.verdict[:4] == expected, (seed, value)
        objections = [tuple(objection) for objection in row.verdict.objections]
        assert objections == [named[:5] for named in everything.objections.get(number, ())], value
        rules |= {(objection.policy, objection.rule) for objection in row.verdict.objections}
    assert {rule for policy, rule in rules if policy == "rules"} == set(generated.RULES)
    assert {policy for policy, _ in rules} == {"rules", "schema", "NoText"}
    assert 0 < len(wire) < count
