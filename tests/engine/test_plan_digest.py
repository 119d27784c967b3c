"""The digest of a topic's plan: what changes it, and what does not."""

import os
import pickle
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.configuration import load_configuration
from penstock.configuration.declared_keys import as_configs
from penstock.configuration.file import FILE_KEYS
from penstock.configuration.policies import PolicyConfiguration
from penstock.configuration.policy_classes import PolicyClass
from penstock.configuration.topic_keys import ABOUT_BAD_RECORDS
from penstock.engine.plans import plan_digest
from penstock.engine.plans.declared import classes_here
from penstock.engine.plans.plan import Plan
from penstock.engine.plans.plan_digest import OF_FILE, PlanDigests
from penstock.jobs.plan import load_plan

CHECK = """
from penstock.policy import ConfigKey, RecordValidationPolicy
import {helper}

class Check(RecordValidationPolicy):
    config_keys = (ConfigKey("limit"), ConfigKey("pepper2", "PASSWORD"), ConfigKey("list"))

    def configure(self, configs):
        pass

    def validate(self, topic, record):
        pass
"""
KEYS = {
    "upstream.bootstrap.servers": "broker:9092",
    "upstream.sasl.password": "one",
    "listeners": "PLAINTEXT://127.0.0.1:9192",
    "metrics.listener": "127.0.0.1:9300",
    "record.validation.policy.class.name": "penstock.policies.JsonSchema",
    "json.schema.formats": "true",
    "produce.rejection.scope": "partition",
    "decompressed.batch.max.records": "1000",
    "policies": "mine,amounts",
    "policies.mine.limit": "5",
    "policies.mine.pepper2": "one",
    "policies.mine.api.token": "one",
    "policies.mine.list": "names.csv",
    "policies.mine.mode": "mark",
    "policies.amounts.type": "penstock.policies.Rules",
    "policies.amounts.rules.positive": "value.amount > 0",
    "topics.orders*.record.validation.policy": "order.schema.json",
    "topics.orders*.penstock.policies": "mine,amounts",
    "topics.orders*.penstock.mode": "quarantine",
    "topics.orders*.penstock.quarantine.max.ratio": "0.5",
    "errors.deadletterqueue.topic.name": "dead",
    "mine.own.key": "one",
}
FILES = {
    "order.schema.json": '{"properties": {"customer": {"$ref": "customer.json"}}}',
    "customer.json": '{"type": "object"}',
    "names.csv": "a,b",
    "{module}.py": CHECK,
    "{helper}.py": "import json\nLIMIT = 1\n",
    "unused.py": "",
}


class Place:
    """A folder with a configuration file; its modules have names that no other test has."""

    def __init__(self, folder: Path, **changed: str | None) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.names = {"module": "digested_checks", "helper": "digested_helper"}
        self.keys = {**KEYS, "policies.mine.type": "digested_checks.Check"}
        for name, text in FILES.items():
            self.write(name.format(**self.names), text.replace("{helper}", self.names["helper"]))

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    @property
    def file(self) -> Path:
        file = self.folder / "penstock.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in self.keys.items()))
        return file

    @property
    def policies(self) -> PolicyConfiguration:
        for name in self.names.values():
            sys.modules.pop(name, None)
        try:
            loaded = load_configuration(
                self.file, describe_classes=classes_here, read_declared=lambda *_: as_configs(())
            )
        finally:
            sys.path[:] = [path for path in sys.path if path != str(self.folder)]
        return loaded.policies

    def digest(self, topic: str = "orders", own: dict[str, str] | None = None) -> str:
        policies = self.policies
        plan = Plan(policies)
        plan.set_digests(PlanDigests(policies))
        return plan.for_topic(topic, own or {}).digest

    def without(self, key: str, **values: str) -> str:
        kept = self.keys
        self.keys = {name: value for name, value in kept.items() if name != key}
        self.keys.update(values)
        try:
            return self.digest()
        finally:
            self.keys = kept

    def with_key(self, key: str, value: str) -> str:
        return self.without(key, **{key: value})


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path / "one")


