"""References of a JSON Schema lead to one place, or to none."""

import pytest

from penstock.policies.schema_policy.errors import InvalidSchemaError
from penstock.policies.schema_policy.fields.references import References

ANCHORED = {"$anchor": "here", "type": "string"}
OLD = {"$id": "#old", "type": "integer"}
OWN = {"$id": "own.json", "type": "null"}
ROOT = {"$defs": {"a/b": ANCHORED, "list": [OLD, OWN]}}
OTHER = {"$id": "http://x/other.json", "properties": {"p": {"type": "boolean"}}}
REFERENCES = References(ROOT, {"name": OTHER})


@pytest.mark.parametrize(
    ("reference", "found", "home"),
    [
        ("#", ROOT, ROOT),
        ("#/$defs/a~1b", ANCHORED, ROOT),
        ("#/%24defs/list/0", OLD, ROOT),
        ("#here", ANCHORED, ROOT),
        ("#old", OLD, ROOT),
        ("own.json", OWN, OWN),
        ("name#/properties/p", OTHER["properties"]["p"], OTHER),
        ("http://x/other.json", OTHER, OTHER),
        ("other.json", OTHER, OTHER),
    ],
)
def test_the_target_of_a_reference(reference, found, home):
    target, document = REFERENCES.target(reference, ROOT)
    assert target is found
    assert document is home


@pytest.mark.parametrize("reference", ["#nowhere", "nowhere.json", "#/$defs/c", "#/$defs/list/9"])
def test_references_without_a_target(reference):
    with pytest.raises((InvalidSchemaError, LookupError)):
        REFERENCES.target(reference, ROOT)
