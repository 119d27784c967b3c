"""Exceptions with which policies speak. Each takes one message, which the producer prints."""


class PolicyException(Exception):  # noqa: N818 - the subclasses carry Kafka's names
    """Common shape of the exceptions below; not raised itself.

    Args:
        message: The reason, for the person who runs the producer. It is sent to the
            client, cut at 1 KiB. Whatever a policy puts here leaves the gateway, so
            keep record contents out unless clients may see them.
    """

    def __init__(self, message: str | None = None) -> None:
        super().__init__(*(() if message is None else (message,)))

    @property
    def message(self) -> str | None:
        """The reason, or None where the policy gave none."""
        return str(self.args[0]) if self.args else None


class PolicyViolationException(PolicyException):
    """The topic (KIP-108, KIP-133) or the batch (KIP-686) breaks the policy.

    Reaches the client as error 44, POLICY_VIOLATION, which no client retries.
    Source: ``org.apache.kafka.common.errors.PolicyViolationException``.
    """


class InvalidRecordException(PolicyException):
    """The record breaks the policy (KIP-729: returned, KIP-940: raised).

    Reaches the client as error 87, INVALID_RECORD, with the position of the record in
    its batch. Source: ``org.apache.kafka.common.InvalidRecordException``.
    """


class ProduceRequestInterceptorSkipRecordException(PolicyException):
    """Raised by a ``ProduceRequestInterceptor`` to drop the record (KIP-905)."""


class RetriableException(PolicyException):
    """The policy can neither agree nor object now: what it needs does not answer.

    For a registry, a database or a file that is away for a moment. Any policy may raise it about
    records, a batch, a topic or configs; a `BrokerRecordValidator` may also return it, and
    ``process_batch`` of a `ProduceRequestInterceptor` give it as the result for a record. The
    client gets error 7, REQUEST_TIMED_OUT, with the message, and sends the same again; nothing of
    the partition's batch is stored, and nothing that its producer sent after it. It is no
    objection to a record: on Spark the task fails, and is tried again as Spark is configured.
    Source: ``org.apache.kafka.common.errors.RetriableException``.
    """


class UndecidableException(RetriableException):
    """The policy cannot judge these records until somebody changes what it judges by.

    For a schema or a rule that cannot be used: neither the records nor the moment is to blame. A
    producer is answered as after any `RetriableException`, so its records are not lost to a final
    error while somebody sets it right. Stored records are not sent again: asking again about them
    is of no use, so their outcome is ``failed``, and the job goes on with the others. Where a
    batch has other records to refuse, return those: that is final, and says more.
    """
