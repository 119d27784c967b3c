"""Records mapped, dropped or observed before they are judged: KIP-905."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import re
    from collections.abc import Sequence

    from penstock.policy.records import Header


class ProduceRequestInterceptorResult(NamedTuple):
    """The key and value to go on with (KIP-905). Headers and timestamp stay as they are."""

    key: bytes | None
    value: bytes | None


class ProduceRequestInterceptor:
    """Maps, drops or observes records on their way in (KIP-905).

    Instances live in the worker processes; ``configure`` is called once, without arguments.
    """

    def configure(self) -> None:
        """Prepare; the proposal gives no arguments."""

    def interceptor_topic_pattern(self) -> re.Pattern[str] | str:
        """The topics this interceptor is for: found anywhere in the name (``re.search``)."""
        raise NotImplementedError

    def process_record(
        self,
        key: bytes | None,
        value: bytes | None,
        topic: str,
        partition: int,
        headers: Sequence[Header],
    ) -> ProduceRequestInterceptorResult:
        """Return the key and value to go on with.

        Raises:
            ProduceRequestInterceptorSkipRecordException: To drop the record.
        """
        raise NotImplementedError
