"""Requests about topics, configs and offsets: each ends in time, and is retried until then."""
