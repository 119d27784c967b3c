"""The dead letters of a Produce request: stored in the cluster before their batch is sent."""