def test_it_is_a_short_text_that_a_plan_carries(place):
    assert re.fullmatch("[0-9a-f]{12}", place.digest())
    assert Plan(place.policies).for_topic("orders").digest == ""


def test_it_is_that_of_the_pattern_and_of_each_topic(place):
    policies = place.policies
    plan = Plan(policies)
    plan.set_digests(PlanDigests(policies))
    digests = {plan.for_topic(name).digest for name in ("orders", "orders-eu")}
    assert digests == {plan.for_pattern("orders*").digest}


def test_a_part_of_a_plan_has_the_digest_of_the_whole(place):
    policies = place.policies
    plan = Plan(policies)
    plan.set_digests(PlanDigests(policies))
    topic_plan = plan.for_topic("orders")
    assert topic_plan.waited_for.digest == topic_plan.with_mode("mark").digest == topic_plan.digest
    assert topic_plan.decode(topic_plan.encoded).digest == topic_plan.digest
    assert topic_plan.losses.digest == ""  # another plan may lose the same records


CHANGES = {
    "record.validation.policy.class.name": "penstock.policies.SchemaPolicy",
    "json.schema.formats": "false",
    "produce.rejection.scope": "request",
    "decompressed.batch.max.records": "1001",
    "policies.mine.limit": "6",
    "policies.mine.mode": "enforce",
    "policies.amounts.type": "penstock.policies.Required",
    "policies.amounts.rules.positive": "value.amount >= 0",
    "topics.orders*.penstock.policies": "amounts,mine",
    "topics.orders*.penstock.mode": "observe",
    "topics.orders*.penstock.quarantine.max.ratio": "0.6",
    "topics.orders*.produce.rejection.reasons": "batch",
    "errors.deadletterqueue.topic.name": "letters",
    "mine.own.key": "two",
    "decompressed.batch.max.bytes": "10000",
    "record.validator.classes": "digested_checks.Other",
}


@pytest.mark.parametrize("key", CHANGES)
def test_each_key_that_decides_changes_it(place, key):
    if key == "policies.amounts.type":
        place.keys["policies.amounts.fields"] = "amount"
        del place.keys["policies.amounts.rules.positive"]
        before = Place(place.folder).digest()
    else:
        before = place.digest()
    if key == "record.validation.policy.class.name":
        place.keys.pop("json.schema.formats")
        before = place.digest()
    assert place.with_key(key, CHANGES[key]) != before


NOTHING = {
    "upstream.bootstrap.servers": "other:9092",
    "upstream.sasl.password": "two",
    "listeners": "PLAINTEXT://127.0.0.1:9999",
    "metrics.listener": "127.0.0.1:9999",
    "metrics.listener.token": "secret",
    "policy.workers": "7",
    "policy.timeout.ms": "77",
    "policy.worker.memory.max.bytes": "0",
    "queued.max.request.bytes": "1000000",
    "max.connections": "77",
    "audit.topic": "trail",
    "ssl.keystore.location": "/k.pem",
    "policies.mine.pepper2": "two",
    "policies.mine.api.token": "two",
    "some.password": "two",
    "schema.registry.basic.auth.user.info": "a:b",
    "schema.registry.timeout.ms": "77",
    "topics.returns.penstock.mode": "observe",
    "topics.returns.penstock.policies": "mine",
    "produce.rejection.scope": " Partition",
    "decompressed.batch.max.bytes": "67108864",
    "topics.orders*.produce.rejection.reasons": "records",
    "topics.order.penstock.policies": "amounts",
    "record.validation.policy.class.path": "",
}


@pytest.mark.parametrize("key", NOTHING)
def test_other_keys_do_not_change_it(place, key):
    assert place.with_key(key, NOTHING[key]) == place.digest()


