"""The dead letters of a Produce request: stored in the cluster before their batch is sent.

Their headers are written by `penstock.engine.modes`, in `quarantine` and `dead_letters`.
"""
