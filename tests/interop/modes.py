"""The ways to a broker that programs are tested with: directly, and through gateways in each mode."""

from collections.abc import Callable
from typing import Final

from tests.gateways import RunningGateway

DIRECT: Final = "direct"
NO_POLICY: Final = "unjudged"
MODES: Final = ("enforce", "mark", "quarantine", "observe")
DROPS: Final = "drop"
"""Not a mode: an interceptor drops what the policy of the modes refuses."""
JUDGED: Final = (*MODES, DROPS)
WAYS: Final = (DIRECT, NO_POLICY, *JUDGED)
KEEP: Final = (DIRECT, NO_POLICY, "mark", "observe")
"""The ways on which every record is stored."""
REMOVE: Final = ("quarantine", DROPS)
"""The ways on which bad records are not stored, although producers get success."""
REFUSE: Final = ("enforce", *REMOVE)
"""The ways on which bad records of internal topics are refused."""

USERS: Final = "orders"
"""The begin of the names of users' topics."""
REASONS: Final = {
    "enforce": "InvalidRecordException\\W+(field id of the value is missing|the value is not JSON)",
    **dict.fromkeys(REMOVE, r"InvalidRecordException.*penstock\.quarantine\.internal\.topics"),
    "transaction": r"InvalidRecordException.*no records of transactions aside.*the value is not JSON",
}
"""Patterns of the exceptions that programs show for a record that is refused, by the way."""

_INTERCEPTORS: Final = """
from penstock.policy import *

class WithId(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self):
        return {pattern!r}

    def process_record(self, key, value, topic, partition, headers):
        if value is not None and b'"id"' not in value:
            raise ProduceRequestInterceptorSkipRecordException()
        return ProduceRequestInterceptorResult(key, value)
"""
_POLICY: Final = {
    "policies": "ids",
    "policies.ids.type": "penstock.policies.Required",
    "policies.ids.fields": "id",
    "errors.deadletterqueue.topic.replication.factor": 1,
}
_DROPPING: Final = {"produce.request.interceptors": "policies.WithId"}

Start = Callable[..., RunningGateway]


def gateway_of_all_topics(start: Start, way: str) -> RunningGateway:
    """Return a gateway that judges all topics in one way: values must be JSON with an `id`."""
    if way == NO_POLICY:
        return start({})
    if way == DROPS:
        return start(_DROPPING, _INTERCEPTORS.format(pattern=".*"))
    return start({**_POLICY, "topics.*.penstock.policies": "ids", "penstock.mode": way})


def gateway_of_users_topics(start: Start, **settings: str) -> RunningGateway:
    """Return a gateway that judges `*orders-WAY-*` in each way, and no other topics.

    Args:
        start: Starts a gateway.
        settings: More of its settings.
    """
    topics = {f"topics.*{USERS}-{mode}-*.penstock.policies": "ids" for mode in MODES}
    modes = {f"topics.*{USERS}-{mode}-*.penstock.mode": mode for mode in MODES}
    dropped = _INTERCEPTORS.format(pattern=f"{USERS}-{DROPS}-")
    return start({**_POLICY, **topics, **modes, **_DROPPING, **settings}, dropped)
