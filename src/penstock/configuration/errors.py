"""The one error of this package."""

from penstock.errors import PenstockError


class ConfigurationError(PenstockError):
    """Something in the configuration file, or a class it names, is not usable.

    The text names the file and the key, says what is wrong and what would be right; it
    ends the program with exit code 2 before the first client is served.
    """
