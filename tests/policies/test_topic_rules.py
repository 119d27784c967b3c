"""The ready-made policies over topics."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.policies.topic_rules import ConfigRules, TopicRules
from penstock.policy import ConfigResource, PolicyViolationException

WEEK = str(7 * 24 * 3600 * 1000)


def configured(policy, rules):
    instance = policy()
    instance.configure({f"topic.rules.{name}": value for name, value in rules.items()})
    return instance


def message_of(policy, request):
    """The message for the client, or None if the request is allowed."""
    try:
        policy.validate(request)
    except PolicyViolationException as refusal:
        return refusal.message
    return None


def created(rules, topic="orders", *, partitions=1, replicas=1, assignments=None, configs=None):
    if assignments is not None:
        partitions = replicas = None
    request = TopicRules.RequestMetadata(topic, partitions, replicas, assignments, configs or {})
    return message_of(configured(TopicRules, rules), request)


def altered(rules, configs, topic="orders", *, kind="TOPIC"):
    request = ConfigRules.RequestMetadata(ConfigResource(kind, topic), configs)
    return message_of(configured(ConfigRules, rules), request)


@pytest.mark.parametrize(
    ("pattern", "topic", "refused"),
    [
        ("[a-z.]+", "orders.eu", False),
        ("[a-z.]+", "orders-eu", True),
        ("orders", "orders-eu", True),
        ("orders|payments", "payments", False),
        ("orders|payments", "orders-payments", True),
    ],
)
def test_the_whole_name_must_match(pattern, topic, refused):
    expected = f"Topic {topic} has a name that does not match {pattern} (topic.rules.name.pattern)"
    assert created({"name.pattern": pattern}, topic) == (expected if refused else None)


@pytest.mark.parametrize(
    ("rules", "count", "expected"),
    [
        ({"partitions.max": "10"}, 10, None),
        (
            {"partitions.max": "10"},
            50,
            "Topic orders asks for 50 partitions; at most 10 are allowed (topic.rules.partitions.max)",
        ),
        (
            {"partitions.max": "1"},
            2,
            "Topic orders asks for 2 partitions; at most 1 is allowed (topic.rules.partitions.max)",
        ),
        ({"partitions.min": "3"}, 3, None),
        (
            {"partitions.min": "3"},
            1,
            "Topic orders asks for 1 partition; at least 3 are required (topic.rules.partitions.min)",
        ),
        ({"partitions.min": "3", "partitions.max": "3"}, 3, None),
        ({"partitions.max": "2147483647"}, 2147483647, None),
    ],
)
def test_the_number_of_partitions_is_bounded(rules, count, expected):
    assert created(rules, partitions=count) == expected


def test_partitions_are_counted_in_an_assignment():
    assignments = {partition: [1] for partition in range(4)}
    assert created({"partitions.max": "4"}, assignments=assignments) is None
    assert created({"partitions.max": "3"}, assignments=assignments) == (
        "Topic orders asks for 4 partitions; at most 3 are allowed (topic.rules.partitions.max)"
    )
    assert created({"partitions.min": "5"}, assignments=assignments) == (
        "Topic orders asks for 4 partitions; at least 5 are required (topic.rules.partitions.min)"
    )


MIN, MAX = "(topic.rules.replication.factor.min)", "(topic.rules.replication.factor.max)"


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (1, f"Topic orders asks for 1 replica of each partition; at least 2 are required {MIN}"),
        (2, None),
        (3, None),
        (4, f"Topic orders asks for 4 replicas of each partition; at most 3 are allowed {MAX}"),
    ],
)
def test_the_replication_factor_is_bounded(count, expected):
    rules = {"replication.factor.min": "2", "replication.factor.max": "3"}
    assert created(rules, replicas=count) == expected


@pytest.mark.parametrize(
    ("assignments", "expected"),
    [
        ({0: [1, 2], 1: [1, 2, 3]}, None),
        (
            {0: [1, 2], 1: [3]},
            f"Topic orders asks for 1 replica of partition 1; at least 2 are required {MIN}",
        ),
        (
            {2: [1], 1: [], 0: [1, 2]},
            (
                "Topic orders asks for 0 replicas of partition 1 (2 partitions break this rule); "
                f"at least 2 are required {MIN}"
            ),
        ),
        (
            {0: [1], 1: [1, 2, 3, 4]},
            (
                f"Topic orders asks for 1 replica of partition 0; at least 2 are required {MIN}; "
                f"it asks for 4 replicas of partition 1; at most 3 are allowed {MAX}"
            ),
        ),
    ],
)
def test_each_partition_of_an_assignment_has_its_replicas_counted(assignments, expected):
    rules = {"replication.factor.min": "2", "replication.factor.max": "3"}
    assert created(rules, assignments=assignments) == expected


@pytest.mark.parametrize(
    ("configs", "refused"),
    [
        ({}, None),
        ({"retention.ms": "1", "retention.bytes": "1", "cleanup.policy": "x"}, None),
        ({"retention": "1"}, "retention"),
        ({"Cleanup.policy": "x"}, "Cleanup.policy"),
        ({"segment.ms": "1", "retention.ms": "1", "flush.ms": "1"}, "flush.ms, segment.ms"),
        # Penstock's own keys are configs of the topic too.
        ({"records.policy.enabled": "false"}, "records.policy.enabled"),
    ],
)
def test_other_configs_than_the_allowed_are_refused(configs, refused):
    rules = {"configs.allowed": "retention.*, cleanup.policy,"}
    rest = "; only these are allowed: retention.*, cleanup.policy (topic.rules.configs.allowed)"
    for verb, message in (
        ("set", created(rules, configs=configs)),
        ("change", altered(rules, configs)),
        ("change", altered(rules, dict.fromkeys(configs))),
    ):
        assert message == (refused and f"Topic orders asks to {verb} {refused}{rest}")


REQUIRED = "(topic.rules.configs.required)"


@pytest.mark.parametrize(
    ("configs", "expected"),
    [
        ({"cleanup.policy": "delete", "min.insync.replicas": "2"}, None),
        ({"cleanup.policy": "", "min.insync.replicas": "2", "flush.ms": "1"}, None),
        (
            {"min.insync.replicas": "2"},
            f"Topic orders does not set cleanup.policy; cleanup.policy is required {REQUIRED}",
        ),
        (
            {"cleanup.policy": "compact", "min.insync.replicas": "1"},
            (
                "Topic orders asks for min.insync.replicas=1; min.insync.replicas=2 is required "
                f"{REQUIRED}"
            ),
        ),
        (
            {},
            (
                f"Topic orders does not set cleanup.policy; cleanup.policy is required {REQUIRED}; "
                "it does not set min.insync.replicas; min.insync.replicas=2 is required "
                f"{REQUIRED}"
            ),
        ),
    ],
)
def test_required_configs_are_given_when_a_topic_is_created(configs, expected):
    rules = {"configs.required": "cleanup.policy, min.insync.replicas = 2"}
    assert created(rules, configs=configs) == expected


EXEMPT = {"exempt": "connect-*, *-changelog,mm2-[ab],orders", "partitions.max": "1",
          "configs.allowed": "retention.ms"}  # fmt: skip


@pytest.mark.parametrize(
    ("topic", "is_exempt"),
    [
        ("connect-offsets", True),
        ("app-store-changelog", True),
        ("mm2-a", True),
        ("orders", True),
        ("mm2-c", False),
        ("orders-2", False),
        ("Connect-offsets", False),
    ],
)
def test_no_rule_holds_for_exempt_topics(topic, is_exempt):
    configs = {"cleanup.policy": "compact"}
    refused = (
        created(EXEMPT, topic, partitions=5),
        created(EXEMPT, topic, configs=configs),
        altered(EXEMPT, configs, topic),
    )
    assert [refusal is None for refusal in refused] == [is_exempt] * 3


def test_a_group_is_not_exempt():
    rules = {**EXEMPT, "group.configs.allowed": "share.*"}
    assert altered(rules, {"consumer.x": "1"}, "orders", kind="GROUP") is not None


def test_exempt_topics_win_over_judged_internal_topics():
    rules = {**EXEMPT, "internal.topics": "judge", "exempt": "__a"}
    assert created(rules, "__a", partitions=5) is None
    assert created(rules, "__b", partitions=5) is not None


@pytest.mark.parametrize("text", ["", "{a,b}", "^connect", "connect-.+", "a b", "a[", "a" * 250])
def test_a_glob_of_exempt_topics_that_matches_none_is_an_error(text):
    with pytest.raises(ValueError, match=r"topic\.rules\.exempt must be names of topics, or globs"):
        configured(TopicRules, {"exempt": text, "partitions.max": "1"})


LISTS = ("compact", "delete")


@pytest.mark.parametrize(
    ("required", "given", "is_met"),
    [
        ("cleanup.policy=compact,delete", "compact,delete", True),
        ("cleanup.policy=compact,delete", " delete , compact", True),
        ("cleanup.policy=compact,delete", "compact", False),
        ("cleanup.policy=compact", "compact,delete", False),
        ("cleanup.policy=compact,delete,min.insync.replicas", "delete,compact", True),
        ("min.insync.replicas,cleanup.policy = delete, compact", "compact,delete", True),
    ],
)
def test_lists_compare_as_lists(required, given, is_met):
    configs = {"cleanup.policy": given, "min.insync.replicas": "2"}
    assert (created({"configs.required": required}, configs=configs) is None) is is_met
    assert (altered({"configs.required": required}, configs) is None) is is_met


def test_the_order_of_policies_matters():
    rules = {"configs.required": "penstock.policies=a,b,preallocate"}
    configs = {"penstock.policies": "a, b", "preallocate": "true"}
    assert created(rules, configs=configs) is None
    configs["penstock.policies"] = "b,a"
    assert created(rules, configs=configs) == (
        f"Topic orders asks for penstock.policies=b,a; penstock.policies=a,b is required {REQUIRED}"
    )


@pytest.mark.parametrize("name", ["leader", "follower"])
def test_a_list_of_replicas_may_be_required(name):
    name = f"{name}.replication.throttled.replicas"
    rules = {"configs.required": f"{name}=0:1,1:2,flush.ms"}
    assert altered(rules, {name: "1:2,0:1", "flush.ms": "1"}) is None
    assert altered(rules, {name: "*"}) is not None


@settings(max_examples=1000, deadline=None)
@given(
    st.lists(st.sampled_from(LISTS), min_size=1, max_size=2, unique=True),
    st.lists(st.sampled_from(LISTS), min_size=1, max_size=2, unique=True),
    st.lists(st.sampled_from(["flush.ms", "retention.ms=5", "preallocate"]), unique=True),
    st.randoms(use_true_random=False),
)
def test_a_required_list_is_met_by_equal_sets(wanted, given_items, others, random):
    """Wherever it stands among the other required configs."""
    entries = [*others, f"cleanup.policy={','.join(wanted)}"]
    random.shuffle(entries)
    configs = {"flush.ms": "1", "retention.ms": "5", "preallocate": "true"}
    configs["cleanup.policy"] = ", ".join(given_items)
    refusal = created({"configs.required": ",".join(entries)}, configs=configs)
    assert (refusal is None) is (set(wanted) == set(given_items))


@pytest.mark.parametrize(
    ("configs", "expected"),
    [
        ({"flush.ms": "1"}, None),
        ({"flush.ms": None}, None),
        ({"cleanup.policy": "compact"}, None),
        ({"min.insync.replicas": "2"}, None),
        (
            {"cleanup.policy": None},
            f"Topic orders asks to delete cleanup.policy; cleanup.policy is required {REQUIRED}",
        ),
        (
            {"min.insync.replicas": "1"},
            (
                "Topic orders asks for min.insync.replicas=1; min.insync.replicas=2 is required "
                f"{REQUIRED}"
            ),
        ),
        (
            {"min.insync.replicas": None, "cleanup.policy": None},
            (
                f"Topic orders asks to delete cleanup.policy; cleanup.policy is required {REQUIRED}; "
                "it asks to delete min.insync.replicas; min.insync.replicas=2 is required "
                f"{REQUIRED}"
            ),
        ),
    ],
)
def test_required_configs_stay_as_they_are(configs, expected):
    rules = {"configs.required": "cleanup.policy,min.insync.replicas=2"}
    assert altered(rules, configs) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (WEEK, None),
        ("60000", None),
        (None, None),
        ("a week", None),
        ("", None),
        ("1e30", None),
        ("1_000", None),
        (str(int(WEEK) + 1), "604800001; at most 604800000 ms are allowed"),
        ("-1", "-1, which is unlimited; at most 604800000 ms are allowed"),
        ("59999", "59999; at least 60000 ms are required"),
        ("-2", "-2; at least 60000 ms are required"),
        ("9" * 30, "9" * 30 + "; at most 604800000 ms are allowed"),
        # What Java reads as a number: nothing of this may pass unjudged.
        (" +1\n", "1; at least 60000 ms are required"),
        ("\x001\x1f", "1; at least 60000 ms are required"),
        ("\u0661", "1; at least 60000 ms are required"),
        ("0" * 5000 + "1", "1; at least 60000 ms are required"),
    ],
)
def test_retention_is_bounded_if_it_is_set(value, expected):
    rules = {"retention.ms.min": "60000", "retention.ms.max": WEEK}
    if expected:
        bound = "min" if "least" in expected else "max"
        expected = (
            f"Topic orders asks for retention.ms={expected} (topic.rules.retention.ms.{bound})"
        )
    assert altered(rules, {"retention.ms": value}) == expected
    if value is not None:
        assert created(rules, configs={"retention.ms": value}) == expected
    assert created(rules, configs={"flush.ms": "1"}) is None
    assert altered(rules, {"flush.ms": "1"}) is None


def test_unlimited_retention_is_above_any_least():
    assert created({"retention.ms.min": WEEK}, configs={"retention.ms": "-1"}) is None
    assert altered({"retention.ms.min": WEEK}, {"retention.ms": "-1"}) is None


def test_all_broken_rules_are_reported_at_once():
    rules = {
        "name.pattern": "[a-z]+",
        "partitions.max": "10",
        "replication.factor.min": "2",
        "configs.allowed": "retention.ms,cleanup.policy",
        "configs.required": "cleanup.policy=compact",
        "retention.ms.max": "1000",
    }
    configs = {"retention.ms": "1001", "flush.ms": "1"}
    assert created(rules, "Orders", partitions=11, configs=configs) == "; it ".join(
        [
            "Topic Orders has a name that does not match [a-z]+ (topic.rules.name.pattern)",
            "asks for 11 partitions; at most 10 are allowed (topic.rules.partitions.max)",
            f"asks for 1 replica of each partition; at least 2 are required {MIN}",
            (
                "asks to set flush.ms; only these are allowed: retention.ms, cleanup.policy "
                "(topic.rules.configs.allowed)"
            ),
            f"does not set cleanup.policy; cleanup.policy=compact is required {REQUIRED}",
            (
                "asks for retention.ms=1001; at most 1000 ms are allowed "
                "(topic.rules.retention.ms.max)"
            ),
        ]
    )
    configs |= {"cleanup.policy": "delete"}
    assert altered(rules, configs, "Orders") == "; it ".join(
        [
            (
                "Topic Orders asks to change flush.ms; only these are allowed: retention.ms, "
                "cleanup.policy (topic.rules.configs.allowed)"
            ),
            f"asks for cleanup.policy=delete; cleanup.policy=compact is required {REQUIRED}",
            (
                "asks for retention.ms=1001; at most 1000 ms are allowed "
                "(topic.rules.retention.ms.max)"
            ),
        ]
    )


def test_each_rule_holds_alone():
    assert created({"partitions.max": "1"}, "Any Name", replicas=9, configs={"a": "b"}) is None
    assert created({"name.pattern": "orders"}, partitions=10**6, configs={"a": "b"}) is None
    assert altered({"retention.ms.max": "1", "partitions.max": "1"}, {"flush.ms": "1"}) is None


@pytest.mark.parametrize(
    ("internal", "topic", "judged"),
    [
        ({}, "__consumer_offsets", False),
        ({"internal.topics": "skip"}, "__consumer_offsets", False),
        ({"internal.topics": "judge"}, "__consumer_offsets", True),
        ({"internal.topics": " JUDGE "}, "__consumer_offsets", True),
        ({}, "_schemas", True),
        ({}, "orders__", True),
    ],
)
def test_internal_topics_are_skipped_unless_they_are_to_be_judged(internal, topic, judged):
    rules = {"partitions.max": "1", "configs.allowed": "cleanup.policy", **internal}
    assert (created(rules, topic, partitions=50) is not None) == judged
    assert (altered(rules, {"flush.ms": "1"}, topic) is not None) == judged


@pytest.mark.parametrize("kind", ["BROKER", "BROKER_LOGGER", "CLIENT_METRICS", "GROUP"])
def test_other_resources_than_topics_are_not_judged(kind):
    rules = {"configs.allowed": "cleanup.policy", "retention.ms.max": "1"}
    assert altered(rules, {"retention.ms": "2"}, "1", kind=kind) is None


def test_other_keys_of_the_file_are_passed_over():
    policy = TopicRules()
    policy.configure(
        {
            "upstream.bootstrap.servers": "kafka:9092",
            "topics.orders.record.validation.policy": "x",
            "topic.rulesets": "x",
            "topic.rules.partitions.max": " 2 ",
        }
    )
    assert message_of(policy, TopicRules.RequestMetadata("orders", 2, 1, None, {})) is None
    assert message_of(policy, TopicRules.RequestMetadata("orders", 3, 1, None, {})) is not None


@pytest.mark.parametrize("policy", [TopicRules, ConfigRules])
@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (
            {"partition.max": "1"},
            "topic.rules.partition.max is unknown; did you mean topic.rules.partitions.max?",
        ),
        (
            {"config.allowed": "x"},
            "topic.rules.config.allowed is unknown; did you mean topic.rules.configs.allowed?",
        ),
        ({"xyz": "1"}, "topic.rules.xyz is unknown; known are topic.rules.name.pattern, "),
        ({"": "1"}, "topic.rules. is unknown; known are "),
        ({"name.pattern": "("}, "topic.rules.name.pattern must be a regular expression: missing )"),
        (
            {"name.pattern": " "},
            "topic.rules.name.pattern must be a regular expression, not nothing",
        ),
        (
            {"partitions.min": "0"},
            "topic.rules.partitions.min must be a whole number from 1 to 2147483647, not 0",
        ),
        (
            {"partitions.max": "ten"},
            "topic.rules.partitions.max must be a whole number from 1 to 2147483647, not ten",
        ),
        (
            {"partitions.max": ""},
            "topic.rules.partitions.max must be a whole number from 1 to 2147483647, not nothing",
        ),
        (
            {"replication.factor.min": "32768"},
            "topic.rules.replication.factor.min must be a whole number from 1 to 32767, not 32768",
        ),
        ({"replication.factor.max": "1.5"}, "topic.rules.replication.factor.max must be a whole "),
        ({"retention.ms.min": "7d"}, "topic.rules.retention.ms.min must be a whole number from 0 "),
        ({"retention.ms.max": "-1"}, "topic.rules.retention.ms.max must be a whole number from 0 "),
        ({"configs.allowed": " , "}, "topic.rules.configs.allowed must be names of configs, or "),
        ({"configs.allowed": "a=b"}, "topic.rules.configs.allowed must be names of configs, or "),
        ({"configs.allowed": "a b"}, "topic.rules.configs.allowed must be names of configs, or "),
        ({"configs.required": ""}, "topic.rules.configs.required must be names of configs, or "),
        ({"configs.required": "a="}, "topic.rules.configs.required must be names of configs, or "),
        ({"configs.required": "=b"}, "topic.rules.configs.required must be names of configs, or "),
        ({"configs.allowed": "{a,b}"}, "topic.rules.configs.allowed must be names of configs, or "),
        ({"configs.allowed": "a.b$"}, "topic.rules.configs.allowed must be names of configs, or "),
        (
            {"configs.required": "cleanup.policy=compacted"},
            (
                "topic.rules.configs.required must be values that brokers accept, not "
                "cleanup.policy=compacted"
            ),
        ),
        ({"configs.required": "a.*"}, "topic.rules.configs.required must be names of configs, or "),
        (
            {"configs.required": "a=1,a=2"},
            "topic.rules.configs.required must be names of configs, ",
        ),
        (
            {"internal.topics": "yes", "configs.allowed": "a"},
            "topic.rules.internal.topics must be skip or judge, not yes",
        ),
        (
            {"partitions.min": "5", "partitions.max": "3", "configs.allowed": "a"},
            (
                "topic.rules.partitions.min must be at most 3, the value of topic.rules.partitions.max, "
                "not 5"
            ),
        ),
        (
            {"replication.factor.min": "3", "replication.factor.max": "1", "configs.allowed": "a"},
            "topic.rules.replication.factor.min must be at most 1, ",
        ),
        (
            {"retention.ms.min": "2", "retention.ms.max": "1"},
            "topic.rules.retention.ms.min must be at most 1, ",
        ),
        (
            {"configs.allowed": "retention.*", "configs.required": "retention.ms,flush.ms=1"},
            (
                "topic.rules.configs.required must only name configs that topic.rules.configs.allowed allows: "
                "add flush.ms to topic.rules.configs.allowed, or remove it from "
                "topic.rules.configs.required"
            ),
        ),
        (
            {"retention.ms.max": "5", "configs.required": "retention.ms=-1"},
            (
                "topic.rules.configs.required must keep the other rules; it asks for retention.ms=-1, "
                "which is unlimited; at most 5 ms are allowed (topic.rules.retention.ms.max)"
            ),
        ),
        ({}, "there is no rule: set one of topic.rules."),
        ({"internal.topics": "judge"}, "there is no rule: set one of topic.rules."),
    ],
)
def test_wrong_settings_are_reported_at_start(policy, rules, expected):
    with pytest.raises(ValueError) as raised:
        configured(policy, rules)
    assert str(raised.value).startswith(expected)


def test_rules_over_configs_need_a_rule_over_configs():
    with pytest.raises(ValueError) as raised:
        configured(ConfigRules, {"partitions.max": "3", "name.pattern": "x"})
    assert str(raised.value) == (
        "there is no rule: set one of topic.rules.configs.allowed, "
        "topic.rules.configs.required, topic.rules.retention.ms.min, "
        "topic.rules.retention.ms.max, topic.rules.group.configs.allowed"
    )


def test_configs_of_groups_have_a_rule():
    rules = {"group.configs.allowed": "group.*,share.*"}
    given = {"share.record.lock.duration.ms": "15000", "errors.deadletterqueue.topic.name": "dlq.x"}
    assert altered(rules, given, "g", kind="GROUP") == (
        "Group g asks to change errors.deadletterqueue.topic.name; only these are allowed: "
        "group.*, share.* (topic.rules.group.configs.allowed)"
    )
    assert altered(rules, {"errors.x": None}, "g", kind="GROUP").startswith("Group g asks to chang")
    assert altered(rules, {"group.any": "1"}, "g", kind="GROUP") is None
    assert altered(rules, given) is None
    assert altered({"configs.allowed": "retention.ms"}, given, "g", kind="GROUP") is None


def test_rules_that_do_not_contradict_each_other_may_stand_together():
    rules = {
        "partitions.min": "3",
        "partitions.max": "3",
        "retention.ms.min": "5",
        "retention.ms.max": "5",
        "configs.allowed": "retention.??,cleanup.policy",
        "configs.required": "retention.ms=5,cleanup.policy",
    }
    configs = {"retention.ms": "5", "cleanup.policy": "delete"}
    assert created(rules, partitions=3, configs=configs) is None
    assert altered(rules, configs) is None


@pytest.mark.parametrize(
    "required",
    ["retention.ms=7d", "segment.bytes=1GB", "preallocate=yes", "min.insync.replicas=two"],
)
def test_a_required_value_that_no_broker_accepts_is_an_error(required):
    with pytest.raises(ValueError, match="must be values that brokers accept, not "):
        TopicRules().configure({"topic.rules.configs.required": required})


@pytest.mark.parametrize(
    ("required", "given", "is_met"),
    [
        ("min.insync.replicas=02", "2", True),
        ("min.insync.replicas=2", " +2 ", True),
        ("min.insync.replicas=2", "3", False),
        ("min.insync.replicas=2", "0" * 5000 + "2", True),
        ("unclean.leader.election.enable=False", "false", True),
        ("unclean.leader.election.enable=false", "TRUE", False),
        ("compression.type=zstd", "ZSTD", False),
        ("retention.ms=-1", "-01", True),
    ],
)
def test_a_required_value_compares_as_brokers_read_it(required, given, is_met):
    rules = TopicRules()
    rules.configure({"topic.rules.configs.required": required})
    name = required.partition("=")[0]
    assert rules._settings.is_met(name, given) is is_met


def test_generated_numbers_compare_as_integers():
    random = Random(52)
    for _ in range(1000):
        wanted, given = random.randint(-3, 3), random.randint(-3, 3)
        written = f"{'-' if given < 0 else random.choice(['', '+'])}{'0' * random.randint(0, 3)}"
        rules = TopicRules()
        rules.configure({"topic.rules.configs.required": f"segment.ms={wanted}"})
        assert rules._settings.is_met("segment.ms", f"{written}{abs(given)}") is (wanted == given)
