"""The chart's values and their schema. What the templates make of them: test_rendered_chart.py."""

import copy
import json
import re
from typing import Any

import jsonschema
import pytest
import yaml

import penstock
from tests.deploy.chart import CHART

VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
TEMPLATES = "".join(path.read_text() for path in (CHART / "templates").iterdir())


def test_the_chart_is_of_this_version_of_penstock():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["apiVersion"] == "v2"
    assert chart["appVersion"] == penstock.__version__


def test_the_notes_name_the_console_and_its_token():
    notes = (CHART / "templates" / "NOTES.txt").read_text()
    assert "port-forward" in notes
    assert "penstock.tokenSecret" in notes


def test_the_values_fit_their_schema():
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    jsonschema.validate(VALUES, SCHEMA, jsonschema.Draft7Validator)
    assert set(SCHEMA["properties"]) - {"global"} == set(VALUES)


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        ("replicas", "2"),
        ("config", {}),
        ("config", {"upstream.bootstrap.servers": "kafka:9092", "policy.workers": 2}),
        ("listener.protocol", "TLS"),
        ("brokers.ports", 0),
        ("brokers.addresses", "names"),
        ("listener.proxyProtocol", "true"),
        ("advertisedPort", 65536),
        ("service.type", "NodePort"),
        ("metrics.port", 65536),
        ("secrets", ["Not A Name"]),
        ("files", {"../up.py": ""}),
        ("replica", 3),
        ("podDisruptionBudget.maxUnavailable", "abc"),
        ("podDisruptionBudget.maxUnavailable", "101%"),
        ("image.digest", "sha256:abc"),
        ("listener.address", "::"),
        ("service.ipFamilies", ["ipv6"]),
        ("audit.since", "yesterday"),
        ("extraVolumes", [{"emptyDir": {}}]),
    ],
)
def test_wrong_values_are_found(path, wrong):
    values = copy.deepcopy(VALUES)
    *parents, name = path.split(".")
    at = values
    for parent in parents:
        at = at[parent]
    at[name] = wrong
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(values, SCHEMA, jsonschema.Draft7Validator)


def test_the_templates_use_exactly_the_values():
    used = set(re.findall(r"\.Values\.(\w+)", TEMPLATES))
    assert used == set(VALUES)
    for whole in set(re.findall(r"\.Values\.((?:\w+\.)+\w+)", TEMPLATES)):
        at: Any = VALUES
        for name in whole.split("."):
            assert name in at, whole
            at = at[name]
