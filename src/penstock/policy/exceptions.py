"""Exceptions with which policies refuse. Each takes one message, which the producer prints."""


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
    """Not now: what a policy needs to judge is away, a schema registry for example.

    It is neither an objection nor an agreement. Source:
    ``org.apache.kafka.common.errors.RetriableException``.
    """
