"""Rules of data contracts: conditions in CEL with a schema or within it.

They are Confluent's: `ruleSet.domainRules` of kind CONDITION, mode WRITE or WRITEREAD and type
CEL or CEL_FIELD, and `confluent:rules`.
"""
