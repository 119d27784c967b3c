"""Where both doors meet: a plan for a topic, a chain of policies, a verdict.

`plan` says which policies a topic has; `policies` holds their configured instances; `chain`
judges records with them; `workers` runs chains in processes that can be killed.
"""
