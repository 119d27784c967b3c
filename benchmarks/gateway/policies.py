"""The policies that are measured."""

from penstock.policy import RecordValidationPolicy


class Trivial(RecordValidationPolicy):
    """Looks at every value and lets it pass: what judging itself costs."""

    def validate(self, topic, record):
        if record.value is None:
            return
