"""Names and ids of topics, as brokers allow them (org.apache.kafka.common.internals.Topic)."""

from __future__ import annotations

import re
from typing import Final
from uuid import UUID

NO_ID: Final = UUID(int=0)
"""The id of a topic where none is known."""

_TOPIC: Final = re.compile(r"(?!\.\.?$)[a-zA-Z0-9._-]{1,249}")


def is_topic_name(name: str) -> bool:
    """Whether there can be a topic of this name."""
    return _TOPIC.fullmatch(name) is not None


def is_another(topic_id: UUID, current_id: UUID) -> bool:
    """Whether a topic was deleted and created again, as far as its ids are known."""
    return NO_ID not in {topic_id, current_id} and topic_id != current_id
