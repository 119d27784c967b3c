"""KIP-940 with the client: tenants share a topic, and each writes only its own records.

    record.validation.policy.class.name=tenants.OwnTenant
    topics.shared-*.record.validation.policy=tenant

`record.validation.policy` is the name of the header with the tenant.
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
    """`User:shop-7` writes only records whose header is `shop-7`; unknown clients write none."""

    def get_hints(self) -> RecordIntrospectionHints:
        """Get only the headers."""
        return RecordIntrospectionHints(True, 0, 0)

    def validate(self, topic: TopicMetadata, record: RecordProxy, context: ClientContext) -> None:
        if context.principal is None:
            raise InvalidRecordException(f"{topic.topic_id_partition.topic} needs a login")
        tenant = context.principal.removeprefix("User:").encode()
        name = topic.validation_policy
        if [header.value for header in record.headers if header.key == name] != [tenant]:
            raise InvalidRecordException(f"the header {name} must name the producer's login")
