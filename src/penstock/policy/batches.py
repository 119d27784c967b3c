"""Policies over batches: KIP-686."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.policy.clients import ClientContext
    from penstock.policy.records import Record


class RecordsPolicy:
    """Accepts or refuses the records of a partition together (KIP-686).

    Each worker process has an instance for each topic. ``configure`` is called once before the
    first ``validate``, ``close`` once at the end. Calls never overlap. The topic level keys
    ``records.policy.class.name`` and ``records.policy.enabled=true`` enable it::

        class KeyRequired(RecordsPolicy):
            def validate(self, topic, partition, records):
                if any(not record.has_key for record in records):
                    raise PolicyViolationException(f"every record of {topic} needs a key")
    """

    def configure(self, configs: Mapping[str, str]) -> None:
        """Receive the whole configuration file, as text by key."""

    def validate(self, topic: str, partition: int, records: Iterable[Record]) -> None:
        """Return to accept the batch.

        Args:
            topic: The topic's name.
            partition: The partition's number.
            records: In the producer's order; can be iterated more than once.

        Raises:
            PolicyViolationException: To refuse the batch.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Release what ``configure`` acquired."""


if TYPE_CHECKING:
    # With a context, methods take an argument more than those that they override, which no type
    # checker accepts. So to type checkers, the class that is derived from has the others alone.

    class _RecordsPolicy:
        def configure(self, configs: Mapping[str, str]) -> None: ...

        def close(self) -> None: ...

else:
    _RecordsPolicy = RecordsPolicy


class RecordsPolicyWithContext(_RecordsPolicy):
    """A `RecordsPolicy` that also gets the client that sent the batch."""

    def validate(
        self, topic: str, partition: int, records: Iterable[Record], context: ClientContext
    ) -> None:
        """Return to accept the batch; raise ``PolicyViolationException`` to refuse it."""
        raise NotImplementedError
