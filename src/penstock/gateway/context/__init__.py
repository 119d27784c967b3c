"""The arguments of the handlers of requests: a request, its exchange, its connection."""
