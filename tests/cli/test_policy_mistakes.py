"""Wrong names, rules, contracts and modes: errors at start with their place and a correction."""

import pytest

from penstock.cli import main
from tests.gateways import without_waiting

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
pytestmark = pytest.mark.system  # a class of the user is imported in a separate process
FILES = {
    "order.json": '{"type": "object"}',
    "type.json": '{"type": 3}',
    "cut.json": "{",
    "contract.yaml": CONTRACT,
    "type.yaml": CONTRACT.replace("logicalType: string", "logicalType: strng"),
    "required.yaml": CONTRACT.replace("required:", "requird:"),
    "properties.yaml": CONTRACT.replace("properties:", "propertys:"),
    "array.yaml": CONTRACT.replace("logicalType: object", "logicalType: array"),
    "old.yaml": CONTRACT.replace("v3.0.2", "v2.2.2"),
    "no_object.yaml": CONTRACT.replace("schema:", "schemas:"),
    "yes.yaml": CONTRACT.replace("required: true", "required: yess"),
    "twice.yaml": CONTRACT + "      - name: id\n        logicalType: integer\n",
    "pattern.yaml": CONTRACT + "        logicalTypeOptions: {pattern: '['}\n",
    "lengths.yaml": CONTRACT + "        logicalTypeOptions: {minLength: 9, maxLength: 3}\n",
    "metric.yaml": CONTRACT + "        quality: [{metric: nullValue, mustBe: 0}]\n",
    "must.yaml": CONTRACT + "        quality: [{metric: nullValues, mustBee: 0}]\n",
    "two.yaml": CONTRACT + "  - name: other\n    logicalType: object\n    properties: []\n",
    "list.json": "[1]",
    "ref.json": '{"$ref": "nowhere.json"}',
    "draft.json": '{"$schema": "http://json-schema.org/draft-09/schema#"}',
    "order.proto": 'syntax="proto3"; message O {int32 x=1;}',
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
    (of("Rule"), "policies.p.type: penstock.policies.Rule is not a class: module penstock.policies"),
    (of("none.X"), "there is no module none; Penstock searched "),
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
    (rule("size(headers)"), "policies.p.rules.a: its condition does not return true or false"),
    (rule("value.x.matches('[')"), "a pattern that is not a regular expression of RE2"),
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
    (of("JsonSchema", schema="ordr.json"), "policies.p.schema=ordr.json: ordr.json: the folder of schemas does not have "),
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
    (of("SchemaPolicy"), "policies.p.confluent.key.schema.validation must be true: otherwise"),
    # dead letters
    ({f"{DEAD}topic.name": "a b"}, "can contain ${topic} with other characters, like ${topic}.dead"),
    ({f"{DEAD}topic.name": "${topc}.d"}, f"{DEAD}topic.name must be the name of a topic"),
    (
        {**rule(), "penstock.mode": "quarantine", f"topics.orders.{DEAD}topic.name": "orders"},
        "the dead letter topic of orders would be orders itself; name another topic",
    ),
    ({f"{DEAD}topic.nam": "d"}, f"did you mean {DEAD}topic.name?"),
    ({f"{DEAD}topic.replication.factor": "three"}, "must be a whole number from 1 to 32767"),
    ({f"{DEAD}context.headers.enable": "yes"}, "must be one of true, false; it is 'yes'"),
    ({"penstock.quarantine.max.ratio": "10%"}, "must be a number from 0.0 to 1.0; it is '10%'"),
    ({f"{DEAD}topic.name": "audits", "audit.topic": "audits"}, "audits is the topic of audit.topic"),
    (
        {f"topics.a.{DEAD}topic.name": "kept", "topic.settings.topic": "kept"},
        f"topics.a.{DEAD}topic.name: kept is the topic of topic.settings.topic; name another topic",
    ),
    ({f"{DEAD}topic.name": "s", "produce.request.interceptors.state.topic": "s"}, "state.topic; na"),
    ({f"{DEAD}topic.name": "."}, "can contain ${topic} with other characters, like ${topic}.dead; "),
    ({f"{DEAD}topic.name": "dead/${{topic}}"}, "it is 'dead/${{topic}}'"),
    ({f"{DEAD}topic.name": "__consumer_offsets"}, "not beginning with __, which can contain"),
    ({f"{DEAD}topic.name": "x" * 250}, "topic.name must be the name of a topic: up to 249 of a-z"),
    ({f"{DEAD}topic.replication.factor": "-1"}, "1 to 32767; it is '-1'"),
    ({f"{DEAD}topic.replication.factor": "1.5"}, "1 to 32767; it is '1.5'"),
    ({f"{DEAD}topic.replication": "1"}, f"did you mean {DEAD}topic.replication.factor?"),
    ({f"{DEAD}context.header.enable": "true"}, f"did you mean {DEAD}context.headers.enable?"),
    (rule(**{f"{DEAD}topic.name": "d"}), f"belongs to a topic: write topics.<glob>.{DEAD}topic.name"),
    ({"penstock.quarantine.max.ratio": "nan"}, "it is 'nan'"),
    ({"penstock.quarantine.max.ratio": "0,5"}, "it is '0,5'"),
    ({"penstock.quarantine.ratio": "1"}, "did you mean penstock.quarantine.max.ratio?"),
    ({"penstock.quarantine": "true"}, "penstock.quarantine is unknown; did you mean"),
    # more names and modes
    (
        rule(**{"penstock.mode": "mark"}),
        "topics.<glob>.penstock.mode, or policies.p.mode for the records that this policy refuses",
    ),
    (rule(mode="mark,quarantine"), "quarantine, mark, observe; it is 'mark,quarantine'"),
    (rule(modes="mark"), "policies.p.modes is unknown; did you mean policies.p.mode?"),
    ({**rule(), "policies.p.Mode": "mark"}, "policies.p.Mode is unknown; did you mean"),
    ({**rule(), "policies.p.TYPE": "x"}, "policies.p.TYPE is unknown; did you mean policies.p.type?"),
    ({"penstock.mode": ""}, "penstock.mode must be one of enforce, quarantine, mark, observe; it is ''"),
    ({"penstock.modes": "mark"}, "penstock.modes is unknown; did you mean penstock.mode?"),
    (
        {"topic.orders.penstock.mode": "mark"},
        "topic.orders.penstock.mode is unknown; write topics.<glob>.penstock.mode",
    ),
    ({"orders.penstock.policies": ""}, "write topics.<glob>.penstock.policies"),
    ({"topics.orders.mode": "mark"}, "topics.orders.mode must be topics.<glob>.<key> with one of"),
    ({"topics.penstock.mode": "mark"}, "topics.penstock.mode must be topics.<glob>.<key> with one of"),
    ({**rule(), "topics.orders.penstock.policies": "P"}, "there is no policy P; there are p"),
    ({**rule(), "topics.orders.penstock.policies": "p;p"}, "it is 'p;p'"),
    ({"policies": "my policy"}, "it is 'my policy'"),
    ({**rule(), "policies.p": "x"}, "policies.p must be policies.<name>.<key>"),
    ({"polices": "p"}, "polices is unknown; did you mean policies?"),
    # more types
    ({**of("Rules"), "policies.p.type": "rules"}, "(did you mean Rules?); it is 'rules'"),
    (of("TopicRules"), "penstock.policies.TopicRules judges topics, but no records"),
    (of("json.loads"), "must be a class; in module json its type is function"),
    (of("mine.Topics"), "derive from the intended class"),
    (
        {"record.validator.classes": "penstock.policies.Rules"},
        "is a policy of another kind, which belongs in record.validation.policy.class.name",
    ),
    (
        {"record.validation.policy.class.name": "penstock.policies.DropRecords"},
        "is a policy of another kind, which belongs in produce.request.interceptors",
    ),
    (
        {"produce.request.interceptors": "penstock.policies.MaxBytes"},
        "penstock.policies.MaxBytes is a policy of another kind, which belongs in record.validati",
    ),
    # more rules
    (rule("value.x = 1"), "policies.p.rules.a: its condition is not valid: <input>:1:9: Syntax error"),
    (rule("value.x > 0 and value.y > 0"), "mismatched input 'and' expecting <EOF>"),
    (rule("0 < value.x < 5"), "found no matching overload for '_<_' applied to '(bool, int)'"),
    (rule("header.a == 'b'"), "undeclared reference to 'header.a'"),
    (rule("len(value.x) > 0"), "undeclared reference to 'len'"),
    (rule("timestamp > '2020-01-01'"), "'_>_' applied to '(google.protobuf.Timestamp, string)'"),
    (rule("count > 3"), "undeclared reference to 'count'"),
    (rule("value.x in (1, 2)"), "Syntax error: mismatched input ',' expecting ')'"),
    (rule("null"), "its condition does not return true or false"),
    (rule("1 > 2"), "policies.p.rules.a: its condition is never true for any record"),
    (rule("1 / 0 == 1 || false"), "rules.a: its condition has 1 / 0, which never has a result"),
    (rule("duration('5x') > duration('1s')"), 'has duration("5x"), which never has a result'),
    (rule("client.user == 'a'"), "rules.a: client has no user; it has address, id, principal"),
    (
        rule("key.id == 'a'"),
        "rules.a: its condition reads a field of key, which has none with key.format=string",
    ),
    (rule("value.x > 0", format="bytes"), "reads a field of value, which has none with format=bytes"),
    (rule(null__values="yes"), "policies.p.null.values must be one of accept, refuse; it is 'yes'"),
    (rule(**{"rules.a.scopes": "batch"}), "did you mean policies.p.rules.a.scope?"),
    (rule(**{"key.formats": "json"}), "did you mean policies.p.key.format?"),
    (of("Rules", **{"rules.": "true"}), "a rule's name has letters, digits, _ and -"),
    # more of the others
    (of("JsonSchema", schema="order.json", null__values="no"), "null.values must be one of accept"),
    (of("JsonSchema", schema="order.json", null__key="accept"), "did you mean policies.p.null.keys?"),
    (of("JsonSchema", schema="keys=order.json"), "or key=FILE,value=FILE, not keys=order.json"),
    (of("Required", fields="$..id"), "'$..id' is not a path: Penstock's JSONPath has no ..; write customer.email, cards[*].number or "),
    (of("Required", fields="$.lines.s*"), "'$.lines.s*' is not a path: Penstock's JSONPath has * only"),
    (of("RedactJsonFields", fields="cards[?@.number]"), "Penstock's JSONPath has no filters"),
    (of("Required", fields="['$id"), "is not a path"),
    (of("Required", fields=r"['a\\x']"), "has an escape that JSON lacks"),
    (of("Required", fields="/id"), "policies.p.fields: '/id' is not a path"),
    (of("Required", fields="lines[0].sku"), "'lines[0].sku' is not a path"),
    (of("Required", fields="id", null__fields="allow"), "null.fields must be one of refuse, accept"),
    (of("MaxBytes", value__max__byte="1"), "did you mean policies.p.value.max.bytes?"),
    (of("HeaderRequired", headers="n", headers__n__patern="a"), "policies.p.headers.n.pattern?"),
    (of("KeyRequired", empty__key="accept"), "did you mean policies.p.empty.keys?"),
    (of("RedactJsonFields", field="a"), "did you mean policies.p.fields?"),
    (
        of("SchemaPolicy", confluent__value__schema__validation="true", schema__file="none.avsc"),
        "none.avsc",
    ),
    (
        of("SchemaPolicy", confluent__value__schema__validation="true",
           schema__validation__level="ids"),
        "policies.p.schema.validation.level must be one of id, payload, rules; it is 'ids'",
    ),
    # what people write who come from another tool, or in a hurry
    (rule(mode="dlq"), "policies.p.mode must be one of enforce, quarantine, mark, observe; it is 'dlq'"),
    (rule(mode="off"), "quarantine, mark, observe; it is 'off'"),
    (rule(mode="true"), "quarantine, mark, observe; it is 'true'"),
    (rule(**{"rules.a.code": "87"}), "policies.p.rules.a.code is unknown"),
    (rule(**{"rules.a.mode": "mark"}), "policies.p.rules.a.mode is unknown"),
    (rule(**{"penstock.quarantine.max.ratio": "0.1"}), "belongs to a topic: write topics.<glob>.pens"),
    ({**rule(), "topics.orders.penstock.quarantine.max.ratio": "2"}, "it is '2'"),
    ({"penstock.quarantine.max.ratio": "-0.1"}, "it is '-0.1'"),
    ({"topics.orders.produce.rejection.reasons": "record"}, "one of records, batch; it is 'record'"),
    ({"produce.rejection.reason": "batch"}, "did you mean produce.rejection.reasons?"),
    ({"penstock.quarantine.max.ratio": ""}, "it is ''"),
    ({f"{DEAD}topic.name": "$topic.dead"}, "it is '$topic.dead'"),
    ({f"{DEAD}topic.name": "%{topic}.dead"}, "it is '%{topic}.dead'"),
    ({f"{DEAD}topic.name": "${TOPIC}.dead"}, "it is '${TOPIC}.dead'"),
    ({f"topics.orders.{DEAD}topic.name": "${topic}"}, "it is '${topic}'"),
    ({f"{DEAD}topic": "x"}, f"did you mean {DEAD}topic.name?"),
    ({f"{DEAD}topic.partitions": "3"}, f"{DEAD}topic.partitions is unknown"),
    ({f"{DEAD}topic.replication.factor": "0"}, "from 1 to 32767; it is '0'"),
    ({**rule(), "policies": "p,,q"}, "policies.q.type is missing"),
    ({**rule(), "policies": ""}, "there is no policy p: the gateway's file names none"),
    ({**rule(), "topics.orders.penstock.policies": "p p"}, "it is 'p p'"),
    ({**rule(), "topics.orders.policies": "p"}, "did you mean penstock.policies?"),
    ({**rule(), "topics..penstock.policies": "p"}, "must be topics.<glob>.<key> with one of"),
    ({**rule(), "topics.orders.mode": "mark"}, "did you mean penstock.mode?"),
    ({"policies": "p", "policies.p.class": "Rules"}, "policies.p.type is missing"),
    ({"policies": "p", "policies.p.type": "JsonShema"}, "(did you mean JsonSchema?)"),
    ({"policies": "p", "policies.p.type": "Rules,MaxBytes"}, "it is 'Rules,MaxBytes'"),
    (of("penstock.policies.Rules()"), "must be package.module.Class or package.module:Class"),
    (of("com.acme.Policy"), "there is no module com; Penstock searched"),
    (rule("value.x == 'it's'"), "extraneous input 's' expecting <EOF>"),
    (rule("value.x > 0; value.y > 0"), "token recognition error at: ';'"),
    (rule("value.x => 0"), "token recognition error at: '=>'"),
    (rule("value.x <> 0"), "extraneous input '>'"),
    (rule("not value.x"), "mismatched input 'value' expecting <EOF>"),
    (rule("partition == 'a'"), "'_==_' applied to '(int, string)'"),
    (rule("client == 'a'"), "found no matching overload for '_==_'"),
    (rule("client.principal == 3"), "'_==_' applied to '(string, int)'"),
    (rule("headers == 'a'"), "'_==_' applied to '(map(dyn, dyn), string)'"),
    (rule("topic.startswith('a')"), "undeclared reference to 'startswith'"),
    (rule("now > 3"), "'_>_' applied to '(google.protobuf.Timestamp, int)'"),
    (rule("timestamp > now - '24h'"), "'_-_' applied to '(google.protobuf.Timestamp, string)'"),
    (rule("value.l.all(x, x > 0"), "missing ')' at '<EOF>'"),
    (rule("value.l.all(x > 0)"), "undeclared reference to 'x'"),
    (rule("value.x.matches('(?=a)')"), "not a regular expression of RE2; it has no look-around"),
    (rule("offset > 3"), "undeclared reference to 'offset'"),
    (rule("value.x in 'abc'"), "'@in' applied to '(dyn, string)'"),
    (rule("count <= '5'", **{"rules.a.scope": "batch"}), "'_<=_' applied to '(int, string)'"),
    (rule(format="JSON"), "policies.p.format must be one of json, avro, protobuf, string, bytes"),
    (rule(format="avro", schema__file="no.avsc"), "no.avsc cannot be read: No such file"),
    (rule(format="protobuf", schema__file="order.proto#N"), "order.proto: has no message N"),
    (of("DataContract", contract="required.yaml"), "orders.id: requird is unknown; did you mean req"),
    (of("DataContract", contract="properties.yaml"), "orders: propertys is unknown; did you mean pr"),
    (of("DataContract", contract="array.yaml"), "an object of schema must be object, not array"),
    (of("DataContract", contract="old.yaml"), "apiVersion must be one of ODCS 3.0, 3.1 and 3.2, such as"),
    (of("DataContract", contract="no_object.yaml"), "no_object.yaml: schema has no object"),
    (of("DataContract", contract="yes.yaml"), "required must be true or false, not 'yess'"),
    (of("DataContract", contract="twice.yaml"), "there are two properties with the name id"),
    (of("DataContract", contract="pattern.yaml"), '"[" is not a regular expression of ECMA 262'),
    (of("DataContract", contract="lengths.yaml"), "minLength is greater than maxLength"),
    (of("DataContract", contract="metric.yaml"), "nullValue is unknown; did you mean nullValues?"),
    (of("DataContract", contract="must.yaml"), "rule nullValues has none of mustBe, mustNotBe"),
    (of("DataContract", contract="."), "policies.p.contract=.: . cannot be read: Is a directory"),
    (
        {**of("DataContract", contract="two.yaml"), "topics.sales.penstock.policies": "p"},
        "has no object for topic sales; it has orders, other: set object",
    ),
    (of("JsonSchema", schema="list.json"), "is not a schema, which is an object, true or false"),
    (of("JsonSchema", schema="ref.json"), "$ref to nowhere.json: nowhere.json: the folder of schemas does not have this file"),
    (of("JsonSchema", schema="draft.json"), "draft.json: $schema must be one of"),
    (of("JsonSchema", schema="https://x.org/s.json"), "the folder of schemas does not have this file"),
    (of("MaxBytes", value__max__bytes="10 KB"), "it is '10 KB'"),
    (of("DropRecords"), "DropRecords needs a condition: headers or fields"),
    (of("DropRecords", fields="a"), "policies.p.fields must be path=value, each path once; there is a"),
    (
        of("RedactJsonFields", fields="a", topics="*"),
        "policies.p.topics must be a regular expression, not '*': nothing to repeat at position 0",
    ),
    (of("HashJsonFields", fields="a"), "HashJsonFields.key_from must be env:NAME or file:PATH"),
    (of("RedactTagged"), "RedactTagged.tags must be set"),
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("mistakes")
    for name, content in FILES.items():
        (made / name).write_text(content)
    return made


@pytest.mark.cases(40)
@pytest.mark.parametrize(
    ("properties", "message"), MISTAKES, ids=[message for _, message in MISTAKES]
)
def test_a_mistake_is_an_error_at_start(folder, properties, message, capsys):
    file = folder / "penstock.properties"
    lines = {"upstream.bootstrap.servers": "127.0.0.1:1", **properties}
    file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))

    assert main(["check", str(file)]) == 2

    [error] = without_waiting(capsys.readouterr().err).splitlines()
    assert error.startswith(f"penstock check: {file}: ")
    assert message in error
    assert "src/penstock" not in error


SLOW = """
import time
from pathlib import Path
def wait_for(text):
    while text not in Path({output!r}).read_text():
        time.sleep(0.01)
wait_for("loading the policies")
class P:
    def validate_record(self, topic_partition, key, value, headers):
        wait_for("--value: judging takes long; a gateway gives up after policy.timeout.ms (7000)")
"""


@pytest.mark.parametrize("command", [["check"], ["explain", "--topic", "t", "--value", "v"]])
def test_a_slow_policy_is_reported_while_it_is_loaded(command, tmp_path, monkeypatch):
    """The policy waits for the message: without a message the command does not end."""
    output = tmp_path / "said"
    (tmp_path / "slow.py").write_text(SLOW.format(output=str(output)))
    file = tmp_path / "penstock.properties"
    file.write_text(
        "upstream.bootstrap.servers=none:1\nrecord.validator.classes=slow.P\n"
        "policy.timeout.ms=7000\n"
    )
    monkeypatch.setattr("penstock.progress.WAITING_S", 0.0)
    with output.open("w", buffering=1) as errors:
        monkeypatch.setattr("sys.stderr", errors)
        assert main([command[0], str(file), *command[1:]]) == 0
