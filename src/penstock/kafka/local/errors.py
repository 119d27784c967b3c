"""The one error of this package."""

from penstock.errors import UnavailableError


class LocalKafkaError(UnavailableError):
    """The local Kafka cannot be installed or started; the text explains what to do."""
