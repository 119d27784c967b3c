"""Jobs with policies that use a schema registry, which may be away, and whose secrets stay in."""

import contextlib
import os
import threading

import pytest

from penstock.jobs import policy_retries
from tests.integration.reading import read_topic, values_of
from tests.policies.schema_policy.fake_registry import FakeRegistry
from tests.spark.registered import (
    PASSWORD,
    SECRET,
    USER,
    contents,
    register,
    settings,
    user,
)

POLICIES = """
import os, sys
from penstock.policies import RedactTagged, SchemaPolicy

class Redact(RedactTagged):
    topics = "."
    tags = ("PII",)
    registry = {
        "schema.registry.url": "URL",
        "schema.registry.basic.auth.user.info": "USER",
    }

class Lacking(SchemaPolicy):
    def configure(self, configs):
        if os.getpid() == DRIVER:
            return super().configure(configs)
        there = sys.modules.get("fastavro")
        sys.modules["fastavro"] = None
        try:
            super().configure(configs)
        finally:
            del sys.modules["fastavro"]
            if there:
                sys.modules["fastavro"] = there
"""
AWAY = "cannot be looked up: the schema registry at"


@pytest.fixture
def registry():
    with FakeRegistry(user_info=USER) as running:
        yield running


@pytest.fixture
def file(configured, registry):
    """Writes a file with `SchemaPolicy`, or a class that derives from it, or with `Redact`."""

    def write(name="SchemaPolicy"):
        text = POLICIES.replace("URL", registry.url).replace("USER", USER)
        if name == "Redact":
            properties = {"produce.request.interceptors": "policies.Redact"}
        else:
            properties = settings(
                name, schema_registry_url=registry.url, schema_registry_basic_auth_user_info=USER
            )
        return configured(properties, text.replace("DRIVER", str(os.getpid())))

    return write


@pytest.fixture
def filled(registry, produce, topic):
    """A topic with two good records, one bad and a tombstone; and the id of their schema."""
    name = topic("in")
    schema_id = register(registry, name)
    produce(
        name, [{"key": b"%d" % at, "value": value} for at, value in enumerate(contents(schema_id))]
    )
    return name, schema_id


@contextlib.contextmanager
def away_for(registry):
    """Let a registry answer 503 to a request, and then normally."""

    def comes_back():
        while len(registry.requests) == before and not ended.wait(0.05):
            pass
        registry.status = None

    before, ended = len(registry.requests), threading.Event()
    registry.status = 503
    waiting = threading.Thread(target=comes_back)
    waiting.start()
    try:
        yield
        assert registry.status is None
    finally:
        ended.set()
        waiting.join()


def hides_secrets(done):
    output = done.out + done.err
    return not any(secret in output for secret in (SECRET, PASSWORD, "Traceback", ".py"))


JOBS = {
    "audit": ("audit", "SchemaPolicy"),
    "split": ("split", "SchemaPolicy"),
    "split to a topic and a folder": ("split", "SchemaPolicy"),
    "redact": ("redact", "Redact"),
}


@pytest.mark.slow
@pytest.mark.parametrize("job", JOBS)
def test_while_the_registry_is_away_a_job_fails_and_a_later_job_waits_for_it(
    command, file, registry, filled, topic, kafka, tmp_path, monkeypatch, job
):
    what, policy = JOBS[job]
    name, schema_id = filled
    accepted, rejected, report = topic("clean"), topic("dead"), tmp_path / "report"
    if "folder" in job:
        accepted = f"path:{tmp_path / 'accepted'}"
    ends_at_once, waits = file(policy), file(policy)
    arguments = ("--topic", name, *{
        "audit": ("--report", report),
        "split": ("--accepted", accepted, "--rejected", rejected),
        "redact": ("--to", accepted),
    }[what])  # fmt: skip

    registry.goes_away()
    with monkeypatch.context() as impatient:
        impatient.setattr(policy_retries, "FOR_S", 0.0)
        done = command(what, ends_at_once, *arguments)
    assert done.code == 3, done
    assert "a policy cannot decide now: " in done.err
    assert f"schema {schema_id} {AWAY} {registry.url}" in done.err
    assert "refused" not in done.out
    assert hides_secrets(done), done
    assert not (report / "report.json").exists()

    registry.comes_back()
    with away_for(registry):
        done = command(what, waits, *arguments)
    assert hides_secrets(done), done
    if what == "redact":
        assert done.code == 1, done  # one record cannot be redacted
        assert values_of(read_topic(kafka.bootstrap_servers, accepted)) == [
            user(schema_id, 1, "***"), user(schema_id, 3, "***"), None,
        ]  # fmt: skip
        return
    assert done.code == 0, done
    assert "3 accepted, 1 refused" in done.out
    if what == "audit":
        written = "".join(path.read_text() for path in report.rglob("*") if path.is_file())
        assert "does not fit schema" in written
        assert PASSWORD not in written
        assert SECRET not in written
    else:
        assert len(read_topic(kafka.bootstrap_servers, rejected)) == 1


@pytest.mark.slow
def test_a_stream_waits_for_the_registry(command, file, registry, filled, topic):
    name, schema_id = filled
    with away_for(registry):
        done = command("split", file(), "--topic", name, "--accepted", topic("clean"),
                       "--rejected", topic("dead"), "--streaming", "--available-now")  # fmt: skip
    assert done.code == 0, done
    assert f"schema {schema_id} {AWAY}" in done.err
    assert "; waiting" in done.err
    assert "3 accepted, 1 refused" in done.out
    assert hides_secrets(done), done


def test_packages_that_executors_lack_are_named(command, file, filled):
    done = command("audit", file("Lacking"), "--topic", filled[0])
    assert done.code == 3, done
    assert "the policies cannot be loaded on the executors: " in done.err
    assert "there is no module fastavro: pip install 'penstock-kafka[schemas]'" in done.err
    assert "refused" not in done.out
