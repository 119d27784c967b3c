"""The batches of a Produce request that may not be sent as they are."""
