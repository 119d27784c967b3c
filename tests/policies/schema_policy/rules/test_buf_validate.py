"""Rules of `buf/validate/validate.proto` in Protobuf schemas."""

from base64 import b64encode

import pytest
from google.protobuf import descriptor_pb2, json_format

from penstock.policies.schema_policy.errors import InvalidSchemaError
from penstock.policies.schema_policy.payloads import compile_schema
from penstock.policies.schema_policy.payloads.compiled import SchemaSource
from penstock.policies.schema_policy.payloads.protobuf import buf_validate
from penstock.policies.schema_policy.registered import RegisteredSchema
from penstock.policies.schema_policy.rules.rules import compile_rules

pytestmark = pytest.mark.system
HEAD = 'syntax = "proto3"; package shop; import "buf/validate/validate.proto";\n'
ORDER = (
    HEAD
    + """
message Order {
  option (buf.validate.message).cel = {
    id: "order.discount", message: "the discount is above the amount",
    expression: "this.discount <= this.amount"
  };
  string id = 1 [(buf.validate.field).string.min_len = 3];
  double amount = 2 [(buf.validate.field).double.gt = 0];
  string currency = 3 [(buf.validate.field).string = {in: ["EUR", "USD"]}];
  double discount = 4;
  repeated Line lines = 5;
  map<string, string> notes = 6 [(buf.validate.field).map.values.string.max_len = 5];
  oneof payment {
    option (buf.validate.oneof).required = true;
    string card = 7;
    string iban = 8;
  }
}
message Line {
  string sku = 1 [(buf.validate.field).string.pattern = "^[a-z]+$"];
  int32 count = 2 [(buf.validate.field).int32 = {gte: 1, lte: 100}];
}
"""
)
SECRET = "SECRET-4111"
GOOD = {
    "id": "ord-1",
    "amount": 5,
    "currency": "EUR",
    "card": "1",
    "lines": [{"sku": "tea", "count": 2}],
}


def compiled(text, message="shop.Order", references=None, rule_set=None):
    source = SchemaSource("PROTOBUF", text, references or {}, message)
    schema = compile_schema(source)
    registered = RegisteredSchema("PROTOBUF", text, rule_set=rule_set or {})
    return schema, compile_rules(registered, schema, source)


def objection_of(text, value, message="shop.Order", **more):
    """Return the objection of a schema's rules to a value."""
    schema, rules = compiled(text, message, **more)
    made = schema.decode(b"")
    if isinstance(value, bytes):
        made = schema.decode(value)
    else:
        json_format.ParseDict(value, made)
    return rules.objection(made)


def one_field(field):
    return f"{HEAD} message Order {{ {field} }}"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, None),
        ({"id": "x"}, 'rule "string.min_len" failed at id: must be at least 3 characters'),
        ({"amount": 0}, 'rule "double.gt" failed at amount: must be greater than 0'),
        ({"currency": SECRET}, 'rule "string.in" failed at currency: must be in list [EUR, USD]'),
        ({"discount": 9}, 'rule "order.discount" failed: the discount is above the amount'),
        (
            {"lines": [{"sku": "tea", "count": 1}, {"sku": "tea", "count": 0}]},
            (
                'rule "int32.gte_lte" failed at lines[1].count: '
                "must be greater than or equal to 1 and less than or equal to 100"
            ),
        ),
        (
            {"notes": {SECRET: SECRET}},
            'rule "string.max_len" failed at notes[*]: must be at most 5 characters',
        ),
        (
            {"card": None},
            'rule "required" failed at payment: exactly one field is required in oneof',
        ),
    ],
)
def test_a_broken_rule_is_named_with_its_place(change, expected):
    value = {key: held for key, held in (GOOD | change).items() if held is not None}
    assert expected == objection_of(ORDER, value)


def test_a_schema_without_them_has_no_rules():
    plain = 'syntax = "proto3"; package shop; message Order { string id = 1; }'
    assert compiled(plain)[1].is_empty
    assert compiled(one_field("string id = 1;"))[1].is_empty


