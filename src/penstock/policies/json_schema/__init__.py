"""The policy `penstock.policies.JsonSchema`, and how it judges."""
