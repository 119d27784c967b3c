"""The public interfaces of policies.

A policy is a class. Derive from the interface and override its methods (or write a class
with the same methods), put the module next to the configuration file, and name the class
in the file. ``docs/policies.md`` has an example of each. ``penstock.policy.testing`` judges records
in a unit test, without a cluster.

| proposal | interface                   | judges                | refuses by                     |
|----------|-----------------------------|-----------------------|--------------------------------|
| KIP-108  | `CreateTopicPolicy`         | new topics            | `PolicyViolationException`     |
| KIP-133  | `AlterConfigPolicy`         | config changes        | `PolicyViolationException`     |
| KIP-686  | `RecordsPolicy`             | batches of one topic  | `PolicyViolationException`     |
| KIP-729  | `BrokerRecordValidator`     | records of all topics | an `InvalidRecordException`     |
| KIP-905  | `ProduceRequestInterceptor` | maps or drops records | the skip exception             |
| KIP-940  | `RecordValidationPolicy`    | records of certain topics | `InvalidRecordException`   |

Each can raise a `RetriableException` if it cannot decide now: the client retries.

The last three can judge a batch at a time, as columns (`BatchProxy`): `validate_batch` and
`process_batch`.

A method over records with a parameter ``context`` gets the client that sent them
(`ClientContext`). For topics there are classes ``...WithContext``. `count_event` counts events in
the gateway's metrics. `share_value` shares a value with the policies in other workers.
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
