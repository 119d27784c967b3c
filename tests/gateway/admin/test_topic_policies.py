"""Policies for topics and configs: each request goes to the worker, and its verdict is counted."""

import pytest
from structlog.testing import capture_logs

from penstock.configuration.file import read_configuration
from penstock.engine.admin_policies import AdminContext, ConfigAlteration, TopicCreation
from penstock.engine.plans.topic_plan import TopicPlan
from penstock.engine.verdict import ACCEPTED, failed, not_judged, refused
from penstock.engine.workers.messages import (
    JudgeConfigAlteration,
    JudgeTopicCreation,
    TryRecordsPolicy,
    TryTopic,
)
from penstock.gateway.admin.topic_policies import TopicPolicies
from tests.kafka.client.settings import FILE

CREATE, ALTER, VALIDATE = "a.Create", "a.Alter", "a.V"
CREATION = TopicCreation("orders", 3, 1, None, {})
ALTERATION = ConfigAlteration("TOPIC", "orders", {"retention.ms": "5"})
CONTEXT = AdminContext()
NO = refused(44, "no", "a.P")
BROKEN = failed("a.P", "a secret path")


class Worker:
    """Returns a verdict for each request."""

    needs_context, pids = True, [7]

    def __init__(self):
        self.verdict = ACCEPTED
        self.requests = []
        self.started, self.drain_s = False, None

    async def start(self):
        self.started = True

    async def close(self, *, drain_s):
        self.drain_s = drain_s

    def submit_admin(self, request, names, done):
        self.requests.append((request, names))
        done(self.verdict)
        done(NO)  # a second verdict changes nothing


class Counts:
    """Counts in lists."""

    def __init__(self):
        self.judged, self.observed, self.left_out = [], [], []

    def topic_judged(self, policy, verdict):
        self.judged.append((policy, verdict))

    def topic_observed(self, policy, verdict):
        self.observed.append((policy, verdict))

    def topic_not_observed(self, policy):
        self.left_out.append(policy)


def policies(*keys, counts=None, tries_classes=False):
    named = {"create": ("create.topic.policy.class.name", CREATE),
             "alter": ("alter.config.policy.class.name", ALTER),
             "validate": ("record.validation.policy.class.name", VALIDATE)}  # fmt: skip
    given = {"upstream.bootstrap.servers": "k:9", **dict(named[key] for key in keys)}
    configuration = read_configuration(FILE, given, declared=())
    made = TopicPolicies(configuration, tries_classes=tries_classes, counts=counts)
    worker = Worker()
    if made.pool is not None:
        made._pool = worker
    return made, worker


async def test_without_a_policy_there_is_no_worker_and_everything_is_accepted():
    made, worker = policies("validate")
    assert (made.pool, made.pids, made.needs_context) == (None, [], False)
    await made.start()
    assert await made.creation(CREATION, CONTEXT) is ACCEPTED
    assert await made.alteration(ALTERATION, CONTEXT) is ACCEPTED
    await made.close()
    assert worker.requests == []


@pytest.mark.parametrize("key", ["create", "alter"])
async def test_each_policy_judges_its_requests_alone(key):
    made, worker = policies(key)
    worker.verdict = NO
    found = [await made.creation(CREATION, CONTEXT), await made.alteration(ALTERATION, CONTEXT)]
    assert found == ([NO, ACCEPTED] if key == "create" else [ACCEPTED, NO])
    expected = {
        "create": (JudgeTopicCreation(CREATION, CONTEXT), CREATE),
        "alter": (JudgeConfigAlteration(ALTERATION, CONTEXT), ALTER),
    }
    assert worker.requests == [expected[key]]


async def test_the_worker_starts_and_ends_with_the_policies():
    made, worker = policies("create")
    await made.start()
    assert (worker.started, made.needs_context, made.pids) == (True, True, [7])
    await made.close(drain_s=2.0)
    assert worker.drain_s == 2.0


@pytest.mark.parametrize("verdict", [ACCEPTED, NO, BROKEN])
@pytest.mark.parametrize("is_observed", [False, True])
async def test_verdicts_are_counted(verdict, is_observed):
    counts = Counts()
    made, worker = policies("create", "alter", counts=counts)
    worker.verdict = verdict
    assert await made.creation(CREATION, CONTEXT, is_observed=is_observed) is verdict
    assert await made.alteration(ALTERATION, CONTEXT, is_observed=is_observed) is verdict
    both = [(CREATE, verdict), (ALTER, verdict)]
    assert (counts.judged, counts.observed) == (([], both) if is_observed else (both, []))
    assert counts.left_out == []


@pytest.mark.parametrize("is_observed", [False, True])
async def test_a_request_that_no_worker_judged_counts_as_not_observed(is_observed):
    counts = Counts()
    made, worker = policies("create", counts=counts)
    worker.verdict = not_judged(CREATE, "busy")
    await made.creation(CREATION, CONTEXT, is_observed=is_observed)
    assert counts.left_out == ([CREATE] if is_observed else [])
    assert counts.judged == ([] if is_observed else [(CREATE, worker.verdict)])


def test_requests_that_are_judged_in_the_background_are_limited():
    counts = Counts()
    made, _ = policies("create", counts=counts)
    assert all(made.begin_observing(CREATE) for _ in range(100))
    assert not made.begin_observing(CREATE)
    assert counts.left_out == [CREATE]
    made.end_observing()
    assert made.begin_observing(CREATE)
    assert not made.begin_observing(CREATE)


PLAN = TopicPlan(topic="orders", validation_policy=VALIDATE, named=("p", "q"))
TRIALS = {
    "class": (lambda made: made.cannot_use("a.R"), (TryRecordsPolicy("a.R"), "a.R")),
    "topic": (
        lambda made: made.cannot_judge(PLAN),
        (TryTopic(PLAN.encoded.decode()), f"{VALIDATE}, p, q"),
    ),
}


@pytest.mark.parametrize(("verdict", "reason"), [(ACCEPTED, None), (NO, "no"), (BROKEN, "log")])
@pytest.mark.parametrize("trial", TRIALS)
async def test_settings_of_a_topic_are_tried(trial, verdict, reason):
    made, worker = policies("validate", tries_classes=True)
    worker.verdict = verdict
    run, request = TRIALS[trial]
    with capture_logs() as logs:
        found = await run(made)
    assert worker.requests == [request]
    if reason == "log" or (reason and trial == "class"):
        assert found == "the gateway's log says why"
        (line,) = logs
        assert line["reason"] == (verdict.detail or verdict.message)
    else:
        assert (found, logs) == (reason, [])


async def test_settings_without_a_policy_are_not_tried():
    made, worker = policies(tries_classes=True)
    assert await made.cannot_judge(TopicPlan(topic="orders", validators=("a.V",))) is None
    made, _ = policies()
    assert await made.cannot_judge(PLAN) is None
    assert worker.requests == []


@pytest.mark.parametrize(
    ("keys", "judges_partitions", "code"),
    [
        ({}, True, 3),
        (
            {
                "create.topic.policy.create.partitions": "false",
                "create.topic.policy.auto.create.error.code": "44",
            },
            False,
            44,
        ),
    ],
)
def test_the_file_says_which_requests_are_judged_and_how_a_creation_is_refused(
    keys, judges_partitions, code
):
    configuration = read_configuration(FILE, {"upstream.bootstrap.servers": "k:9", **keys})
    policies = TopicPolicies(configuration, tries_classes=False)

    assert policies.judges_partitions == judges_partitions
    assert policies.refused_automatic_creation_code == code
