"""Rules of data contracts: conditions in CEL beside a schema or within it.

They are Confluent's: `ruleSet.domainRules` of kind CONDITION, mode WRITE or WRITEREAD and type
CEL or CEL_FIELD, and `confluent:rules`.
"""

from penstock.policies.schema_policy.rules.rules import SchemaRules, compile_rules

__all__ = ["SchemaRules", "compile_rules"]
