"""Where clients connect: listeners, TLS, the PROXY protocol, and the addresses of brokers."""
