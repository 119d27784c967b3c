"""A configuration loaded as the gateway would load it, without a client or a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.plan import Plan
from penstock.engine.workers.supervisor import Supervisor
from penstock.gateway.admin.topic_policies import TopicPolicies
from penstock.gateway.audit_trail.audit_keys import check_audit_keys
from penstock.gateway.endpoints import endpoints_of

if TYPE_CHECKING:
    from penstock.configuration import Configuration
    from penstock.engine.workers.supervisor import Patterns


async def dry_run(configuration: Configuration) -> Patterns:
    """Load the policies in workers that end again; return the interceptors' topic patterns.

    Raises:
        ConfigurationError: Keys do not fit together, a file they name is not usable, or a policy
            cannot be loaded or configured.
    """
    endpoints_of(configuration)
    check_audit_keys(configuration)
    topics = TopicPolicies(configuration, tries_classes=False)
    await topics.start()
    await topics.close()
    if not any(Plan(configuration.policies).names.values()):
        return []
    pool = Supervisor(configuration, size=1, spare=False)
    await pool.start()
    await pool.close()
    return pool.patterns
