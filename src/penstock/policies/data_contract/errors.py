"""The error about a contract."""


class ContractError(Exception):
    """A contract cannot be used; the text has the place and the reason."""