def test_every_key_of_the_file_counts_or_does_not_on_purpose():
    """A new key of the file has to be put into one of these groups."""
    resolved = {
        "record.validator.classes",
        "record.validation.policy.class.name",
        "record.validation.policy.class.path",
        "policies",
        "produce.request.interceptors",
        "records.policy.class.names.allowed",
        "topic.settings.keys.allowed",
        "penstock.quarantine.internal.topics",
    }
    not_about_records = {
        "create.topic.policy.class.name",
        "create.topic.policy.create.partitions",
        "create.topic.policy.auto.create.error.code",
        "alter.config.policy.class.name",
        "topic.settings.topic",
        "redrive.places.topic",
        "produce.request.interceptors.state.topic",
    }
    of_time_and_memory = {
        "policy.workers",
        "policy.timeout.ms",
        "policy.preparation.timeout.ms",
        "policy.worker.memory.max.bytes",
        "policy.inline.max.bytes",
        "produce.request.interceptors.timeout.ms",
        "produce.request.interceptors.max.timeout.retries",
        "queued.max.request.bytes",
    }
    others = {*FILE_KEYS} - {*OF_FILE, *resolved, *not_about_records, *of_time_and_memory}
    prefixes = (
        *("upstream.", "listener", "advertised.", "broker.", "socket.", "sasl.", "connections."),
        *("max.connection", "metrics.", "audit.", "console."),
    )
    assert sorted(key for key in others if not key.startswith(prefixes)) == []


def test_the_defaults_are_those_of_the_file():
    assert OF_FILE == {key: str(FILE_KEYS[key].default) for key in OF_FILE}


def test_generated_files_agree_if_only_what_does_not_count_differs(tmp_path):
    rng = random.Random(5)
    expected = Place(tmp_path / "first").digest()
    for number in range(10):
        other = Place(tmp_path / "deeper" / str(number))
        items = list({**other.keys, "policies.mine.limit": "5"}.items())
        rng.shuffle(items)
        other.keys = dict(items)
        for key in rng.sample(sorted(NOTHING), 4):
            other.keys[key] = NOTHING[key]
        other.keys = {
            (f"# a comment\n{key}" if rng.random() < 0.3 else key): value
            for key, value in other.keys.items()
        }
        if rng.random() < 0.5:
            other.keys["policies.mine.list"] = str(other.folder / "names.csv")
        os.utime(other.folder / "names.csv", (number, number))
        assert other.digest() == expected, other.keys


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("order.schema.json", True),
        ("customer.json", True),
        ("names.csv", True),
        ("digested_checks.py", True),
        ("digested_helper.py", True),
        ("unused.py", False),
        ("other.schema.json", False),
        ("notes.txt", False),
    ],
)
def test_the_content_of_files_counts_if_the_plan_needs_them(place, name, changes):
    before = place.digest()
    path = place.folder / name
    text = path.read_text() if path.exists() else ""
    path.write_text(f"{text}\n")
    assert (place.digest() != before) is changes


def test_a_file_has_any_name(place):
    before = place.digest()
    place.write("renamed.json", FILES["order.schema.json"])
    assert place.with_key("topics.orders*.record.validation.policy", "renamed.json") == before


def test_a_topic_with_its_own_keys_has_another_plan(place):
    place.write("strict.json", "{}")
    before = place.digest()
    own = {"record.validation.policy": "strict.json"}
    with_own = place.digest(own=own)
    assert with_own != before
    assert place.digest(own={"penstock.mode": "enforce"}) not in {before, with_own}
    place.keys["topics.orders*.record.validation.policy"] = "strict.json"
    # A topic with a key of its own is meant, so that its records may be quarantined.
    assert place.digest(own={"penstock.mode": "QUARANTINE"}) == with_own


def test_a_topic_cannot_name_a_file_outside_the_folder(place):
    secret = place.folder.parent / "secret.json"
    digests = set()
    for text in ("{}", "[]"):
        secret.write_text(text)
        digests.add(place.digest(own={"record.validation.policy": "../secret.json"}))
    assert len(digests) == 1


