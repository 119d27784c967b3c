"""Topic configs: the topic level keys that are set through Kafka's admin tools.

`definitions` has the keys and their values, `index` the configs of each topic, `storage` the
compacted topic that stores them.
"""
