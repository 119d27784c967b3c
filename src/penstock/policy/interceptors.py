"""Records mapped, dropped or observed before they are judged: KIP-905."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Sequence

    from penstock.policy.clients import ClientContext
    from penstock.policy.columns import BatchProxy
    from penstock.policy.records import Header


class ProduceRequestInterceptorResult(NamedTuple):
    """The key and value to go on with (KIP-905). Headers and timestamp stay as they are."""

    key: bytes | None
    value: bytes | None


class ProduceRequestInterceptor:
    """Maps, drops or observes records on their way in (KIP-905).

    Instances live in the worker processes; ``configure`` is called once, without arguments.
    A class may process columns instead of records, or besides: see ``process_batch``.

    Attributes:
        drops_records: Whether it may drop records. A class that never does may say False: the
            gateway then needs no state that all gateways share. It fails if it drops one all the
            same.
    """

    drops_records: ClassVar[bool] = True

    def configure(self) -> None:
        """Prepare; the proposal gives no arguments."""

    def interceptor_topic_pattern(self) -> re.Pattern[str] | str:
        """The topics this interceptor is for: found anywhere in the name (``re.search``)."""
        raise NotImplementedError

    def prepare_batch(self, topic: str, partition: int, batch: BatchProxy) -> None:
        """Prepare to process some records: a place for look-ups, such as in a registry.

        Optional. Called once, right before ``process_record`` or ``process_batch`` is called with
        the same records. The deadline of interceptors
        (``produce.request.interceptors.timeout.ms``) does not run meanwhile, but one of its own
        (``policy.preparation.timeout.ms``). On Spark it is called at the same place, without one.

        Args:
            topic: The topic's name.
            partition: The partition's number.
            batch: The records that no interceptor before this one dropped, as columns.

        Raises:
            RetriableException: What is looked up does not answer: the client tries again.
            Exception: Anything else is a failure: nothing of the batch passes.
        """

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

    def process_batch(
        self, topic: str, partition: int, batch: BatchProxy
    ) -> Iterable[tuple[int, ProduceRequestInterceptorResult | Exception]]:
        """Return what becomes of the records that do not stay as they are.

        Optional: where a class has it, it is called in place of ``process_record``, which need
        not be there then; a subclass that overrides ``process_record`` alone is asked record
        by record. It does to each record what ``process_record`` would do, whatever other
        records come with it.

        Args:
            topic: The topic's name.
            partition: The partition's number.
            batch: The records that no interceptor before this one dropped, as columns.

        Returns:
            Position, from 0, and what ``process_record`` would return or raise for it: a
            result, a ``ProduceRequestInterceptorSkipRecordException`` to drop the record, any
            other exception where it failed. In any order, each position once; records that
            are not named stay as they are, so nothing is returned for a batch that does. May
            be a generator. A position that is not in the batch or comes twice, and None in
            place of an iterable are failures of the batch.

        Raises:
            Exception: Anything that is raised is a failure: nothing of the batch is stored. A
                skip exception, too: it does not say which record it is about.
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
        """Prepare to process some records."""

    def process_record(
        self,
        key: bytes | None,
        value: bytes | None,
        topic: str,
        partition: int,
        headers: Sequence[Header],
        context: ClientContext,
    ) -> ProduceRequestInterceptorResult:
        """Return the key and value to go on with."""
        raise NotImplementedError

    def process_batch(
        self, topic: str, partition: int, batch: BatchProxy, context: ClientContext
    ) -> Iterable[tuple[int, ProduceRequestInterceptorResult | Exception]]:
        """Return what becomes of the records that do not stay as they are."""
        raise NotImplementedError
