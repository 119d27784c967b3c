"""A client's connection: its frames, how each request is handled, and the order of responses."""
