"""`penstock check --connect`: what judges the topics that exist, with what policies look up.

A validation policy (KIP-940) may have a method `describe_topic(topic, configs)`: it returns lines
that say what the topic's records are judged by.
"""

from __future__ import annotations

import asyncio
import fnmatch
from typing import TYPE_CHECKING, Final

from penstock.cli.checks.dead_letter_names import name_warnings
from penstock.cli.checks.dead_letter_replicas import replicas_warnings
from penstock.cli.checks.framework_topics import kept_topics
from penstock.cli.checks.mode import mode_of
from penstock.cli.failures import CommandError
from penstock.cli.output.policy_output import policies_run
from penstock.configuration import ConfigurationError
from penstock.configuration.globs import is_glob
from penstock.engine.instances import PolicyInstances
from penstock.engine.plans.loading import describe
from penstock.engine.plans.plan import NO_SETTINGS, Plan
from penstock.engine.topic_configs.index import UnreadableTopicConfigsError
from penstock.gateway.listening.endpoints import broker_ports_of
from penstock.jobs.topics.topic_settings import kept_settings
from penstock.kafka.cluster.brokers import UnreachableError
from penstock.kafka.cluster.brokers import describe as describe_cluster
from penstock.kafka.cluster.compacted_topic import CompactedTopicError
from penstock.kafka.cluster.metadata import ClusterMetadata, MetadataUnavailableError
from penstock.policy import RetriableException

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from penstock.configuration import Configuration
    from penstock.engine.plans.plan_digest import PlanDigests
    from penstock.engine.plans.topic_plan import TopicPlan
    from penstock.engine.validation_policy import ValidationPolicy
    from penstock.engine.workers.supervisor import Patterns

_ALL: Final = "*"
_TIMEOUT_S: Final = 10.0
_SERVERS: Final = "upstream.bootstrap.servers"


def describe_topics(
    configuration: Configuration,
    patterns: Patterns,
    servers: str | None = None,
    digests: PlanDigests | None = None,
) -> Iterator[str]:
    """Yield lines about each topic that a validation policy judges, in the order of names.

    Args:
        configuration: Names the cluster and the policy.
        patterns: The topics of interceptors.
        servers: The cluster's bootstrap addresses; None for those of the configuration.
        digests: The digests of plans, which are shown.

    Raises:
        ConfigurationError: It names no validation policy, or a topic's settings are invalid.
        CommandError: The cluster, or a system that the policy uses, does not answer.
    """
    plan = Plan(configuration.policies)
    plan.set_interceptor_patterns(patterns)
    if digests is not None:
        plan.set_digests(digests)
    policies_of_records = (
        configuration.record_validator_classes
        or configuration.record_validation_policy_class_name
        or configuration.records_policy_class_names_allowed
        or configuration.topic_defaults
        or configuration.named_policies
    )
    if not (policies_of_records or plan.intercepted_topics):
        raise ConfigurationError(
            f"{configuration.path}: --connect needs a policy, such as "
            "record.validation.policy.class.name or policies"
        )
    properties = configuration.upstream_properties
    if servers is not None:
        properties["bootstrap.servers"] = servers
    brokers = _brokers(configuration, properties)
    with policies_run():
        policies = PolicyInstances(configuration.policies, plan.names)
    try:
        topic_count = 0
        topics, partitions = _topics(configuration, properties)
        for topic, own in sorted(topics.items()):
            topic_plan = plan.for_topic(topic, own)
            if topic_plan is None:
                continue
            topic_count += 1
            yield f"topic {topic}{mode_of(plan, topic, topic_plan)}"
            with policies_run():  # not while a line is used
                lines = list(_lines(plan, policies, topic_plan))
            yield from (f"  {line}" for line in lines)
            if topic_plan.digest:
                yield f"  plan {topic_plan.digest}"
        yield f"{topic_count} of the cluster's topics have policies for records"
        for glob in plan.globs:
            if glob != _ALL and not fnmatch.filter(topics, glob):
                yield f"warning: topics.{glob}: {_nothing(glob)}"
        yield from kept_topics(plan, topics, ClusterMetadata(properties, configuration.path))
        yield from replicas_warnings(plan, topics, brokers)
        yield from name_warnings(configuration, plan, partitions, topics)
    finally:
        with policies_run():
            policies.close()


