"""The one error of this package."""


class LocalKafkaError(Exception):
    """The local Kafka cannot be installed or started; the text says what to do about it."""
