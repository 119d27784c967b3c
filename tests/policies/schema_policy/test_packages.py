"""Missing packages are reported at the start, not with the first schema of their type."""

import sys

import pytest

from penstock.configuration import ConfigurationError
from penstock.policies import RedactTagged, SchemaPolicy
from penstock.policies.schema_policy.packages import OF_RULES, OF_SCHEMAS, check_packages
from penstock.policy.testing import judge

TOPIC = {"confluent.value.schema.validation": "true"}
REGISTRY = {"schema.registry.url": "http://registry.example"}


def test_installed_packages_are_not_imported():
    check_packages(("antigravity",), "schemas")
    assert "antigravity" not in sys.modules


@pytest.mark.parametrize("name", ["no_such_package", "no_such_package.inner"])
def test_missing_packages(name):
    with pytest.raises(
        ValueError, match=rf"no module {name}: pip install 'penstock-kafka\[rules\]'"
    ):
        check_packages(("json", name), "rules")


@pytest.mark.parametrize("name", OF_SCHEMAS)
def test_both_policies_need_all_of_them(monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    expected = rf"no module {name}: pip install 'penstock-kafka\[schemas\]'"
    with pytest.raises(ValueError, match=expected):
        SchemaPolicy().configure(REGISTRY)

    class Redact(RedactTagged):
        topics, tags, registry = ".", ("PII",), REGISTRY

    with pytest.raises(ValueError, match=expected):
        Redact().configure()


def test_rules_need_theirs(monkeypatch):
    monkeypatch.setitem(sys.modules, OF_RULES[0], None)

    def judged(**topic):
        return judge(SchemaPolicy, [None], topic="orders", configs=REGISTRY,
                     topic_configs={**TOPIC, **topic})  # fmt: skip

    (verdict,) = judged()
    assert verdict.outcome == "accepted"
    with pytest.raises(ConfigurationError, match=r"pip install 'penstock-kafka\[rules\]'"):
        judged(**{"schema.validation.level": "rules"})
