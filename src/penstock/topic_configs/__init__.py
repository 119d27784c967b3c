"""The topic level keys that are set through Kafka's admin tools, and where they are kept.

`settings` knows the keys and their values, `index` what holds for which topic, `kept` in which
compacted topic.
"""