def _nothing(glob: str) -> str:
    """Say that a pattern of the file is for no topic that exists."""
    if not is_glob(glob):
        return "the cluster has no topic of that name"
    return "no topic of the cluster has a name that matches"


def _topics(
    configuration: Configuration, properties: Mapping[str, str]
) -> tuple[dict[str, Mapping[str, str]], dict[str, int]]:
    """Return the keys that were set on each topic of the cluster, and numbers of partitions."""
    try:
        view = ClusterMetadata(properties, configuration.path)
        names = asyncio.run(view.topics())
        index = kept_settings(configuration, properties)
        ids = view.ids(name for name in names if index.names(name))
        own = {
            name: index.of(name, topic_id)
            if (topic_id := ids.get(name)) is not None
            else NO_SETTINGS
            for name in names
        }
        return own, {name: partitions for name, (partitions, _) in names.items()}
    except (MetadataUnavailableError, CompactedTopicError, UnreadableTopicConfigsError) as error:
        raise CommandError(f"{properties['bootstrap.servers']}: {error}") from None


def _brokers(configuration: Configuration, properties: Mapping[str, str]) -> int:
    """Return the number of brokers.

    Raises:
        CommandError: The cluster does not answer.
        ConfigurationError: Clients could not reach a broker.
    """
    try:
        brokers = describe_cluster(properties, configuration.path, _TIMEOUT_S).brokers
    except UnreachableError as error:
        # `--bootstrap-server` may name other addresses than the file.
        raise CommandError(str(error).removeprefix(f"{_SERVERS} ")) from None
    if configuration.broker_addresses == "ports":
        _check_ports(configuration, sorted(brokers))
    return len(brokers)


def _check_ports(configuration: Configuration, nodes: Sequence[int]) -> None:
    ports = broker_ports_of(configuration, configuration.listener.address.port)
    first = configuration.broker_ids_first
    without = [str(node) for node in nodes if not first <= node < first + len(ports)]
    if without:
        last = first + len(ports) - 1
        raise ConfigurationError(
            f"{configuration.path}: broker.ports: clients cannot reach the broker with node id "
            f"{', '.join(without)}: {ports[0]}-{ports[-1]} are the ports of {first} to {last}; set "
            f"broker.ids.first={nodes[0]}"
            + (
                f", and {nodes[-1] - nodes[0] + 1} ports"
                if nodes[-1] - nodes[0] > last - first
                else ""
            )
        )


def _lines(plan: Plan, policies: PolicyInstances, topic_plan: TopicPlan) -> Iterator[str]:
    if topic_plan.unusable:
        yield f"cannot be judged: {topic_plan.unusable}"
        return
    validations = {
        validation.record_policy.name: validation
        for validation in policies.validations_of(topic_plan)
    }
    validating_names = {topic_plan.validation_policy, *topic_plan.named}
    for name in topic_plan.policies:
        if name in validating_names:
            yield from _of_policy(plan.label(name), validations.get(name), topic_plan)
        else:
            yield plan.label(name)


def _of_policy(
    label: str, validation: ValidationPolicy | None, topic_plan: TopicPlan
) -> Iterator[str]:
    describe_topic = getattr(validation and validation.instance, "describe_topic", None)
    if validation is None or not callable(describe_topic):
        text = topic_plan.validation_setting
        yield label if text is None else f"{label}  record.validation.policy={text}"
        return
    try:
        yield from describe_topic(topic_plan.topic, validation.configs(topic_plan))
    except ValueError as error:
        yield f"cannot be judged: {error}"
    except RetriableException as error:
        raise CommandError(f"topic {topic_plan.topic}: {error.message}") from None
    except Exception as error:
        raise CommandError(
            f"topic {topic_plan.topic}: {label}: describe_topic() failed: {describe(error)}"
        ) from None
