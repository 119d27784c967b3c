"""Wrong names, rules, contracts and modes: errors at start that say where and what would be right."""

import pytest

from penstock.cli import main

CONTRACT = """
apiVersion: v3.0.2
kind: DataContract
id: x
version: 1.0.0
status: active
schema:
  - name: orders
    logicalType: object
    properties:
      - name: id
        logicalType: string
        required: true
"""
pytestmark = pytest.mark.system  # a class of the user's is looked at in a process of its own
FILES = {
    "order.json": '{"type": "object"}',
    "type.json": '{"type": 3}',
    "cut.json": "{",
    "contract.yaml": CONTRACT,
    "type.yaml": CONTRACT.replace("logicalType: string", "logicalType: strng"),
    "cut.yaml": "a: [",
    "other.yaml": "hello: 1\n",
    "mine.py": """
class Nothing: pass
class Topics:
    def validate(self, request): pass
class Ok:
    def validate_record(self, destination, key, value, headers): return None
class Failing(Ok):
    def configure(self, configs): raise ValueError("no limit")
""",
}
DEAD = "errors.deadletterqueue."


def of(kind, **own):
    """Return the keys of a policy with a name that judges topic orders."""
    return {
        "policies": "p",
        "policies.p.type": kind if "." in kind or not kind else f"penstock.policies.{kind}",
        "topics.orders.penstock.policies": "p",
        **{f"policies.p.{key.replace('__', '.')}": value for key, value in own.items()},
    }


def rule(condition="value.x > 0", **more):
    return of("Rules", **{"rules.a": condition, **more})


