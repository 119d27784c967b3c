"""Metrics that are named in deploy/, against metrics that a running gateway serves."""

import json
import re
from pathlib import Path

import pytest
import yaml

from penstock.kafka.local import free_ports
from tests.kafka.records.encoding import encode_batch, values
from tests.metrics import scrape
from tests.raw import RawClient, produce_request

DEPLOY = Path(__file__).parents[2] / "deploy"
DASHBOARD = DEPLOY / "grafana" / "penstock.json"
RULES = DEPLOY / "prometheus" / "penstock.rules.yml"
POLICIES = """
from penstock.policy import *
class Check(BrokerRecordValidator):
    def validate_record(self, *_): pass
class Small(CreateTopicPolicy):
    def validate(self, request): pass
"""
_METRIC = r"\b(?:penstock|process)_\w+"


@pytest.fixture
def served(gateway, topic):
    """A scrape of a gateway that has handled requests."""
    port = free_ports(1)[0]
    properties = {
        "metrics.listener": f":{port}",
        "record.validator.classes": "policies.Check",
        "create.topic.policy.class.name": "policies.Small",
    }
    running = gateway(properties, POLICIES)
    with RawClient(running.broker_address()) as client:
        client.call(produce_request([(topic(), [(0, encode_batch(values(b"a")))])]))
    return scrape(port)


def expressions():
    board = json.loads(DASHBOARD.read_text())
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            yield f"dashboard: {panel['title']}", target["expr"]
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            yield f"variable: {variable['name']}", variable["definition"]
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        for rule in group["rules"]:
            yield f"alert: {rule['alert']}", rule["expr"]


def labels_of(served, name):
    """Return the labels of a metric; None if it has no series yet."""
    found = [sample.labels.keys() for family in served.families.values()
             for sample in family.samples if sample.name == name]  # fmt: skip
    return set().union(*found) if found else None


def test_every_named_metric_and_label_is_served(served):
    declared = re.findall(r"^# TYPE (\w+) (\w+)$", served.text, re.MULTILINE)
    names = {name for name, kind in declared if kind != "histogram"}
    names |= {f"{name}_{end}" for name, kind in declared if kind == "histogram"
              for end in ("bucket", "sum", "count")}  # fmt: skip
    targets = {"job", "namespace", "service", "instance"}  # Prometheus adds these
    seen = 0
    for where, expression in expressions():
        for name, selector in re.findall(rf"({_METRIC})(?:{{([^}}]*)}})?", expression):
            seen += 1
            assert name in names, where
            known = labels_of(served, name)
            used = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", selector))
            assert known is None or used <= known | targets, where
        grouped = {label.strip() for part in re.findall(r"\bby \(([^)]*)\)", expression)
                   for label in part.split(",")}  # fmt: skip
        every = [labels_of(served, name) for name in re.findall(_METRIC, expression)]
        if None not in every:
            assert grouped <= set().union(*every) | targets, where
    assert seen > 50


def test_every_metric_is_on_the_dashboard_or_in_an_alert(served):
    used = {name for _, expression in expressions() for name in re.findall(_METRIC, expression)}
    for name, kind in re.findall(r"^# TYPE (\w+) (\w+)$", served.text, re.MULTILINE):
        assert name in used or (kind == "histogram" and f"{name}_bucket" in used), name


def test_panels_do_not_overlap_and_have_unique_ids():
    panels = json.loads(DASHBOARD.read_text())["panels"]
    taken = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"])
                 for y in range(at["y"], at["y"] + at["h"])}  # fmt: skip
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_each_alert_has_a_description():
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        for rule in group["rules"]:
            assert rule["annotations"].keys() == {"summary", "description"}, rule["alert"]
            assert rule["labels"]["severity"] in {"warning", "critical"}