@pytest.mark.parametrize(
    "field",
    [
        'int32 a = 1 [(buf.validate.field).cel = {id: "x", expression: "this +"}];',
        'string a = 1 [(buf.validate.field).string.pattern = "("];',
        "string a = 1 [(buf.validate.field).int32.gt = 1];",
        'Inner a = 1; message Inner { string b = 1 [(buf.validate.field).string.pattern = "("]; }',
        'repeated Inner a = 1; message Inner { string b = 1 [(buf.validate.field).string.pattern = "("]; }',
        'map<string, Inner> a = 1; message Inner { string b = 1 [(buf.validate.field).string.pattern = "("]; }',
    ],
)
def test_rules_that_cannot_be_compiled_make_the_schema_unusable(field):
    with pytest.raises(InvalidSchemaError, match=r"^its rules of buf\.validate: "):
        compiled(one_field(field))


def test_a_rule_that_cannot_be_compiled_after_a_rule_without_a_result_is_found_with_the_record():
    text = one_field(
        'int32 a = 1 [(buf.validate.field).cel = {id: "x", expression: "1 / this == 1"}];'
        'int32 b = 2 [(buf.validate.field).cel = {id: "y", expression: "this +"}];'
    )
    with pytest.raises(InvalidSchemaError, match=r"^its rules of buf\.validate: "):
        objection_of(text, {"a": 1})


def changed(**added):
    """Return validate.proto with more fields in some of its messages."""
    file = descriptor_pb2.FileDescriptorProto.FromString(buf_validate.serialized())
    for message in file.message_type:
        if message.name in added:
            message.field.add(name=added[message.name], number=99, type=8, label=1)
    return buf_validate.NAME, file


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("FieldRules", one_field("string a = 1 [(buf.validate.field).later = true];")),
        ("MessageRules", one_field("option (buf.validate.message).later = true; string a = 1;")),
        ("OneofRules", one_field("oneof o { option (buf.validate.oneof).later = true; string a = 1; }")),
        ("Rule", one_field('string a = 1 [(buf.validate.field).cel = {expression: "true", later: true}];')),
        ("StringRules", one_field("string a = 1 [(buf.validate.field).string.later = true];")),
        ("RepeatedRules", one_field("repeated string a = 1 [(buf.validate.field).repeated.later = true];")),
    ],
)  # fmt: skip
def test_a_rule_of_a_newer_version_is_not_passed_over(where, text):
    name, file = changed(**{where: "later"})
    references = {name: b64encode(file.SerializeToString()).decode()}
    with pytest.raises(InvalidSchemaError, match=f"does not know: {where} 99"):
        compiled(text, references=references)


@pytest.mark.parametrize(
    ("rule", "value", "expected"),
    [
        ('expression: "1 / this == 1"', 0, 'rule "x" has no result: it divides by zero'),
        ('expression: "this + 1"', 1, 'rule "x" has no result: it gives neither true nor false'),
        ('expression: "this.foo == 1"', 1, 'rule "x" has no result: a value is null, or has a type that it cannot be used with'),
        (
            'expression: "[1,2,3].all(a, [1,2,3].map(b, b + this) == [0])", message: "m"',
            1,
            'rule "x" failed at a: m',
        ),
    ],
)  # fmt: skip
def test_a_rule_without_a_result_is_broken(rule, value, expected):
    text = one_field(f'int32 a = 1 [(buf.validate.field).cel = {{id: "x", {rule}}}];')
    assert expected == objection_of(text, {"a": value})


def test_a_loop_without_an_end_in_sight_is_ended():
    text = one_field(
        'repeated int32 a = 1 [(buf.validate.field).cel = {id: "x",'
        ' expression: "this.all(b, this.all(c, b + c >= 0))"}];'
    )
    assert (
        objection_of(text, {"a": [1] * 1000})
        == 'rule "x" has no result: it takes more than 10000 steps'
    )


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("this == 'a' ? '' : 'no ' + this", "this == 'a' ? '' : 'no ' + this"),
        ("this == 'a' ? '' : 'only a'", "only a"),
        ("this == 'a' ? '' : this", "this == 'a' ? '' : this"),
    ],
)
def test_a_text_is_shown_only_if_it_is_written_in_the_rule(expression, expected):
    text = one_field(
        f'string a = 1 [(buf.validate.field).cel = {{id: "x", expression: "{expression}"}}];'
    )
    assert objection_of(text, {"a": SECRET}) == f'rule "x" failed at a: {expected}'
    text = one_field(
        f'option (buf.validate.message).cel = {{id: "required", expression: "{expression}"}}; string a = 1;'.replace(
            "this", "this.a"
        )
    )
    assert SECRET not in objection_of(text, {"a": SECRET})


