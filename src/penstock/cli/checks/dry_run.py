"""A configuration loaded as the gateway would load it, without a client or a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.cli.checks.repeated_interceptors import unrepeatable
from penstock.engine.plans.plan import Plan
from penstock.engine.workers.supervisor import Supervisor
from penstock.gateway.admin.topic_policies import TopicPolicies
from penstock.gateway.listening.client_listeners import check_free
from penstock.gateway.listening.endpoints import endpoints_of
from penstock.gateway.observing.audit_trail.keys import check_audit_keys
from penstock.gateway.observing.console.keys import check_console_peers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.configuration import Configuration
    from penstock.engine.workers.supervisor import Patterns


class DryRun(NamedTuple):
    """The properties of loaded policies.

    Attributes:
        patterns: The topics of the interceptors.
        unrepeatable: The interceptors whose results on the same records differ.
    """

    patterns: Patterns
    unrepeatable: Sequence[str] = ()


async def dry_run(configuration: Configuration, *, is_to_serve: bool = False) -> DryRun:
    """Load the policies in workers that end again, and try the interceptors on a sample.

    Args:
        configuration: Names them.
        is_to_serve: Whether a gateway starts here afterwards, so that its ports have to be free.

    Raises:
        ConfigurationError: Keys do not fit together, a file they name is not usable, or a policy
            cannot be loaded or configured.
    """
    endpoints_of(configuration)
    if is_to_serve:
        check_free(configuration)
    check_audit_keys(configuration)
    check_console_peers(configuration)
    topics = TopicPolicies(configuration, tries_classes=False)
    await topics.start()
    await topics.close()
    plan = Plan(configuration.policies)
    if not any(plan.names.values()):
        return DryRun([])
    pool = Supervisor(configuration, size=1, spare=False)
    await pool.start()
    try:
        named = plan.named_policies
        unrepeatable_chains = await unrepeatable(pool, plan.globs, named) if pool.patterns else []
    finally:
        await pool.close()
    return DryRun(pool.patterns, unrepeatable_chains)
