"""Ready-made interceptors (KIP-905), few of them, written against `penstock.policy` alone.

KIP-905 hands an interceptor no settings, so theirs are class attributes: derive a class in a
module beside the configuration file, and name that class there.

    from penstock.policies import HashJsonFields

    class HashCustomers(HashJsonFields):
        topics = "^customers"
        fields = ("email", "address.street", "cards[*].number")
        key_from = "file:/run/secrets/hash-key"
"""

from penstock.policies.drop import DropRecords
from penstock.policies.json_fields import HashJsonFields, RedactJsonFields

__all__ = ["DropRecords", "HashJsonFields", "RedactJsonFields"]
