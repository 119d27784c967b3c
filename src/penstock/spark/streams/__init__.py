"""`split --streaming`: a query over offset ranges, its progress and its metrics."""