MISTAKES = [
    # modes
    ({"penstock.mode": "quarantin"}, "penstock.mode must be one of enforce, quarantine, mark, ob"),
    ({"topics.orders.penstock.mode": "marks"}, "topics.orders.penstock.mode must be one of enforc"),
    (rule(mode="block"), "policies.p.mode must be one of enforce, quarantine, mark, observe"),
    (of("DropRecords", mode="mark"), "policies.p.mode has no effect on an interceptor"),
    ({"penstock.mod": "mark"}, "did you mean penstock.mode?"),
    # names
    ({**rule(), "topics.orders.penstock.policies": "p,q"}, "there is no policy q; there are p"),
    ({"topics.orders.penstock.policies": "p"}, "there is no policy p: the gateway's file names no"),
    ({**rule(), "topics.orders.penstock.policies": "p,p"}, "each once; a name has letters, digits"),
    ({**rule(), "policies": "p,p"}, "policies must be names of policies separated by commas"),
    ({**rule(), "policies": "a.b"}, "a name has letters, digits, - and _; it is 'a.b'"),
    ({"policies": "p"}, "policies.p.type is missing: the type of p, which policies names: packa"),
    ({"penstock.policies": "p"}, "write topics.<glob>.penstock.policies, for example"),
    ({"topics.orders.penstock.polices": "p"}, "did you mean penstock.policies?"),
    # types
    (of("Rule"), "policies.p.type: penstock.policies.Rule is no class: module penstock.policies"),
    (of("none.X"), "there is no module none; it is looked for in"),
    (of("mine.X"), "module mine has no class X"),
    (of("mine.Nothing"), "has no validate(), validate_record() or process_record(): see the inter"),
    (of("mine.Failing"), "mine.Failing: configure() failed: ValueError: no limit ("),
    ({**of("Rules"), "policies.p.type": "amounts"}, "or the short name of a policy: DataContract"),
    # rules
    (of("Rules"), "policies.p.type: penstock.policies.Rules: there is no rule: set rules.<name> to"),
    (rule("value.x >"), "policies.p.rules.a: its condition is not valid: <input>:1:10: Syntax error"),
    (rule("valu.x > 0"), "undeclared reference to 'valu.x'"),
    (rule("value.x.startWith('a')"), "undeclared reference to 'startWith'"),
    (rule("topic > 3"), "found no matching overload for '_>_' applied to '(string, int)'"),
    (rule("size(headers)"), "policies.p.rules.a: its condition does not give true or false"),
    (rule("value.x.matches('[')"), "a pattern that is no regular expression of RE2"),
    (rule(""), "policies.p.rules.a must be a condition in CEL, like value.amount > 0"),
    (rule(**{"rules.b.message": "m"}), "policies.p.rules.b.message: there is no rule rules.b"),
    (rule(**{"rules.a.mesage": "m"}), "did you mean policies.p.rules.a.message?"),
    (rule(**{"rules.a.scope": "batches"}), "rules.a.scope must be one of record, batch; it is 'b"),
    (rule(**{"rules.a.scope": "batch"}), "it may read count, distinct_keys, null_keys"),
    (of("Rules", **{"rule.a": "true"}), "did you mean policies.p.rules.a?"),
    (rule(format="jsn"), "policies.p.format must be one of json, avro, protobuf, string, bytes"),
    (rule(format="avro"), "policies.p.format=avro needs schema.file, like schema.file=order.avsc"),
    # schemas and contracts
    (of("JsonSchema"), "policies.p.schema is missing: The schema's file: `order.schema.json`"),
    (of("JsonSchema", schema="ordr.json"), "policies.p.schema=ordr.json: ordr.json: there is no su"),
    (of("JsonSchema", schema="type.json"), "type.json is not a valid schema at /type: 3 is not"),
    (of("JsonSchema", schema="cut.json"), "policies.p.schema=cut.json: cut.json is not JSON"),
    (of("DataContract"), "policies.p.contract is missing: The contract's file: ODCS 3.x in YAML"),
    (of("DataContract", contract="c.yaml"), "policies.p.contract=c.yaml: c.yaml cannot be read"),
    (of("DataContract", contract="cut.yaml"), "cut.yaml is not YAML at line 1"),
    (of("DataContract", contract="other.yaml"), "it has no kind: DataContract"),
    (of("DataContract", contract="type.yaml"), "orders.id: logicalType must be one of string, num"),
    (
        of("DataContract", contract="contract.yaml", object="order"),
        "policies.p.object=order: contract.yaml has no such object; it has orders",
    ),
    # the others
    (of("Required"), "policies.p.fields is missing: Paths like `id,customer.email"),
    (of("Required", fields=" , "), "policies.p.fields must list names, like fields=id"),
    (of("Required", field="id"), "did you mean policies.p.fields?"),
    (of("MaxBytes"), "one of key.max.bytes, value.max.bytes, headers.max.bytes, record.max.bytes"),
    (of("MaxBytes", value__max__bytes="1k"), "value.max.bytes must be a whole number of at most 64 bits"),
    (of("MaxBytes", value__max__bytes="-1"), "policies.p.value.max.bytes must be a number of byte"),
    (of("HeaderRequired"), "policies.p.headers is missing: Names of headers"),
    (
        of("HeaderRequired", headers="n", headers__n__pattern="["),
        "policies.p.headers.n.pattern must be a regular expression",
    ),
    (
        of("HeaderRequired", headers="n", headers__m__pattern="a"),
        "policies.p.headers.m.pattern is unknown; there is headers.<name>.pattern for n",
    ),
    (of("SchemaPolicy"), "policies.p.confluent.key.schema.validation must be true: without it"),
    # dead letters
    ({f"{DEAD}topic.name": "a b"}, "can contain ${topic} with other characters, like ${topic}.dead"),
    ({f"{DEAD}topic.name": "${topc}.d"}, f"{DEAD}topic.name must be the name of a topic"),
    (
        {**rule(), "penstock.mode": "quarantine", f"topics.orders.{DEAD}topic.name": "orders"},
        "the dead letter topic of orders would be orders itself; name another one",
    ),
    ({f"{DEAD}topic.nam": "d"}, f"did you mean {DEAD}topic.name?"),
    ({f"{DEAD}topic.replication.factor": "three"}, "must be a whole number from 1 to 32767"),
    ({f"{DEAD}context.headers.enable": "yes"}, "must be one of true, false; it is 'yes'"),
    ({"penstock.quarantine.max.ratio": "10%"}, "must be a number from 0.0 to 1.0; it is '10%'"),
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("mistakes")
    for name, content in FILES.items():
        (made / name).write_text(content)
    return made


@pytest.mark.parametrize(("properties", "said"), MISTAKES, ids=[said for _, said in MISTAKES])
def test_it_is_an_error_at_start(folder, properties, said, capsys):
    file = folder / "penstock.properties"
    lines = {"upstream.bootstrap.servers": "127.0.0.1:1", **properties}
    file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))

    assert main(["check", str(file)]) == 2

    error = capsys.readouterr().err
    assert error.startswith(f"penstock check: {file}: ")
    assert said in error
    assert len(error.splitlines()) == 1
    assert "src/penstock" not in error
