"""What is asked of the cluster as the gateway's own principal, through librdkafka."""
