"""KIP-108 and KIP-133: rules for the creation of topics and for changes of their configs.

    create.topic.policy.class.name=penstock.policies.TopicRules
    alter.config.policy.class.name=penstock.policies.ConfigRules
    topic.rules.name.pattern=[a-z]+([.][a-z]+)*
    topic.rules.partitions.max=10
    topic.rules.replication.factor.min=3
    topic.rules.configs.allowed=retention.*,cleanup.policy,min.insync.replicas
    topic.rules.configs.required=cleanup.policy,min.insync.replicas=2
    topic.rules.retention.ms.max=604800000

| key after `topic.rules.`   | rule                                                           |
|----------------------------|----------------------------------------------------------------|
| `name.pattern`             | a regular expression for the whole name                        |
| `partitions.min`           | the least number of partitions                                 |
| `partitions.max`           | the largest number of partitions                               |
| `replication.factor.min`   | the least number of replicas of each partition                 |
| `replication.factor.max`   | the largest number of replicas of each partition               |
| `configs.allowed`          | names and globs; no other config may be given                  |
| `configs.required`         | `name`: must be given; `name=value`: with this value           |
| `retention.ms.min`         | the least `retention.ms`, if it is given                       |
| `retention.ms.max`         | the largest `retention.ms`; -1 (unlimited) is above it         |
| `group.configs.allowed`    | names and globs; no other config of a group may be given       |
| `internal.topics`          | `judge`: also names that start with `__`; default `skip`       |
| `exempt`                   | names and globs of topics for which no rule holds              |

Set at least one rule. Lists are separated by commas. A required value that is a list, such as
`cleanup.policy=compact,delete`, is compared as a list. In a `.properties` file a backslash is
written twice. Kafka creates its internal topics, like `__consumer_offsets`, through the same
policy, so the default is `skip`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from penstock.policies.topic_rule_settings import (
    ALLOWED,
    CONFIG_RULES,
    GROUP_CONFIGS,
    NAME,
    REQUIRED,
    TOPIC_RULES,
    TopicRuleSettings,
)
from penstock.policy import AlterConfigPolicy, CreateTopicPolicy, PolicyViolationException

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from penstock.policies.topic_rule_settings import Bounds


class TopicRules(CreateTopicPolicy):
    """Refuses topics that break a rule of `topic.rules.*`, and names every broken rule."""

    def configure(self, configs: Mapping[str, str]) -> None:
        """Read the rules.

        Args:
            configs: The configuration file; only keys that start with `topic.rules.` are read.

        Raises:
            ValueError: A key is unknown, a value is invalid, rules contradict
                each other, or no rule is set.
        """
        self._settings = TopicRuleSettings.read(configs, TOPIC_RULES)

    def validate(self, request: CreateTopicPolicy.RequestMetadata) -> None:
        """Return if the topic meets all rules.

        Raises:
            PolicyViolationException: It breaks rules, which the message names.
        """
        if self._settings.judges(request.topic):
            _refuse(f"Topic {request.topic}", self._objections(request))

    def _objections(self, request: CreateTopicPolicy.RequestMetadata) -> Iterator[str]:
        settings = self._settings
        if settings.name and not settings.name.fullmatch(request.topic):
            yield f"has a name that does not match {settings.name.pattern} ({NAME})"
        yield from _partitions(settings.partitions, request)
        yield from _replicas(settings.replicas, request)
        yield from _not_allowed_of_topics(settings, request.configs, "set")
        required_configs = {name: request.configs.get(name) for name in settings.required}
        yield from _not_as_required(settings, required_configs, absent="does not set")
        yield from settings.retention_objections(request.configs)


class ConfigRules(AlterConfigPolicy):
    """Refuses changes of the configs of topics and groups that break a rule over configs.

    Deleting a config is a change: it must be allowed, and a required config cannot be deleted. The
    deletion of a config that is not set, and other resources, are not judged.
    """

    sees_unset_keys: ClassVar[bool] = False

    def configure(self, configs: Mapping[str, str]) -> None:
        """Read the rules.

        Args:
            configs: The configuration file; only keys that start with `topic.rules.` are read.

        Raises:
            ValueError: A key is unknown, a value is invalid, rules contradict
                each other, or there is no rule over configs.
        """
        self._settings = TopicRuleSettings.read(configs, CONFIG_RULES)

    def validate(self, request: AlterConfigPolicy.RequestMetadata) -> None:
        """Return if the change meets all rules.

        Raises:
            PolicyViolationException: It breaks rules, which the message names.
        """
        resource = request.resource
        if resource.type == "TOPIC" and self._settings.judges(resource.name):
            _refuse(f"Topic {resource.name}", self._objections(request.configs))
        if resource.type == "GROUP":
            settings = self._settings
            refused = sorted(name for name in request.configs if not settings.allows_of_group(name))
            allowed = ", ".join(settings.allowed_of_groups)
            objections = _not_allowed(refused, "change", f"{allowed} ({GROUP_CONFIGS})")
            _refuse(f"Group {resource.name}", objections)

    def _objections(self, configs: Mapping[str, str | None]) -> Iterator[str]:
        settings = self._settings
        yield from _not_allowed_of_topics(settings, configs, "change")
        required_configs = {name: configs[name] for name in settings.required if name in configs}
        yield from _not_as_required(settings, required_configs, absent="asks to delete")
        yield from settings.retention_objections(configs)


def _refuse(what: str, objections: Iterable[str]) -> None:
    """Raise PolicyViolationException if there is an objection, with all of them."""
    text = "; it ".join(objections)
    if text:
        raise PolicyViolationException(f"{what} {text}")


def _partitions(bounds: Bounds, request: CreateTopicPolicy.RequestMetadata) -> Iterator[str]:
    count = request.num_partitions
    if count is None:
        count = len(request.replicas_assignments or ())
    limit = bounds.broken_by(count)
    if limit:
        yield f"asks for {_counted(count, 'partition')}; {limit}"


def _replicas(bounds: Bounds, request: CreateTopicPolicy.RequestMetadata) -> Iterator[str]:
    factor = request.replication_factor
    limit = None if factor is None else bounds.broken_by(factor)
    if factor is not None and limit:
        yield f"asks for {_counted(factor, 'replica')} of each partition; {limit}"
    assignments = request.replicas_assignments or {}
    partitions_by_limit: dict[str, list[int]] = {}
    for partition in sorted(assignments):
        limit = bounds.broken_by(len(assignments[partition]))
        if limit:
            partitions_by_limit.setdefault(limit, []).append(partition)
    for broken, partitions in partitions_by_limit.items():
        replicas = _counted(len(assignments[partitions[0]]), "replica")
        # Only the first is reported: a message is cut, and there may be thousands.
        others = f" ({len(partitions)} partitions break this rule)" if partitions[1:] else ""
        yield f"asks for {replicas} of partition {partitions[0]}{others}; {broken}"


def _not_allowed_of_topics(
    settings: TopicRuleSettings, configs: Iterable[str], verb: str
) -> Iterator[str]:
    refused = sorted(name for name in configs if not settings.allows(name))
    yield from _not_allowed(refused, verb, f"{', '.join(settings.allowed_configs)} ({ALLOWED})")


def _not_allowed(refused: Sequence[str], verb: str, allowed: str) -> Iterator[str]:
    if refused:
        yield f"asks to {verb} {', '.join(refused)}; only these are allowed: {allowed}"


def _not_as_required(
    settings: TopicRuleSettings, configs: Mapping[str, str | None], *, absent: str
) -> Iterator[str]:
    for name, value in configs.items():
        if settings.is_met(name, value):
            continue
        target = settings.required[name]
        what = f"{absent} {name}" if value is None else f"asks for {name}={value}"
        yield f"{what}; {name if target is None else f'{name}={target}'} is required ({REQUIRED})"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
