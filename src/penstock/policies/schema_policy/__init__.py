"""The policy `penstock.policies.SchemaPolicy`, and how it judges."""
