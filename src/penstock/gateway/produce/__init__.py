"""Produce requests: judged, intercepted, sent on, answered."""
