"""Writers of raw batches, with and without transactions."""
