"""Judges topics and their configs: the one place where the policies of KIP-108 and 133 are called.

Requests and contexts come as plain values, because they cross a pipe; the policy sees the
public types, which it cannot change.
"""

from __future__ import annotations

import inspect
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.engine.loading import frames_of
from penstock.engine.verdict import ACCEPTED, Outcome, Verdict, cause_of, refused
from penstock.error_codes import POLICY_VIOLATION, UNKNOWN_SERVER_ERROR
from penstock.policy import (
    AlterConfigPolicy,
    ConfigResource,
    CreateTopicPolicy,
    PolicyViolationException,
    RequestContext,
    TopicDescription,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Creation(NamedTuple):
    """A topic that is asked for; see `CreateTopicPolicy.RequestMetadata`."""

    topic: str
    num_partitions: int | None
    replication_factor: int | None
    replicas_assignments: Mapping[int, Sequence[int]] | None
    configs: Mapping[str, str]


class Alteration(NamedTuple):
    """Configs that are to be altered; see `AlterConfigPolicy.RequestMetadata`."""

    resource_type: str
    resource_name: str
    configs: Mapping[str, str | None]


class Asking(NamedTuple):
    """Who asks, and what topics there are: partitions and replicas by name."""

    principal: str | None = None
    client_id: str | None = None
    topics: Mapping[str, tuple[int, int]] = MappingProxyType({})


class TopicJudge:
    """One policy of KIP-108 or KIP-133, ready to judge."""

    def __init__(self, name: str, policy: Any) -> None:
        """Take a configured policy.

        Args:
            name: Its class, for verdicts.
            policy: The instance.
        """
        self._name = name
        self._validate = policy.validate
        self.wants_context = _takes_context(policy.validate)

    def creation(self, asked: Creation, asking: Asking) -> Verdict:
        """Judge a topic that is asked for."""
        assignments = asked.replicas_assignments
        request = CreateTopicPolicy.RequestMetadata(
            asked.topic,
            asked.num_partitions,
            asked.replication_factor,
            None
            if assignments is None
            else MappingProxyType({int(n): tuple(of) for n, of in assignments.items()}),
            MappingProxyType(dict(asked.configs)),
        )
        return self._judge(request, asking)

    def alteration(self, asked: Alteration, asking: Asking) -> Verdict:
        """Judge configs that are to be altered."""
        request = AlterConfigPolicy.RequestMetadata(
            ConfigResource(asked.resource_type, asked.resource_name),
            MappingProxyType(dict(asked.configs)),
        )
        return self._judge(request, asking)

    def _judge(self, request: Any, asking: Asking) -> Verdict:
        arguments = [request]
        if self.wants_context:
            topics = {name: TopicDescription(*counts) for name, counts in asking.topics.items()}
            context = RequestContext(asking.principal, asking.client_id, MappingProxyType(topics))
            arguments.append(context)
        try:
            self._validate(*arguments)
        except PolicyViolationException as violation:
            return refused(POLICY_VIOLATION, violation.message, self._name)
        except BaseException as error:
            return self._failure(error)
        return ACCEPTED

    def _failure(self, error: BaseException) -> Verdict:
        # Without a text, as from a broker: what a policy raises otherwise is not for clients.
        return Verdict(
            outcome=Outcome.FAILED,
            code=UNKNOWN_SERVER_ERROR,
            policy=self._name,
            detail=f"{type(error).__name__} at {frames_of(error)}",
            cause=cause_of(error),
        )


def cannot_be_asked(validate: Any) -> str | None:
    """Say why a `validate` method does not fit what it will be asked; None if it does."""
    try:
        inspect.signature(validate).bind(*[None] * (2 if _takes_context(validate) else 1))
    except TypeError:
        return "validate() must take a request, or a request and a context"
    except ValueError:
        pass
    return None


def _takes_context(validate: Any) -> bool:
    """Tell whether a `validate` method wants a second argument."""
    try:
        parameters = inspect.signature(validate).parameters.values()
    except (TypeError, ValueError):
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    required = [one for one in parameters if one.kind in positional and one.default is one.empty]
    return len(required) > 1
