"""Plans of configuration files, from properties of tests."""

from pathlib import Path

from penstock.configuration.file import read_configuration
from penstock.engine.plans.plan import Plan

VALIDATED = {"record.validator.classes": "a.V"}
QUARANTINE = {**VALIDATED, "penstock.mode": "quarantine"}


def plan_of(properties):
    file = {"upstream.bootstrap.servers": "a:9092", **properties}
    return Plan(read_configuration(Path("/f.properties"), file).policies)
