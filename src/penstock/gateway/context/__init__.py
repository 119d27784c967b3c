"""The arguments of the handlers of requests: the gateway's parts, a request, its exchange."""
