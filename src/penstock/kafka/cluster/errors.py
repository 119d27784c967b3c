"""The errors of requests to the cluster for the Spark commands."""

from __future__ import annotations

from penstock.errors import UnavailableError


class ClusterError(UnavailableError):
    """The cluster does not respond, or responds with an error. The message is for users."""


class NotDescribedError(ClusterError):
    """The principal may not describe a topic. To try again does not help."""

    def __init__(self, topic: str) -> None:
        """Take the name."""
        super().__init__(
            f"topic {topic}: TOPIC_AUTHORIZATION_FAILED (29): allow the principal of upstream.* to "
            "describe it, even if it was deleted, and start again"
        )
        self.topic = topic
