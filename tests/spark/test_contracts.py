"""`penstock audit` of a topic with a contract: the same figures by every way of reading."""

import json
from pathlib import Path
from xml.etree import ElementTree

import jsonschema_rs
import pytest
import yaml

SCHEMA = Path(__file__).parents[2] / "docs" / "report.schema.json"
CONTRACT = {
    "kind": "DataContract", "apiVersion": "v3.1.0", "id": "orders", "name": "orders", "version": "1",
    "status": "active",
    "schema": [{
        "name": "order",
        "properties": [
            {"name": "id", "unique": True},
            {"name": "note", "quality": [
                {"metric": "nullValues", "mustBeLessThan": 50, "unit": "percent"},
                {"metric": "invalidValues", "mustBeLessThan": 2, "arguments": {"pattern": "^x"}},
            ]},
        ],
        "quality": [
            {"metric": "rowCount", "mustBeGreaterThan": 10_000, "severity": "warning"},
            {"type": "sql", "name": "total", "query": "SELECT 1", "mustBe": 0},
        ],
    }],
    "slaProperties": [{"property": "freshness", "value": 50, "unit": "d"}],
}  # fmt: skip
KEYS = {
    "policies": "c",
    "policies.c.type": "penstock.policies.DataContract",
    "policies.c.contract": "orders.yaml",
    "topics.*.penstock.policies": "c",
}
EXPECTED = {
    "rowCount": (1000, False),
    "unique": (300, False),
    "nullValues": (25.0, True),
    "invalidValues": (1, True),
    "freshness": (None, True),
    "total": (None, None),
}


def file_with(tmp_path, upstream, contract=CONTRACT):
    (tmp_path / "orders.yaml").write_text(yaml.safe_dump(contract))
    lines = {"upstream.bootstrap.servers": upstream, **KEYS}
    file = tmp_path / "gateway.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    return file


def values():
    for number in range(1000):
        note = None if number % 4 == 0 else "y" if number == 1 else "x"
        yield json.dumps({"id": number % 700, "note": note}).encode()


def contracts(folder):
    report = json.loads((folder / "report.json").read_text())
    jsonschema_rs.validator_for(json.loads(SCHEMA.read_text())).validate(report)
    (found,) = report["contracts"]
    assert (found["policy"], found["contract"]) == ("c", "contract orders 1, order")
    rules = {rule["name"]: (rule["measured"], rule["held"]) for rule in found["rules"]}
    freshness = rules["freshness"][0]
    return found["topic"], rules | {"freshness": (None, rules["freshness"][1])}, freshness


@pytest.mark.parametrize("runner", ["local", "spark"])
def test_a_topic_is_measured(command, produce, topic, kafka, tmp_path):
    name = topic("orders", 3)
    produce(name, [{"value": value, "partition": n % 3} for n, value in enumerate(values())])
    produce(name, [{"value": None, "key": b"k"}])
    file = file_with(tmp_path, kafka.bootstrap_servers)
    done = command("audit", file, "--topic", name, "--report", tmp_path / "r")
    assert done.code == 1, done
    assert f"{name}: contract orders 1, order: 3 of 5 rules hold" in done.out
    assert "  broken  order.id: unique: 300; must be 0" in done.out
    assert "  broken (warning)  order: rowCount: 1,000; must be greater than 10000" in done.out
    found, rules, days = contracts(tmp_path / "r")
    assert (found, rules) == (name, EXPECTED)
    assert 0 <= days < 1
    page = (tmp_path / "r" / "report.html").read_text()
    assert f"Contract of {name}" in page.replace("<wbr>", "")
    assert "a rule of type sql is not judged" in page
    suite = ElementTree.parse(tmp_path / "r" / "junit.xml").getroot()
    failed = [case.get("name") for case in suite if case.find("failure") is not None]
    assert failed == ["contract orders 1, order: order.id: unique"]


@pytest.mark.cases(1)
@pytest.mark.parametrize("runner", ["local", "spark"])
def test_files_are_measured(command, tmp_path):
    lines = [
        {"topic": "orders", "partition": 0, "offset": number, "value": value.decode(),
         "timestamp": "2023-11-14T00:00:00Z"}
        for number, value in enumerate(values())
    ]  # fmt: skip
    path = tmp_path / "records.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    file = file_with(tmp_path, "127.0.0.1:1")
    done = command("audit", file, "--input", path, "--report", tmp_path / "r")
    assert done.code == 1, done
    found, rules, days = contracts(tmp_path / "r")
    assert (found, rules) == ("orders", EXPECTED | {"freshness": (None, False)})
    assert days > 50


@pytest.mark.parametrize("runner", ["local"])
def test_a_topic_that_keeps_its_contract_ends_well(command, produce, topic, kafka, tmp_path):
    name = topic("orders", 1)
    produce(name, [{"value": b'{"id": 1}'}])
    contract = CONTRACT | {
        "schema": [{"name": "order", "properties": [{"name": "id", "unique": True}]}]
    }
    file = file_with(tmp_path, kafka.bootstrap_servers, contract)
    done = command("audit", file, "--topic", name)
    assert done.code == 0, done
    assert f"{name}: contract orders 1, order: 2 of 2 rules hold" in done.out


@pytest.mark.parametrize("runner", ["local"])
def test_a_topic_without_records_is_measured(command, topic, kafka, tmp_path):
    name = topic("orders", 1)
    file = file_with(tmp_path, kafka.bootstrap_servers)
    done = command("audit", file, "--topic", name)
    assert done.code == 1, done
    assert "  broken  order: freshness: nothing; must be at most 50 d" in done.out


def test_the_functions_measure_too(spark, rows, produce, topic, kafka, tmp_path):
    from penstock.spark import audit, load_plan

    name = topic("orders", 2)
    produce(name, [{"value": value} for value in values()])
    plan = load_plan(file_with(tmp_path, kafka.bootstrap_servers))
    frame = rows(*({"value": value, "topic": name} for value in values()))
    for given in (name, frame):
        (found,) = audit(given, plan, spark=spark).contracts
        measured = {rule.name: (rule.measured, rule.held) for rule in found.rules}
        measured.pop("freshness")
        assert measured == {key: of for key, of in EXPECTED.items() if key != "freshness"}
