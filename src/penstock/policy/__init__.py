"""The public interfaces: write a policy against these names.

A policy is a class. Derive from the interface and override its methods (or write a class
with the same methods), put the module beside the configuration file, and name the class
there. ``docs/policies.md`` shows each interface at work; ``penstock.policy.testing`` judges
records in a unit test, without a cluster.

| proposal | interface                   | judges                | says no by                     |
|----------|-----------------------------|-----------------------|--------------------------------|
| KIP-108  | `CreateTopicPolicy`         | topics to be created  | `PolicyViolationException`     |
| KIP-133  | `AlterConfigPolicy`         | configs to be altered | `PolicyViolationException`     |
| KIP-686  | `RecordsPolicy`             | batches of one topic  | `PolicyViolationException`     |
| KIP-729  | `BrokerRecordValidator`     | records of all topics | an `InvalidRecordException`     |
| KIP-905  | `ProduceRequestInterceptor` | maps or drops records | the skip exception             |
| KIP-940  | `RecordValidationPolicy`    | records of some topics | `InvalidRecordException`      |

Each of them says "not now" by a `RetriableException`: the client tries again.

The last three may judge a batch at a time, as columns (`BatchProxy`): `validate_batch` and
`process_batch`.

The four over records learn who sent them by a parameter ``context`` (`ClientContext`); those over
topics have classes ``...WithContext`` for it. What any of them counts (`count_event`) is one of
the gateway's metrics. What one worker's policy has learned it may share with the others
(`share_value`).
"""

from penstock.policy.batches import RecordsPolicy, RecordsPolicyWithContext
from penstock.policy.clients import ClientContext
from penstock.policy.columns import BatchProxy
from penstock.policy.config_keys import ConfigKey
from penstock.policy.counting import count_event
from penstock.policy.exceptions import (
    InvalidRecordException,
    PolicyViolationException,
    ProduceRequestInterceptorSkipRecordException,
    RetriableException,
    UndecidableException,
)
from penstock.policy.interceptors import (
    ProduceRequestInterceptor,
    ProduceRequestInterceptorResult,
    ProduceRequestInterceptorWithContext,
)
from penstock.policy.records import (
    Header,
    HeaderProxy,
    Record,
    RecordProxy,
    TopicIdPartition,
    TopicPartition,
)
from penstock.policy.sharing import share_value, shared_value
from penstock.policy.topic_configs import TopicConfig
from penstock.policy.topics import (
    AlterConfigPolicy,
    AlterConfigPolicyWithContext,
    ConfigResource,
    CreateTopicPolicy,
    CreateTopicPolicyWithContext,
    RequestContext,
    TopicDescription,
)
from penstock.policy.validators import (
    ALL,
    BrokerRecordValidator,
    BrokerRecordValidatorWithContext,
    RecordIntrospectionHints,
    RecordValidationPolicy,
    RecordValidationPolicyWithContext,
    TopicMetadata,
)

__all__ = [
    "ALL",
    "AlterConfigPolicy",
    "AlterConfigPolicyWithContext",
    "BatchProxy",
    "BrokerRecordValidator",
    "BrokerRecordValidatorWithContext",
    "ClientContext",
    "ConfigKey",
    "ConfigResource",
    "CreateTopicPolicy",
    "CreateTopicPolicyWithContext",
    "Header",
    "HeaderProxy",
    "InvalidRecordException",
    "PolicyViolationException",
    "ProduceRequestInterceptor",
    "ProduceRequestInterceptorResult",
    "ProduceRequestInterceptorSkipRecordException",
    "ProduceRequestInterceptorWithContext",
    "Record",
    "RecordIntrospectionHints",
    "RecordProxy",
    "RecordValidationPolicy",
    "RecordValidationPolicyWithContext",
    "RecordsPolicy",
    "RecordsPolicyWithContext",
    "RequestContext",
    "RetriableException",
    "TopicConfig",
    "TopicDescription",
    "TopicIdPartition",
    "TopicMetadata",
    "TopicPartition",
    "UndecidableException",
    "count_event",
    "share_value",
    "shared_value",
]
