"""KIP-729: require a key."""

from penstock.policy import BrokerRecordValidator, InvalidRecordException


class KeyRequired(BrokerRecordValidator):
    """Refuses records without a key, or with an empty key."""

    def validate_record(self, topic_partition, key, value, headers):
        if not key:
            return InvalidRecordException(f"records of {topic_partition.topic} need a key")
        return None
