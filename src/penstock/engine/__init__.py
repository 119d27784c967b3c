"""The part that the gateway and Spark share: a plan for a topic, a chain of policies, a verdict.

`plan` decides which policies a topic has; `instances` holds their configured instances; `chain`
judges records with them; `workers` runs chains in processes that can be killed.
"""
