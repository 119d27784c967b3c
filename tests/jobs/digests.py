"""The digest of a topic's plan on the wire."""

from penstock.engine.plans.plan import Plan
from penstock.engine.plans.plan_digest import PlanDigests
from penstock.jobs.plan import policies_of


def of_wire(file, topic):
    """The digest that a gateway has, and that `penstock check` prints."""
    configuration = policies_of(file, needs_cluster=True)  # as a gateway, but in this process
    plan = Plan(configuration)
    plan.set_digests(PlanDigests(configuration))
    return plan.for_topic(topic).digest
