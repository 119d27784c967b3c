"""Exceptions of policies. Each takes a message, which the client gets."""


class PolicyException(Exception):  # noqa: N818 - the subclasses carry Kafka's names
    """The base of the exceptions below. Policies do not raise it.

    Args:
        message: The reason. It is sent to the client, cut at 1 KiB, so leave record contents out
            unless clients may see them.
    """

    def __init__(self, message: str | None = None) -> None:
        super().__init__(*(() if message is None else (message,)))

    @property
    def message(self) -> str | None:
        """The reason, or None."""
        return str(self.args[0]) if self.args else None


class PolicyViolationException(PolicyException):
    """The policy refuses the topic (KIP-108, KIP-133) or the batch (KIP-686).

    The client gets error 44, POLICY_VIOLATION, which no client retries.
    Source: ``org.apache.kafka.common.errors.PolicyViolationException``.
    """


class InvalidRecordException(PolicyException):
    """The policy refuses the record (KIP-729: returned, KIP-940: raised).

    The client gets error 87, INVALID_RECORD, with the position of the record in its batch.
    Source: ``org.apache.kafka.common.InvalidRecordException``.
    """


class ProduceRequestInterceptorSkipRecordException(PolicyException):
    """A ``ProduceRequestInterceptor`` drops the record (KIP-905)."""


class RetriableException(PolicyException):
    """The policy cannot decide now, for example because a registry or a database does not answer.

    Any policy can raise it about records, a batch, a topic or configs. A `BrokerRecordValidator`
    can also return it, and ``process_batch`` of a `ProduceRequestInterceptor` can return it as the
    result for a record. The client gets error 7, REQUEST_TIMED_OUT, with the message, and retries.
    Nothing of the partition's batch is stored, and no later batch of its producer. On Spark the
    task fails, and is retried as Spark is configured.
    Source: ``org.apache.kafka.common.errors.RetriableException``.
    """


class UndecidableException(RetriableException):
    """The policy cannot judge these records until its schema or rule is repaired.

    A producer gets the same as for any `RetriableException`, so its records are not lost while the
    schema is repaired. Stored records get the outcome ``failed``, and the job continues. If a batch
    also has records to refuse, return those instead: that is final, and says more.
    """
