"""Tenants that share a topic: each writes only its own records (KIP-940, with the client).

    record.validation.policy.class.name=tenants.OwnTenant
    topics.shared-*.record.validation.policy=tenant

The value of `record.validation.policy` is the header that names the tenant.
"""

from penstock.policy import (
    ClientContext,
    InvalidRecordException,
    RecordIntrospectionHints,
    RecordProxy,
    RecordValidationPolicyWithContext,
    TopicMetadata,
)


class OwnTenant(RecordValidationPolicyWithContext):
    """`User:shop-7` writes records whose header says `shop-7`; who is not known writes none."""

    def get_hints(self) -> RecordIntrospectionHints:
        """Ask for headers only."""
        return RecordIntrospectionHints(True, 0, 0)

    def validate(self, topic: TopicMetadata, record: RecordProxy, context: ClientContext) -> None:
        if context.principal is None:
            raise InvalidRecordException(f"{topic.topic_id_partition.topic} needs a login")
        tenant = context.principal.removeprefix("User:").encode()
        named = [one.value for one in record.headers if one.key == topic.validation_policy]
        if named != [tenant]:
            raise InvalidRecordException(
                f"the header {topic.validation_policy} has to be the tenant that is logged in"
            )
