"""Rules of a registered schema, and their verdicts."""

import json
from typing import Any

from penstock.policies.schema_policy.payloads.compiled import SchemaSource
from penstock.policies.schema_policy.registered import RegisteredSchema
from penstock.policies.schema_policy.rules.options import RuleOptions
from penstock.policies.schema_policy.rules.rules import compile_rules


class NotAsked:
    """Rules of Avro and JSON need nothing of the compiled schema."""


def rule(expr: str, name: str = "r", **more: object) -> dict[str, object]:
    return {"name": name, "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": expr, **more}


def field_rule(expr: str, *tags: str, **more: object) -> dict[str, object]:
    return rule(expr, type="CEL_FIELD", tags=list(tags), **more)


def rules_of(
    schema: object,
    *rules: dict[str, object],
    kind: str = "AVRO",
    tags: dict[str, list[str]] | None = None,
    references: dict[str, object] | None = None,
    compiled: object = None,
    options: RuleOptions | None = None,
    **rule_set: object,
) -> Any:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    registered = RegisteredSchema(
        kind,
        text,
        metadata={"tags": tags or {}},
        rule_set={"domainRules": list(rules), **rule_set},
    )
    texts = {name: json.dumps(reference) for name, reference in (references or {}).items()}
    return compile_rules(
        registered,
        compiled or NotAsked(),
        SchemaSource(kind, text, texts),
        options or RuleOptions(),
    )


def judge(rules: Any, value: object) -> Any:
    return rules.objection(value)