def test_an_expression_without_an_id_is_its_own_name():
    text = one_field("string a = 1 [(buf.validate.field).cel_expression = \"this == 'a'\"];")
    assert objection_of(text, {"a": SECRET}) == (
        "rule \"this == 'a'\" failed at a: \"this == 'a'\" returned false"
    )


def test_rules_that_a_schema_adds_itself_are_evaluated():
    text = """
syntax = "proto2"; package shop; import "buf/validate/validate.proto";
extend buf.validate.StringRules {
  optional bool shout = 1161 [(buf.validate.predefined).cel = {
    id: "shout", message: "must be in capitals", expression: "this == this.upperAscii()"}];
  optional bool echo = 1162 [(buf.validate.predefined).cel = {
    id: "echo", expression: "this == 'a' ? '' : this"}];
}
message Order {
  optional string a = 1 [(buf.validate.field).string.(shout) = true];
  optional string b = 2 [(buf.validate.field).string.(echo) = true];
}
"""
    assert objection_of(text, {"a": "x"}) == 'rule "shout" failed at a: must be in capitals'
    assert objection_of(text, {"b": SECRET}) == "rule \"echo\" failed at b: this == 'a' ? '' : this"
    assert objection_of(text, {"a": "X", "b": "a"}) is None


def test_strings_of_proto2_that_are_no_text_are_refused():
    text = (
        'syntax = "proto2"; package shop; import "buf/validate/validate.proto";'
        "message Order { optional string a = 1 [(buf.validate.field).string.min_len = 1]; }"
    )
    assert (
        objection_of(text, b"\x0a\x02\xff\xfe") == "its rules have no result: a string is not UTF-8"
    )


def test_types_of_the_same_name_have_the_rules_of_their_own_schema():
    short = compiled(one_field("string a = 1 [(buf.validate.field).string.max_len = 1];"))
    long = compiled(one_field("string a = 1 [(buf.validate.field).string.min_len = 3];"))
    for (schema, rules), expected in ((short, "max_len"), (long, "min_len"), (short, "max_len")):
        assert expected in rules.objection(schema.decode(b"\x0a\x02xx"))


def test_a_file_of_the_schema_is_used_if_it_exists():
    own = 'syntax = "proto2"; package buf.validate; import "google/protobuf/descriptor.proto";'
    with pytest.raises(InvalidSchemaError, match="is not valid"):
        compiled(ORDER, references={buf_validate.NAME: own})


def test_rules_of_values_that_producers_change_are_not_run():
    transform = {
        "name": "c",
        "kind": "TRANSFORM",
        "mode": "WRITE",
        "type": "CEL",
        "expr": "message",
    }
    _, rules = compiled(ORDER, rule_set={"domainRules": [transform]})
    assert rules.is_empty
    assert rules.not_run[-1] == 'rules within the schema: values are changed by rule "c"'


def test_conditions_of_the_data_contract_come_first():
    condition = {
        "name": "c",
        "kind": "CONDITION",
        "mode": "WRITE",
        "type": "CEL",
        "expr": "message.id != 'x'",
    }
    assert objection_of(
        ORDER, GOOD | {"id": "x"}, rule_set={"domainRules": [condition]}
    ).startswith('rule "c" failed')
    assert objection_of(
        ORDER, GOOD | {"id": "y"}, rule_set={"domainRules": [condition]}
    ).startswith('rule "string.min_len" failed')


def test_both_evaluations_of_cel_are_in_one_process():
    """Two libraries with CEL in C++, with their own Protobuf each, do not meet."""
    condition = {
        "name": "c",
        "kind": "CONDITION",
        "mode": "WRITE",
        "type": "CEL",
        "expr": "message.amount < 10.0",
    }
    schema, rules = compiled(ORDER, rule_set={"domainRules": [condition]})
    for amount, broken in ((5, None), (50, "c"), (0, "double.gt")) * 50:
        made = json_format.ParseDict(GOOD | {"amount": amount}, schema.decode(b""))
        found = rules.objection(made)
        assert found is None if broken is None else f'rule "{broken}"' in found
