"""KIP-686: allow each key only once in a batch."""

from penstock.policy import PolicyViolationException, RecordsPolicy


class NoDuplicates(RecordsPolicy):
    """Refuses a batch in which two records have the same key."""

    def validate(self, topic, partition, records):
        keys = [record.key for record in records if record.has_key]
        if len(set(keys)) != len(keys):
            raise PolicyViolationException(f"a batch for {topic} has the same key twice")
