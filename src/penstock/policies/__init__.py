"""Built-in policies, over the public interfaces: they import `penstock.policy` and the extension.

That proves that the interfaces are enough for yours. Begin with `required.py` and `max_bytes.py`.

Policies over records (KIP-940): `JsonSchema`, `SchemaPolicy`, `Rules`, `DataContract`, `Required`,
`MaxBytes`, `HeaderRequired`, `KeyRequired`. Interceptors of records (KIP-905): `RedactJsonFields`,
`HashJsonFields`, `RedactTagged`, `DropRecords`. Rules for topics (KIP-108) and their configs
(KIP-133): `TopicRules`, `ConfigRules`, whose settings are keys `topic.rules.*` of the file.

As named policies, interceptors read their settings from `policies.<name>.<key>`. By class, they
have class attributes: derive a class in a module next to the configuration file, and name it in
the file.

    from penstock.policies import HashJsonFields

    class HashCustomers(HashJsonFields):
        topics = "^customers"
        fields = ("email", "address.street", "cards[*].number")
        key_from = "file:/run/secrets/hash-key"
"""

from penstock.policies.data_contract.policy import DataContract
from penstock.policies.drop import DropRecords
from penstock.policies.header_required import HeaderRequired
from penstock.policies.json_fields import HashJsonFields, RedactJsonFields
from penstock.policies.json_schema.policy import JsonSchema
from penstock.policies.key_required import KeyRequired
from penstock.policies.max_bytes import MaxBytes
from penstock.policies.redact_tagged import RedactTagged
from penstock.policies.required import Required
from penstock.policies.rules.policy import Rules
from penstock.policies.schema_policy.policy import SchemaPolicy
from penstock.policies.topic_rules import ConfigRules, TopicRules

__all__ = [
    "ConfigRules",
    "DataContract",
    "DropRecords",
    "HashJsonFields",
    "HeaderRequired",
    "JsonSchema",
    "KeyRequired",
    "MaxBytes",
    "RedactJsonFields",
    "RedactTagged",
    "Required",
    "Rules",
    "SchemaPolicy",
    "TopicRules",
]
