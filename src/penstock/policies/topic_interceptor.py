"""The setting that all ready-made interceptors have."""

from __future__ import annotations

from typing import ClassVar

from penstock.policy import ProduceRequestInterceptor


class TopicInterceptor(ProduceRequestInterceptor):
    """An interceptor for the topics in whose names `topics` is found (`re.search`)."""

    topics: ClassVar[str]

    def configure(self) -> None:
        """Read the settings.

        Raises:
            ValueError: A setting is missing or is invalid.
        """
        if not getattr(self, "topics", None):
            raise ValueError(f"{type(self).__name__}.topics must be set")

    def interceptor_topic_pattern(self) -> str:
        """Return `topics`."""
        return self.topics
