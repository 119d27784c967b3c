"""The requests and responses that the gateway reads or writes, by API."""
