"""What handlers of requests are given: the gateway's parts, a request, its exchange."""
