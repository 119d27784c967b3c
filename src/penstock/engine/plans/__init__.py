"""Which policies judge a topic, from the configuration to loaded classes."""
