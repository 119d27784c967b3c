"""Runs interceptors over batches."""