def test_a_registry_counts_by_its_url_without_a_login(place):
    place.keys["record.validation.policy.class.name"] = "penstock.policies.SchemaPolicy"
    del place.keys["json.schema.formats"]
    place.keys["schema.registry.url"] = "http://registry:8081"
    before = place.digest()
    assert place.with_key("schema.registry.url", "http://a:b@registry:8081") == before
    assert place.with_key("schema.registry.url", "http://other:8081") != before
    strategy = "confluent.value.subject.name.strategy"
    assert place.digest(own={strategy: "RecordNameStrategy"}) != before


def test_versions_count(place, monkeypatch):
    before = place.digest()
    monkeypatch.setattr(plan_digest, "__version__", "77")
    assert place.digest() != before


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_cannot_be_read_marks_the_digest_without_privileges(place):
    (place.folder / "names.csv").chmod(0)
    assert place.digest().endswith("?")


def test_a_file_that_cannot_be_read_marks_the_digest(place, monkeypatch):
    before = place.digest()
    opened = Path.open

    def refuse(path, *args, **kwargs):
        if path.name == "customer.json":
            raise PermissionError(13, "Permission denied")
        return opened(path, *args, **kwargs)

    monkeypatch.setattr(Path, "open", refuse)
    policies = place.policies
    plan = Plan(policies)
    digests = PlanDigests(policies)
    plan.set_digests(digests)
    digest = plan.for_topic("orders").digest
    assert digest.endswith("?")
    assert digest[:-1] != before
    assert [text.partition(";")[0] for text in digests.warnings] == [
        "record.validation.policy.class.name: customer.json: Permission denied"
    ]


def test_later_changes_of_files_do_not_change_it(place):
    policies = place.policies
    digests = PlanDigests(policies)
    plan = Plan(policies)
    plan.set_digests(digests)
    place.write("names.csv", "others")
    place.write("digested_helper.py", "LIMIT = 2")
    expected = plan.for_topic("orders").digest
    copied = pickle.loads(pickle.dumps(digests))
    shutil.rmtree(place.folder)  # with what Python has compiled there
    plan.set_digests(copied)
    assert plan.for_topic("orders").digest == expected


PROGRAM = """
import sys
from penstock.configuration import load_configuration
from penstock.engine.plans.plan import Plan
from penstock.engine.plans.plan_digest import PlanDigests
policies = load_configuration(sys.argv[1]).policies
plan = Plan(policies)
plan.set_digests(PlanDigests(policies))
print(plan.for_topic("orders").digest)
"""


@pytest.mark.system
def test_it_is_the_same_in_each_process_and_on_spark(place, tmp_path):
    digests = {place.digest()}
    for seed in "1", "2":
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        answer = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(place.file)],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        digests.add(answer.stdout.strip())
    digests.add(load_plan(place.file).digest("orders"))
    assert len(digests) == 1


def test_keys_of_built_in_classes_that_are_secrets_do_not_count(place):
    place.keys["policies"] = "hash"
    place.keys = {key: value for key, value in place.keys.items() if ".mine." not in key}
    place.keys |= {
        "policies.hash.type": "penstock.policies.HashJsonFields",
        "policies.hash.fields": "a",
        "policies.hash.key.from": "env:ONE",
        "topics.orders*.penstock.policies": "hash",
    }
    before = place.digest()
    assert place.with_key("policies.hash.key.from", "env:TWO") == before
    assert "key.from" in {key.name for key in PolicyClass.of(_class("HashJsonFields")).config_keys}


def _class(name):
    import penstock.policies

    return getattr(penstock.policies, name)


def test_each_topic_level_key_about_bad_records_counts(place):
    values = {
        "penstock.mode": "mark",
        "errors.deadletterqueue.topic.name": "elsewhere",
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "false",
        "penstock.quarantine.max.ratio": "0.1",
        "produce.rejection.reasons": "batch",
    }
    assert values.keys() == ABOUT_BAD_RECORDS
    digests = [place.with_key(f"topics.orders*.{key}", value) for key, value in values.items()]
    assert len({place.digest(), *digests}) == len(values) + 1
