"""Which names and configs dead letter topics have.

For gateways and for `penstock check`: it contacts nothing, and imports no Kafka client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.configuration.topic_keys import DEAD_LETTER_TOPIC
from penstock.engine.modes.quarantine import LETTERS_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.engine.plans.plan import Plan

MAX_MESSAGE_BYTES: Final = "max.message.bytes"
_HEADERS_BYTES: Final = 64 * 1024
"""More than the headers of a letter take."""


def name_obstacle(
    plan: Plan, own_topics: Mapping[str, str], source: str, name: str, own: Mapping[str, str]
) -> str:
    """Return why dead letters of a topic may not go to another; empty if they may.

    Args:
        plan: The policies of topics.
        own_topics: `Configuration.own_topics`.
        source: The topic of the bad records.
        name: Its dead letter topic.
        own: The topic level keys that were set on the dead letter topic itself.
    """
    for key, topic in own_topics.items():
        if topic == name:
            return (
                f"{DEAD_LETTER_TOPIC}: the dead letter topic of {source} would be {name}, the "
                f"topic of {key}; name another topic"
            )
    return plan.dead_letter_obstacle(source, name, own)


def configs_of_letters(max_message_bytes: int) -> dict[str, str]:
    """Return the configs of a dead letter topic whose source has this `max.message.bytes`."""
    # Many letters are in one batch, however large the batches of the source may be.
    limit = max(max_message_bytes, LETTERS_BYTES) + _HEADERS_BYTES
    return {MAX_MESSAGE_BYTES: str(min(limit, 2**31 - 1))}
