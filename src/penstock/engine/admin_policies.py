"""Judges topics and their configs: the only place where the policies of KIP-108 and 133 are called.

Requests and contexts come as plain values, because they cross a pipe; the policy sees the
public types, which it cannot change.
"""

from __future__ import annotations

import inspect
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.engine.answers import returned_error
from penstock.engine.plans.loading import frames_of
from penstock.engine.verdict import ACCEPTED, Outcome, PolicyVerdict, cause_of, postponed, refused
from penstock.kafka.error_codes import POLICY_VIOLATION, UNKNOWN_SERVER_ERROR
from penstock.policy import (
    AlterConfigPolicy,
    ConfigResource,
    CreateTopicPolicy,
    PolicyViolationException,
    RequestContext,
    RetriableException,
    TopicDescription,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_CONTEXT: Final = "context"
"""The name of the parameter, where it has a default."""


class TopicCreation(NamedTuple):
    """A topic to be created; see `CreateTopicPolicy.RequestMetadata`."""

    topic: str
    num_partitions: int | None
    replication_factor: int | None
    replicas_assignments: Mapping[int, Sequence[int]] | None
    configs: Mapping[str, str]


class ConfigAlteration(NamedTuple):
    """Configs to be altered; see `AlterConfigPolicy.RequestMetadata`.

    Attributes:
        configs: The new values; None for a deleted key.
        not_set: The deleted keys that are known not to be set.
    """

    resource_type: str
    resource_name: str
    configs: Mapping[str, str | None]
    not_set: tuple[str, ...] = ()


class AdminContext(NamedTuple):
    """The client of the request, and the topics' partitions and replicas by name."""

    principal: str | None = None
    client_id: str | None = None
    topics: Mapping[str, tuple[int, int]] = MappingProxyType({})


class AdminPolicy:
    """One policy of KIP-108 or KIP-133, ready to judge."""

    def __init__(self, name: str, policy: Any) -> None:
        """Take a configured policy.

        Args:
            name: Its class, for verdicts.
        """
        self._name = name
        self._validate = policy.validate
        self._sees_unset_keys = getattr(policy, "sees_unset_keys", True) is not False
        self.needs_context = _takes_context(policy.validate)

    def judge_creation(self, topic: TopicCreation, context: AdminContext) -> PolicyVerdict:
        """Judge a topic to be created."""
        assignments = topic.replicas_assignments
        request = CreateTopicPolicy.RequestMetadata(
            topic.topic,
            topic.num_partitions,
            topic.replication_factor,
            None
            if assignments is None
            else MappingProxyType({int(n): tuple(replicas) for n, replicas in assignments.items()}),
            MappingProxyType(dict(topic.configs)),
        )
        return self._judge(request, context)

    def judge_alteration(self, altered: ConfigAlteration, context: AdminContext) -> PolicyVerdict:
        """Judge configs to be altered."""
        left_out = () if self._sees_unset_keys else altered.not_set
        configs = {name: value for name, value in altered.configs.items() if name not in left_out}
        request = AlterConfigPolicy.RequestMetadata(
            ConfigResource(altered.resource_type, altered.resource_name), MappingProxyType(configs)
        )
        return self._judge(request, context)

    def _judge(self, request: Any, context: AdminContext) -> PolicyVerdict:
        arguments = [request]
        if self.needs_context:
            topics = {name: TopicDescription(*counts) for name, counts in context.topics.items()}
            arguments.append(
                RequestContext(context.principal, context.client_id, MappingProxyType(topics))
            )
        try:
            returned = self._validate(*arguments)
            if returned is not None:
                raise returned_error(returned, PolicyViolationException)
        except PolicyViolationException as violation:
            return refused(POLICY_VIOLATION, violation.message, self._name)
        except RetriableException as error:
            return postponed(self._name, error)
        except BaseException as error:
            return self._failure(error)
        return ACCEPTED

    def _failure(self, error: BaseException) -> PolicyVerdict:
        # Without a text, as from a broker: other exceptions of a policy are not for clients.
        return PolicyVerdict(
            outcome=Outcome.FAILED,
            code=UNKNOWN_SERVER_ERROR,
            policy=self._name,
            detail=f"{type(error).__name__} at {frames_of(error)}",
            cause=cause_of(error),
        )


def signature_error(validate: Any) -> str | None:
    """Return why a `validate` method cannot be called as it will be; None if it can."""
    why = "validate() must take a request, or a request and a context"
    try:
        signature = inspect.signature(validate)
        signature.bind(*[None] * (2 if _takes_context(validate) else 1))
    except TypeError:
        return why
    except ValueError:
        return None
    parameter = signature.parameters.get(_CONTEXT)
    return why if parameter is not None and parameter.kind is parameter.KEYWORD_ONLY else None


def _takes_context(validate: Any) -> bool:
    """Return whether a `validate` method has a second parameter for the context.

    It has to be required, or to have the name: another parameter with a default is the method's
    own.
    """
    try:
        parameters = inspect.signature(validate).parameters.values()
    except (TypeError, ValueError):
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    others = [parameter for parameter in parameters if parameter.kind in positional][1:]
    return any(
        parameter.default is parameter.empty or parameter.name == _CONTEXT
        for parameter in others[:1]
    )
