"""The fields of Protobuf messages."""

from penstock.policies.schema_policy.fields.protobuf import is_map, is_repeated, read_fields
from penstock.policies.schema_policy.fields.tree import InlineRule
from penstock.policies.schema_policy.tags import read_patterns
from tests.policies.schema_policy.messages import meta, order_class


def test_names_types_tags_and_rules_of_an_option_that_the_pool_does_not_know():
    of = order_class(
        ssn_meta=meta("PII", rules=[{1: "short", 2: "nine digits", 3: "size(this) == 9"}]),
        message_meta=meta(rules=[{1: "positive", 3: "this.id > 0"}]),
    )
    root = read_fields(of.DESCRIPTOR, read_patterns({"tags": {"shop.Order.id": ["ID"]}}))
    fields = {field.name: field for field in root.fields}
    assert fields["ssn"].tags == {"PII"}
    assert fields["ssn"].rules == (InlineRule("short", "nine digits", "size(this) == 9"),)
    assert root.rules == (InlineRule("positive", "", "this.id > 0"),)
    assert fields["id"].tags == {"ID"}
    assert fields["id"].full_name == "shop.Order.id"
    kinds = {name: field.node.type_name for name, field in fields.items()}
    assert kinds == {
        "id": "LONG",
        "ssn": "STRING",
        "inner": "RECORD",
        "names": "ARRAY",
        "others": "ARRAY",
        "count": "INT",
        "state": "ENUM",
        "scores": "MAP",
    }
    assert fields["inner"].node is root
    assert fields["scores"].node.values is root


def test_maps_are_distinguished_from_lists():
    fields = order_class().DESCRIPTOR.fields_by_name
    assert (is_map(fields["scores"]), is_map(fields["others"])) == (True, False)
    assert (is_repeated(fields["names"]), is_repeated(fields["id"])) == (True, False)
