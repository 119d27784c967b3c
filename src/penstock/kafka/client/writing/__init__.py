"""Writers of raw batches: in transactions, and as an idempotent producer."""
