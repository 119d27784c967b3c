"""Interceptors, which change, drop or observe records before they are judged: KIP-905."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Sequence

    from penstock.policy.clients import ClientContext
    from penstock.policy.columns import BatchProxy
    from penstock.policy.records import Header


class ProduceRequestInterceptorResult(NamedTuple):
    """The new key and value of a record (KIP-905). Headers and timestamp do not change."""

    key: bytes | None
    value: bytes | None


class ProduceRequestInterceptor:
    """Changes, drops or observes records (KIP-905).

    Each worker process has an instance. ``configure`` is called once, without arguments. A class
    can also process columns, in addition to records or instead: see ``process_batch``.

    Attributes:
        drops_records: Whether it may drop records. With False, gateways need no shared state, and
            a dropped record is a failure.
    """

    drops_records: ClassVar[bool] = True

    def configure(self) -> None:
        """Prepare the instance."""

    def interceptor_topic_pattern(self) -> re.Pattern[str] | str:
        """Return a pattern that is found in the names of its topics (``re.search``)."""
        raise NotImplementedError

    def prepare_batch(self, topic: str, partition: int, batch: BatchProxy) -> None:
        """Prepare to process records, for example by look-ups in a registry.

        Optional. It is called once, right before ``process_record`` or ``process_batch`` is called
        with the same records. Its deadline is ``policy.preparation.timeout.ms``, during which
        ``produce.request.interceptors.timeout.ms`` does not run. On Spark it has no deadline.

        Args:
            topic: The topic's name.
            partition: The partition's number.
            batch: The records that no interceptor before this interceptor dropped, as columns.

        Raises:
            RetriableException: The look-up got no answer: the client retries.
            Exception: Any other exception is a failure: nothing of the batch is stored.
        """

    def process_record(
        self,
        key: bytes | None,
        value: bytes | None,
        topic: str,
        partition: int,
        headers: Sequence[Header],
    ) -> ProduceRequestInterceptorResult:
        """Return the new key and value.

        Raises:
            ProduceRequestInterceptorSkipRecordException: To drop the record.
        """
        raise NotImplementedError

    def process_batch(
        self, topic: str, partition: int, batch: BatchProxy
    ) -> Iterable[tuple[int, ProduceRequestInterceptorResult | Exception]]:
        """Return the results for the records that change or are dropped.

        Optional. If a class has it, it is called instead of ``process_record``, which is then not
        needed. If a subclass overrides only ``process_record``, that is called. The result for a
        record must be that of ``process_record``, and not depend on the other records.

        Args:
            topic: The topic's name.
            partition: The partition's number.
            batch: The records that no interceptor before this interceptor dropped, as columns.

        Returns:
            Pairs of a position, from 0, and what ``process_record`` would return or raise for it:
            a result, a ``ProduceRequestInterceptorSkipRecordException`` to drop the record, or
            another exception for a failure. In any order, each position once. Other records do not
            change. It can be a generator. An unknown or repeated position, and None instead of an
            iterable, are failures of the batch.

        Raises:
            Exception: Any exception is a failure, also a skip exception, because it names no
                record. Nothing of the batch is stored.
        """
        raise NotImplementedError


if TYPE_CHECKING:
    # With a context, methods take an argument more than those that they override, which no type
    # checker accepts. So to type checkers, the class that is derived from has the others alone.

    class _Interceptor:
        drops_records: ClassVar[bool] = True

        def configure(self) -> None: ...

        def interceptor_topic_pattern(self) -> re.Pattern[str] | str:
            raise NotImplementedError

else:
    _Interceptor = ProduceRequestInterceptor


class ProduceRequestInterceptorWithContext(_Interceptor):
    """A `ProduceRequestInterceptor` that also gets the client that sent the records."""

    def prepare_batch(
        self, topic: str, partition: int, batch: BatchProxy, context: ClientContext
    ) -> None:
        """Prepare to process records."""

    def process_record(
        self,
        key: bytes | None,
        value: bytes | None,
        topic: str,
        partition: int,
        headers: Sequence[Header],
        context: ClientContext,
    ) -> ProduceRequestInterceptorResult:
        """Return the new key and value."""
        raise NotImplementedError

    def process_batch(
        self, topic: str, partition: int, batch: BatchProxy, context: ClientContext
    ) -> Iterable[tuple[int, ProduceRequestInterceptorResult | Exception]]:
        """Return the results for the records that change or are dropped."""
        raise NotImplementedError
